"""The evaluator of other training loops: values of `compare`, the form of sentence-transformers, errors at the call."""

import csv
import re

import numpy as np
import pytest

from tfdml import evaluation, metrics

LABELS = np.repeat(np.arange(8), 3)
WORDS = [f"text {row}" for row in range(24)]
VECTORS = np.random.default_rng(0).normal(size=(8, 6))[LABELS] + np.random.default_rng(1).normal(size=(24, 6))


class Model:
    """A stand-in for a model of sentence-transformers 6.2, with its model card."""

    def __init__(self, vectors):
        self.vectors, self.card, self.model_card_data = vectors, [], self

    def encode(self, inputs):
        return self.vectors[[int(text.removeprefix("text ")) for text in inputs]]

    def set_evaluation_metrics(self, evaluator, numbers, epoch, step):
        self.card.append((evaluator.description, evaluator.name, numbers[evaluator.primary_metric], epoch, step))


@pytest.mark.parametrize("labels", [LABELS, [f"class {label}" for label in LABELS]], ids=["numbers", "texts"])
def test_batches_give_the_means_and_intervals_of_the_whole(labels):
    evaluator = evaluation.EmbeddingEvaluator()
    for _ in range(2):
        evaluator.reset()
        for start in range(0, 24, 7):
            evaluator.update(VECTORS[start : start + 7], labels[start : start + 7])
        numbers = evaluator.compute()
    expected = {}
    for name in ("map@r", "recall@1", "r_precision", "mrr"):
        values = metrics.retrieval(VECTORS, LABELS, k=1, per_query=True)[name]
        low, high = metrics.class_interval(values, LABELS)
        expected |= {name: values.mean(), f"{name}_low": low, f"{name}_high": high}
    assert numbers == expected
    assert {type(value) for value in numbers.values()} == {float}


def test_a_buffer_may_be_filled_again_after_an_update():
    buffer, labels = VECTORS.astype("float32"), LABELS.copy()
    evaluator = evaluation.EmbeddingEvaluator(metrics=("mrr",))
    evaluator.update(buffer, labels)
    before = evaluator.compute()
    buffer[:], labels[:] = 0, 0
    assert evaluator.compute() == before


def test_a_call_returns_prefixed_numbers_writes_rows_and_fills_the_model_card(tmp_path):
    """As a SequentialEvaluator of sentence-transformers 6.2 does it for a list of evaluators."""
    evaluator = evaluation.EmbeddingEvaluator(
        WORDS, LABELS, name="dev", metrics=("mrr", "clustering"), metric="euclidean"
    )
    model = Model(VECTORS)
    found = [evaluator(model, str(tmp_path / "eval"), epoch, 10) for epoch in (0.5, 1.0)]
    means = evaluation.compare({"a": VECTORS}, LABELS, metrics=("mrr", "clustering"), metric="euclidean").means["a"]
    mrr = means["mrr"]
    wholes = {name: means[name].value for name in ("nmi", "ami", "f1")}
    expected = {"mrr": mrr.value, "mrr_low": mrr.low, "mrr_high": mrr.high, **wholes}
    assert found == [{f"dev_{name}": value for name, value in expected.items()}] * 2
    assert evaluator.primary_metric == "dev_mrr"
    assert model.card == [(evaluator.description, "dev", mrr.value, epoch, 10) for epoch in (0.5, 1.0)]
    with open(tmp_path / "eval" / "embedding_evaluation_dev_results.csv", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["epoch", "steps", "metric", "value", "low", "high"]
    assert rows[0] == ["0.5", "10", "mrr", *(str(float(value)) for value in mrr[:3])]
    assert [row[0] for row in rows] == ["0.5"] * 4 + ["1.0"] * 4
    assert rows[1] == ["0.5", "10", "nmi", str(wholes["nmi"]), "", ""]


def test_a_call_by_hand_needs_no_name_no_folder_and_no_model_card():
    class Encoder:
        def encode(self, inputs):
            return VECTORS.tolist()

    evaluator = evaluation.EmbeddingEvaluator(WORDS, LABELS)
    evaluator.update(VECTORS[:3], LABELS[:3])
    numbers = evaluator(Encoder())
    assert evaluator.primary_metric == "map@r"
    evaluator.update(VECTORS[3:], LABELS[3:])
    assert evaluator.compute() == numbers


def test_fewer_than_six_classes_have_no_bounds(tmp_path):
    evaluator = evaluation.EmbeddingEvaluator(WORDS[:15], LABELS[:15], metrics=("mrr",))
    assert list(evaluator(Model(VECTORS), tmp_path)) == ["mrr"]
    assert (tmp_path / "embedding_evaluation__results.csv").read_text().splitlines()[1].endswith(",,")


def test_ties_are_a_warning():
    evaluator = evaluation.EmbeddingEvaluator()
    evaluator.update(np.concatenate([VECTORS, VECTORS]), np.concatenate([LABELS, LABELS[::-1]]))
    with pytest.warns(UserWarning, match="of the queries the first relevant item ties with one that is not relevant"):
        evaluator.compute()


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda make: make(metrics=("mpa",)), "Received metrics ['mpa'], expected names such as"),
        (lambda make: make(metric="l2"), "Received metric='l2', expected one of"),
        (lambda make: make(WORDS, LABELS[:5]), "Received labels of shape (5,), expected (24, ...): one entry per row."),
        (lambda make: make(WORDS), "Received labels of shape (), expected (24, ...): one entry per row."),
        (lambda make: make().compute(), "Received no batches, expected update(embeddings, labels) before compute()."),
        (lambda make: make()(Model(VECTORS)), "Received a call without inputs, expected EmbeddingEvaluator(inputs, la"),
        (lambda make: make().update(VECTORS, LABELS[:5]), "Received labels of shape (5,), expected (24, ...)"),
        (lambda make: make().update(VECTORS * np.nan, LABELS), "Received embeddings with a value that is NaN"),
        (lambda make: make(WORDS, LABELS)(Model(VECTORS * 0)), "embeddings that are all the same"),
    ],
)
def test_bad_input_is_named_at_the_call(use, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        use(evaluation.EmbeddingEvaluator)


def test_batches_of_another_dim_are_refused():
    evaluator = evaluation.EmbeddingEvaluator()
    evaluator.update(VECTORS, LABELS)
    with pytest.raises(ValueError, match=r"embeddings of dim 4, expected 6, the dim of the first batch"):
        evaluator.update(VECTORS[:, :4], LABELS)
