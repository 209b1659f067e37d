"""Retrieval metrics in the logs of `fit`."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.callbacks.small import LABELS, NAMES, PART, X, fit, make
from tfdml import callbacks, losses, metrics, models, search
from tfdml.datasets import LabeledSet

KEYS = {"recall@1", "recall@4", "precision@1", "r_precision", "map@r", "map", "mrr", "queries", "skipped"}


FORMS = {
    "a labeled set": LabeledSet(images=X, labels=LABELS, class_names=NAMES),
    "a set that loads its images": LabeledSet(images=X, labels=LABELS, class_names=NAMES, load=tf.identity),
    "a set with a source": LabeledSet(source=list(X), labels=LABELS, class_names=NAMES),
    "a column of labels": [X, LABELS[:, None]],
    "a short last batch": tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(7),
    "a dataset with a column of labels": tf.data.Dataset.from_tensor_slices((X, LABELS[:, None])).batch(60),
}


@pytest.mark.backends
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_data_gives_the_same_numbers(form):
    model = make()
    found = callbacks.RetrievalEvaluation(FORMS[form], k=1, batch_size=16).evaluate(model)
    assert found == pytest.approx(metrics.retrieval(model.predict(X, verbose=0), LABELS, k=1))


@pytest.mark.parametrize("approximate", ["scann", search.Scann, lambda x, metric: search.Exact(x, metric=metric)])
def test_approximate_search_agrees_with_exact_and_says_how_well_it_searched(approximate):
    model = make()
    exact = callbacks.RetrievalEvaluation((X, LABELS), index=search.Exact).evaluate(model)
    assert exact == callbacks.RetrievalEvaluation((X, LABELS)).evaluate(model)
    found = callbacks.RetrievalEvaluation((X, LABELS), index=approximate).evaluate(model)
    assert found.pop("search_recall@9") == 1.0
    assert found.pop("mrr") <= exact.pop("mrr")  # hits beyond the list count 0
    assert exact.pop("map") > 0  # needs the whole ranking
    assert found == pytest.approx(exact, abs=1e-6)


QUERY = np.arange(60) % 5 < 2
HALVES = {"data": (X[QUERY], LABELS[QUERY]), "gallery": (X[~QUERY], LABELS[~QUERY])}


@pytest.mark.parametrize(
    "as_data", [lambda x, y: LabeledSet(images=x, labels=y, class_names=NAMES), lambda x, y: (x, y)]
)
def test_queries_are_searched_in_a_gallery(as_data):
    model = make()
    halves = {name: as_data(*half) for name, half in HALVES.items()}
    history = fit(model, callbacks.RetrievalEvaluation(**halves, k=(1, 4)), epochs=1)
    x = model.predict(X, verbose=0)
    expected = metrics.retrieval(x[QUERY], LABELS[QUERY], gallery=x[~QUERY], gallery_labels=LABELS[~QUERY], k=(1, 4))
    for key in KEYS - {"queries", "skipped"}:
        assert history[f"val_{key}"][-1] == pytest.approx(expected[key])


def test_a_gallery_that_collapsed_is_a_warning_and_the_lowest_score():
    evaluation = callbacks.RetrievalEvaluation(HALVES["data"], gallery=(np.ones_like(X), LABELS), k=1, index="scann")
    with pytest.warns(UserWarning, match="all embeddings are the same"):
        history = fit(make(), evaluation, epochs=1)
    assert history["val_recall@1"] == history["val_search_recall@1"] == [0.0]


def two_heads():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    embedding = keras.layers.Dense(4, name="embedding")(inputs)
    outputs = {"embedding": embedding, "category": keras.layers.Dense(3, name="category")(embedding)}
    model = models.EmbeddingModel(inputs, outputs)
    category = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss={"embedding": losses.MultiSimilarityLoss(), "category": category}, run_eagerly=True)
    return model


def test_one_head_of_a_model_with_several_outputs_is_evaluated_and_all_of_them_are_an_error():
    model = two_heads()
    head = keras.Model(model.input, model.output["embedding"])
    evaluation = callbacks.RetrievalEvaluation((X, LABELS), k=1, model=head)
    labels = {"embedding": LABELS, "category": LABELS % 3}
    history = model.fit(X, labels, epochs=2, verbose=0, callbacks=[evaluation]).history
    expected = metrics.retrieval(head.predict(X, verbose=0), LABELS, k=1)
    assert history["val_map@r"][-1] == pytest.approx(expected["map@r"])
    assert evaluation.evaluate(head) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"model of outputs .*embedding.*, expected one \(batch, dim\)"):
        evaluation.evaluate(model)


def test_queries_and_gallery_that_do_not_fit_are_refused():
    named = [LabeledSet(images=X, labels=LABELS, class_names=names) for names in (NAMES, NAMES[::-1])]
    with pytest.raises(ValueError, match="queries and a gallery with other class names"):
        callbacks.RetrievalEvaluation(named[0], gallery=named[1])
    with pytest.raises(ValueError, match="expected a labeled set, a pair"):
        callbacks.RetrievalEvaluation((X, LABELS), gallery=X)
    inputs = keras.Input((6,))
    one = keras.Model(inputs, keras.layers.Dense(4)(inputs))
    with pytest.raises(ValueError, match="model of two towers without gallery=, expected queries and a gallery"):
        callbacks.RetrievalEvaluation((X, LABELS)).evaluate(models.TwoTowers(one, one))


def multiplied(model, factor):
    """A callback that multiplies the weights at the end of the first epoch, and one that undoes it."""
    kept = []

    def multiply(epoch, logs):
        kept[:] = model.get_weights()
        model.set_weights([weight * (1.0 if epoch else factor) for weight in kept])

    undo = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: model.set_weights(kept))
    return keras.callbacks.LambdaCallback(on_epoch_end=multiply), undo


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (np.nan, r"After epoch 1 100.0% of the embeddings are not finite. Likely causes: a learning rate"),
        (0.0, r"After epoch 1 all embeddings are the same: the model has collapsed. Likely causes: averages of Batch"),
    ],
)
@pytest.mark.parametrize("index", ["exact", pytest.param("scann", marks=pytest.mark.slow)])
def test_an_epoch_without_a_ranking_is_a_warning_and_the_lowest_score(factor, message, index, tmp_path):
    model = make()
    multiply, undo = multiplied(model, factor)
    stop = keras.callbacks.EarlyStopping(monitor="val_map@r", mode="max", patience=2, restore_best_weights=True)
    slower = keras.callbacks.ReduceLROnPlateau(monitor="val_map@r", mode="max", patience=2)
    keep = keras.callbacks.ModelCheckpoint(
        tmp_path / "best.keras", monitor="val_map@r", mode="max", save_best_only=True, save_weights_only=False
    )
    watch = [callbacks.RetrievalEvaluation((X, LABELS), k=(1, 4), index=index), stop, slower, keep]
    with pytest.warns(UserWarning, match=message):
        history = fit(model, multiply, *watch, undo)
    scores = {key: values for key, values in history.items() if key.startswith("val_")}
    assert all(len(values) == 3 and values[0] == 0.0 for values in scores.values())
    assert min(min(values[1:]) for values in scores.values()) > 0
    best = max(history["val_map@r"])
    assert stop.best == slower.best == keep.best == best  # each saw the later epochs improve
    assert history["val_map@r"][stop.best_epoch] == best
    kept = keras.saving.load_model(tmp_path / "best.keras")
    assert metrics.retrieval(kept.predict(X, verbose=0), LABELS, k=1)["map@r"] == pytest.approx(best, abs=1e-6)


def test_evaluating_a_model_that_diverged_is_an_error_and_not_a_score():
    model = make()
    model.set_weights([np.full_like(weight, np.nan) for weight in model.get_weights()])
    with pytest.raises(ValueError, match=r"NaN|finite"):
        callbacks.RetrievalEvaluation((X, LABELS)).evaluate(model)


def test_long_work_shows_a_bar_and_short_work_none(capsys, monkeypatch):
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    callbacks.RetrievalEvaluation((X, LABELS)).evaluate(make())
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    callbacks.RetrievalEvaluation((X, LABELS), batch_size=10).evaluate(make())
    assert "6/6\n" in capsys.readouterr().err


def nan_in_row_7():
    x = X.copy()
    x[7, 2] = np.nan
    return x


PATHS = [f"{row:02d}.png" for row in range(60)]
ENDLESS = tf.data.Dataset.from_tensors((X, LABELS)).repeat()


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: callbacks.RetrievalEvaluation((X, LABELS[:-1])), "60 examples and 59 labels"),
        (lambda: callbacks.RetrievalEvaluation((X[:0], LABELS[:0])), "at least one"),
        (lambda: callbacks.RetrievalEvaluation((X, LABELS * 1.0)), "labels of dtype float64, expected integer"),
        (lambda: callbacks.RetrievalEvaluation((nan_in_row_7(), LABELS)), "NaN in the examples, first in row 7"),
        (lambda: callbacks.RetrievalEvaluation(([*map(Path, PATHS)], LABELS)), "examples of dtype object"),
        (lambda: callbacks.RetrievalEvaluation(X), "data of type ndarray, expected a labeled set"),
        (lambda: callbacks.RetrievalEvaluation(ENDLESS), "expected a finite one"),
        (lambda: callbacks.RetrievalEvaluation((X, LABELS), index="annoy"), "index='annoy', expected 'exact'"),
        (lambda: callbacks.RetrievalEvaluation((X, LABELS), k=0), "k=0"),
        (lambda: callbacks.RetrievalEvaluation(PART, metrics="recall"), "metrics='recall', expected a function"),
        (lambda: callbacks.RetrievalEvaluation((X[::5], LABELS[::5])), "12 queries of which none has a relevant item"),
        (
            lambda: callbacks.RetrievalEvaluation((X[:30], LABELS[:30]), gallery=(X[30:], LABELS[30:])),
            "none has a relevant item",
        ),
    ],
)
def test_what_is_wrong_is_said_at_the_call(make_it, message):
    with pytest.raises(ValueError, match=message):
        make_it()


@pytest.mark.parametrize("form", [list, np.array, lambda texts: np.array(texts, object), tf.constant])
def test_texts_are_evaluated_in_every_form(form):
    texts = [f"word{label} and {row % 3}" for row, label in enumerate(LABELS)]
    inputs, words = keras.Input((), dtype="string"), keras.layers.TextVectorization(20, output_mode="multi_hot")
    words.adapt(texts)
    model = models.EmbeddingModel(inputs, keras.layers.Dense(4)(words(inputs)))
    expected = metrics.retrieval(model.predict(tf.constant(texts), verbose=0), LABELS, k=1)
    found = callbacks.RetrievalEvaluation((form(texts[::2]), LABELS[::2]), gallery=(form(texts), LABELS), k=1)
    assert found.evaluate(model)["queries"] == 30
    assert callbacks.RetrievalEvaluation((form(texts), LABELS), k=1).evaluate(model) == pytest.approx(expected)


def test_names_of_files_for_a_network_of_numbers_are_an_error_before_the_first_step():
    model = make()
    with pytest.raises(ValueError, match=r"texts for an input of float32, expected numbers.*folder"):
        fit(model, callbacks.RetrievalEvaluation((PATHS, LABELS)))
    assert model.steps == 0


def test_an_empty_dataset_is_an_error():
    empty = tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(7).filter(lambda x, y: False)
    with pytest.raises(ValueError, match="set without examples"):
        callbacks.RetrievalEvaluation(empty).evaluate(make())


@pytest.mark.parametrize("index", ["exact", pytest.param("scann", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("sample", "with_gallery"), [(20, False), (20, True), (60, False)])
def test_sampled_queries_are_searched_in_the_whole_set_and_counted(index, sample, with_gallery):
    model = make()
    x = model.predict(X, verbose=0)
    gallery = (X[::-1], LABELS[::-1]) if with_gallery else None
    evaluation = callbacks.RetrievalEvaluation((X, LABELS), k=(1, 4), sample=sample, index=index, gallery=gallery)
    rows = np.sort(np.random.default_rng(0).choice(60, sample, replace=False))
    options = {"gallery": x[::-1], "gallery_labels": LABELS[::-1]} if with_gallery else {}
    every_query = metrics.retrieval(x, LABELS, k=(1, 4), per_query=True, **options)
    found = evaluation.evaluate(model)
    assert (found["queries"], found["skipped"]) == (sample, 0)
    for name in ("recall@1", "recall@4", "r_precision", "map@r"):
        assert found[name] == pytest.approx(every_query[name][rows].mean())
    history = fit(model, evaluation, epochs=2)
    assert (history["val_queries"], history["val_skipped"]) == ([sample] * 2, [0, 0])


def test_a_sample_is_drawn_among_queries_with_a_match():
    labels = np.where(np.arange(60) < 2, 0, np.arange(60))  # two of one class, 58 of others
    found = callbacks.RetrievalEvaluation((X, labels), sample=1).evaluate(make())
    assert (found["queries"], found["skipped"]) == (1, 0)


def test_ranks_that_are_not_given_fit_the_set_and_given_ones_are_checked():
    few = PART.take(slice(6))  # five of one class, one of another
    found = callbacks.RetrievalEvaluation(few).evaluate(make())
    assert [name for name in found if name.startswith("recall")] == ["recall@1", "recall@2", "recall@4"]
    assert (found["queries"], found["skipped"]) == (5, 1)
    with pytest.raises(ValueError, match="k=8 and 5 candidates per query, expected ranks up to that number"):
        callbacks.RetrievalEvaluation(few, k=(1, 8))
    with pytest.raises(ValueError, match="k=8 and 6 candidates"):
        callbacks.RetrievalEvaluation(PART, gallery=few, k=8)


def spread(embeddings, labels):
    """A number that a test can compute again."""
    return {"spread": embeddings[labels == labels[0]].std()}


@pytest.mark.backends
@pytest.mark.parametrize("data", [PART, (X, LABELS), tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(7)])
def test_numbers_of_a_function_stand_beside_those_of_the_search(data):
    model, evaluation = make(), callbacks.RetrievalEvaluation(data, k=1, metrics=spread)
    history = fit(model, evaluation)
    assert history["val_spread"][-1] == pytest.approx(model.predict(X, verbose=0)[:5].std())
    assert history["val_spread"][0] != history["val_spread"][1]
    assert evaluation.evaluate(model)["spread"] == history["val_spread"][-1]
    assert {f"val_{name}" for name in {*KEYS, "spread"} - {"queries", "skipped", "recall@4"}} < set(history)


def test_a_function_gets_all_queries_and_no_gallery_and_its_texts_are_not_logged():
    def clusters(embeddings, labels):
        np.testing.assert_array_equal(labels, LABELS[QUERY])
        return metrics.clustering(embeddings, labels) | {"dim": embeddings.shape[1]}

    model = make()
    history = fit(model, callbacks.RetrievalEvaluation(**HALVES, sample=5, metrics=clusters), epochs=1)
    expected = metrics.clustering(model.predict(X[QUERY], verbose=0), LABELS[QUERY])
    assert history["val_nmi"] == [pytest.approx(expected["nmi"])]
    assert history["val_dim"] == [4.0]
    assert "val_algorithm" not in history


def test_the_numbers_of_two_sets_in_one_fit_are_those_of_metrics_on_the_model_of_the_epoch():
    train, test = PART.take(slice(40)), PART.take(slice(40, None))
    model = make()
    options = {"k": (1, 4), "metrics": spread}
    history = fit(
        model,
        callbacks.RetrievalEvaluation(train, prefix="train_", every=2, **options),
        callbacks.RetrievalEvaluation(test, **options),
    )
    keys = {f"{prefix}{key}" for prefix in ("train_", "val_") for key in {*KEYS, "spread"} - {"queries", "skipped"}}
    assert set(history) == {*keys, "loss"}
    x = model.predict(X, verbose=0)
    for prefix, rows in [("train_", slice(40)), ("val_", slice(40, None))]:
        expected = metrics.retrieval(x[rows], LABELS[rows], k=(1, 4))
        assert set(expected) == KEYS
        for name in set(expected) - {"queries", "skipped"}:
            assert history[prefix + name][-1] == pytest.approx(expected[name])
            assert len(history[prefix + name]) == 3
        assert history[f"{prefix}spread"][-1] == pytest.approx(x[rows][:5].std())


@pytest.mark.filterwarnings("ignore:The loss of epoch . is not finite", "ignore:The embeddings of the last")
@pytest.mark.parametrize("weights", [0.0, np.nan])
def test_for_a_collapsed_model_a_function_gets_random_embeddings(weights):
    model = make()
    model.optimizer.learning_rate = 0.0
    model.set_weights([np.full_like(weight, weights) for weight in model.get_weights()])
    evaluation = callbacks.RetrievalEvaluation(PART, metrics=lambda x, labels: {"mean": x.mean(), "std": x.std()})
    with pytest.warns(UserWarning, match=r"After epoch 1 .* Those of metrics= belong to random embeddings."):
        history = fit(model, evaluation, epochs=1)
    assert abs(history["val_mean"][0]) < 0.2
    assert history["val_std"][0] == pytest.approx(1.0, abs=0.2)
    assert history["val_map@r"] == [0.0]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (0.5, "expected a dict of numbers"),
        ({"curve": [1.0, 2.0]}, "expected a dict of numbers"),
        ({"nmi": 1.0, "map@r": 0.5}, r"metrics that return \['map@r'\], names of the evaluation itself"),
    ],
)
def test_a_function_that_returns_something_else_is_an_error(result, message):
    with pytest.raises(ValueError, match=message):
        callbacks.RetrievalEvaluation(PART, metrics=lambda *_: result, at_sign="_at_").evaluate(make())
