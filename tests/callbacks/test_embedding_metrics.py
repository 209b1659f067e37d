"""Any metrics in the logs of `fit`, on several sets, on a schedule, within a share of the time."""

import numpy as np
import pytest
import tensorflow as tf

from tests.callbacks.small import LABELS, PART, X, fit, make
from tfdml import callbacks, metrics


def spread(embeddings, part):
    """A number per set and model that a test can compute again."""
    return {"spread": embeddings[part.labels == 0].std()}


@pytest.mark.backends
def test_a_function_of_embeddings_and_set_gives_the_numbers_of_each_epoch():
    model = make()
    history = fit(model, callbacks.EmbeddingMetrics(PART, spread))
    assert set(history) == {"loss", "val_spread"}
    assert len(history["val_spread"]) == 3
    assert history["val_spread"][-1] == pytest.approx(model.predict(X, verbose=0)[:5].std())
    assert history["val_spread"][0] != history["val_spread"][1]
    assert callbacks.EmbeddingMetrics(PART, spread).evaluate(model) == {"spread": history["val_spread"][-1]}


def test_numbers_of_a_metric_are_in_the_logs_and_its_texts_are_not():
    history = fit(
        make(), callbacks.EmbeddingMetrics(PART, lambda x, part: metrics.clustering(x, part.labels)), epochs=1
    )
    assert {f"val_{name}" for name in ("nmi", "ami", "f1", "clusters", "seed", "restarts")} <= set(history)
    assert "val_algorithm" not in history


def test_two_sets_and_several_functions_in_one_fit_lose_nothing():
    train, test = PART.take(slice(40)), PART.take(slice(40, None))
    model = make()
    history = fit(
        model,
        callbacks.RetrievalEvaluation(train, k=(1, 4), prefix="train_", every=2),
        callbacks.RetrievalEvaluation(test, k=(1, 4)),
        callbacks.EmbeddingMetrics(train, spread, prefix="train_"),
        callbacks.EmbeddingMetrics(test, lambda x, part: {"size": len(part), "dim": x.shape[1]}),
    )
    x = model.predict(X, verbose=0)
    for prefix, rows, epochs in [("train_", slice(40), 3), ("val_", slice(40, None), 3)]:
        expected = metrics.retrieval(x[rows], LABELS[rows], k=(1, 4))
        for name in set(expected) - {"queries", "skipped"}:
            assert history[prefix + name][-1] == pytest.approx(expected[name])
            assert len(history[prefix + name]) == epochs
    assert history["train_spread"][-1] == pytest.approx(x[:5].std())
    assert (history["val_size"], history["val_dim"]) == ([20.0] * 3, [4.0] * 3)


class Clock:
    """A clock that only moves when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now

    def takes(self, seconds, result=None):
        self.now += seconds
        return result


@pytest.fixture
def clock(monkeypatch):
    """The clock of `fit`, on which an epoch takes as long as `Epochs` says, and nothing else takes time."""
    clock = Clock()
    monkeypatch.setattr("tfdml.callbacks.base.time.monotonic", clock)
    return clock


class Same:
    """A model whose embedding is its input."""

    def predict_on_batch(self, x):
        return np.asarray(x)


def logs_of_epochs(evaluation, clock, epochs, seconds):
    """The logs of a run whose epochs take some seconds."""
    evaluation.set_params({"epochs": epochs})
    evaluation.on_train_begin()
    logs = [{} for _ in range(epochs)]
    for epoch in range(epochs):
        clock.takes(seconds)
        evaluation.on_epoch_end(epoch, logs[epoch])
    return logs


def evaluated(logs, key="val_n"):
    """The epochs, from 1, whose logs have a key."""
    return [epoch for epoch, found in enumerate(logs, start=1) if key in found]


def slow(clock, seconds, **options):
    """An evaluation that takes some seconds."""
    evaluation = callbacks.EmbeddingMetrics(PART, lambda *_: clock.takes(seconds, {"n": 1}), **options)
    evaluation.set_model(Same())
    return evaluation


def test_evaluation_waits_until_it_takes_no_more_than_its_share(clock):
    # Epochs of 10 s, evaluations of 4 s, a share of 0.2. The first: 4 of 14 s. Another one would make 8 / 28 after
    # epoch 2, 8 / 38 after 3, and 8 / 48 after 4, the first share of at most 0.2. Then 12 / 62 after 5 is 0.19, 16 / 76
    # after 6 is 0.21, and 16 / 86 after 7 is 0.19. The last one, after 8, makes 20 / 100.
    logs = logs_of_epochs(slow(clock, 4, max_time_fraction=0.2), clock, 8, seconds=10)
    assert evaluated(logs) == [1, 4, 5, 7, 8]
    expected = [4 / 14, 4 / 24, 4 / 34, 8 / 48, 12 / 62, 12 / 72, 16 / 86, 20 / 100]
    assert [found["val_time_fraction"] for found in logs] == pytest.approx(expected)


def test_a_share_and_every_both_hold(clock):
    assert evaluated(logs_of_epochs(slow(clock, 1, max_time_fraction=0.9, every=3), clock, 7, seconds=1)) == [
        1,
        3,
        6,
        7,
    ]
    assert evaluated(logs_of_epochs(slow(clock, 1, max_time_fraction=0.2, every=3), clock, 7, seconds=1)) == [1, 7]


def test_time_is_measured_anew_in_each_run(clock):
    evaluation = slow(clock, 1, max_time_fraction=0.01)
    for _ in range(2):
        logs = logs_of_epochs(evaluation, clock, 3, seconds=1)
        assert evaluated(logs) == [1, 3]
        assert [found["val_time_fraction"] for found in logs] == pytest.approx([1 / 2, 1 / 3, 2 / 5])
        clock.takes(1000)


@pytest.mark.filterwarnings("ignore:The loss of epoch . is not finite")
@pytest.mark.parametrize("weights", [0.0, np.nan])
def test_a_collapsed_model_gets_the_numbers_of_random_embeddings_and_a_warning(weights):
    model = make()
    model.optimizer.learning_rate = 0.0
    model.set_weights([np.full_like(weight, weights) for weight in model.get_weights()])
    evaluation = callbacks.EmbeddingMetrics(PART, lambda x, part: {"mean": x.mean(), "std": x.std()})
    with pytest.warns(UserWarning, match=r"After epoch 1 .* The val_\* metrics belong to random embeddings."):
        history = fit(model, evaluation, epochs=1)
    assert abs(history["val_mean"][0]) < 0.2
    assert history["val_std"][0] == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("index", ["exact", pytest.param("scann", marks=pytest.mark.slow)])
@pytest.mark.parametrize("with_gallery", [False, True])
def test_sampled_queries_are_searched_in_the_whole_set_and_counted(index, with_gallery):
    model = make()
    x = model.predict(X, verbose=0)
    gallery = (X[::-1], LABELS[::-1]) if with_gallery else None
    evaluation = callbacks.RetrievalEvaluation((X, LABELS), k=(1, 4), sample=20, index=index, gallery=gallery)
    rows = np.sort(np.random.default_rng(0).choice(60, 20, replace=False))
    options = {"gallery": x[::-1], "gallery_labels": LABELS[::-1]} if with_gallery else {}
    every_query = metrics.retrieval(x, LABELS, k=(1, 4), per_query=True, **options)
    found = evaluation.evaluate(model)
    assert (found["queries"], found["skipped"]) == (20, 0)
    for name in ("recall@1", "recall@4", "r_precision", "map@r"):
        assert found[name] == pytest.approx(every_query[name][rows].mean())
    history = fit(model, evaluation, epochs=2)
    assert (history["val_queries"], history["val_skipped"]) == ([20, 20], [0, 0])


def test_a_sample_is_drawn_among_queries_with_a_match():
    labels = np.where(np.arange(60) < 2, 0, np.arange(60))  # two of one class, 58 of others
    found = callbacks.RetrievalEvaluation((X, labels), sample=1).evaluate(make())
    assert (found["queries"], found["skipped"]) == (1, 0)


def test_a_sample_larger_than_the_set_is_the_set():
    model = make()
    whole, sampled = (callbacks.RetrievalEvaluation((X, LABELS), sample=n).evaluate(model) for n in (None, 60))
    assert sampled == whole


def test_ranks_that_are_not_given_fit_the_set_and_given_ones_are_checked():
    few = PART.take(slice(6))  # five of one class, one of another
    found = callbacks.RetrievalEvaluation(few).evaluate(make())
    assert [name for name in found if name.startswith("recall")] == ["recall@1", "recall@2", "recall@4"]
    assert (found["queries"], found["skipped"]) == (5, 1)
    with pytest.raises(ValueError, match="k=8 and 5 candidates per query, expected ranks up to that number"):
        callbacks.RetrievalEvaluation(few, k=(1, 8))
    with pytest.raises(ValueError, match="k=8 and 6 candidates"):
        callbacks.RetrievalEvaluation(PART, gallery=few, k=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"function": "recall"}, "function='recall', expected a function of embeddings and data"),
        ({"data": PART.take([])}, "a set without examples"),
        ({"data": tf.data.Dataset.from_tensors(X)}, "data of type _TensorDataset, expected a labeled set"),
    ],
)
def test_what_is_wrong_is_said_at_the_call(options, message):
    with pytest.raises(ValueError, match=message):
        callbacks.EmbeddingMetrics(**{"data": PART, "function": spread, **options})


@pytest.mark.parametrize("result", [0.5, {"curve": [1.0, 2.0]}])
def test_a_function_that_returns_no_dict_of_numbers_is_an_error(result):
    with pytest.raises(ValueError, match="expected a dict of numbers"):
        callbacks.EmbeddingMetrics(PART, lambda *_: result).evaluate(make())
