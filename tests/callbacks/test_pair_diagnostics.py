"""Pair statistics in event files and logs, measured without side effects."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tfdml import analysis, callbacks, losses, miners, models

LABELS = np.arange(40) // 5
X = np.random.default_rng(0).standard_normal((40, 6)).astype("float32")
KEYS = ["active_negatives", "active_positives", "negative_distance", "negative_distance_std", "positive_distance"]


def make(loss=None, last=keras.layers.UnitNormalization, run_eagerly=True):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    outputs = keras.layers.Dense(4)(keras.layers.Dropout(0.3)(inputs))
    model = models.EmbeddingModel(inputs, last()(outputs))
    loss = losses.MarginLoss() if loss is None else loss
    model.compile(keras.optimizers.SGD(0.1), loss=loss, run_eagerly=run_eagerly)
    return model


def fit(model, *more, epochs=3, **options):
    return model.fit(X, LABELS, batch_size=20, epochs=epochs, verbose=0, callbacks=list(more), **options).history


def events(path):
    return EventAccumulator(str(path), size_guidance={"tensors": 0}).Reload()


def written(path, key):
    """{step: value} in the event files."""
    return {event.step: tf.make_ndarray(event.tensor_proto) for event in events(path).Tensors(f"pairs/{key}")}


def by_loops(model, loss):
    """The scalars of the model now, in float64."""
    x = model.predict(X, verbose=0).astype("float64")
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    d = {True: [], False: []}
    for i in range(40):
        for j in range(40):
            if i != j:
                d[bool(LABELS[i] == LABELS[j])].append(np.linalg.norm(x[i] - x[j]))
    active = analysis.active_pairs(loss, x, LABELS)
    return {
        "active_positives": active.positive,
        "active_negatives": active.negative,
        "positive_distance": np.mean(d[True]),
        "negative_distance": np.mean(d[False]),
        "negative_distance_std": np.std(d[False]),
    }


@pytest.mark.slow
def test_scalars_of_every_epoch_are_in_the_logs_and_in_the_event_file_which_can_be_read_meanwhile(tmp_path):
    model, seen = make(last=keras.layers.Identity), []
    read = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: seen.append([*written(tmp_path, "active_negatives")]))
    before = by_loops(model, losses.MarginLoss())
    diagnostics = callbacks.PairDiagnostics(X, LABELS, path=tmp_path, batch_size=7)
    history = fit(model, diagnostics, read)
    after = by_loops(model, losses.MarginLoss())
    assert seen == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert set(history) == {"loss", *KEYS}
    for key in KEYS:
        values = written(tmp_path, key)
        assert list(values) == [0, 1, 2, 3]
        assert values[0] == pytest.approx(before[key], rel=1e-5)
        assert values[3] == pytest.approx(after[key], rel=1e-5)
        assert [values[step] for step in (1, 2, 3)] == pytest.approx(history[key], rel=1e-6)
    assert before != after
    fit(model, diagnostics, epochs=4, initial_epoch=3)
    assert sorted(written(tmp_path, "positive_distance")) == [0, 1, 2, 3, 4]  # a resumed run continues the same graphs


def test_histograms_hold_every_ordered_pair(tmp_path):
    model = make()
    fit(model, callbacks.PairDiagnostics(X, LABELS, path=tmp_path), epochs=1)
    assert events(tmp_path).Tags()["tensors"] == [
        *(f"pairs/{key}" for key in ["active_positives", "active_negatives"]),
        *(f"pairs/{key}" for key in ["positive_distance", "negative_distance", "negative_distance_std"]),
        *("pairs/positive_distances", "pairs/negative_distances"),
    ]
    whole = analysis.pair_histogram(model.predict(X, verbose=0), LABELS, bins=1)
    for kind in ("positive", "negative"):
        left, right, counts = written(tmp_path, f"{kind}_distances")[1].T
        assert counts.sum() == getattr(whole, kind).sum()
        assert left[0] > 0
        assert right[-1] < 2


def test_every_takes_the_start_and_every_nth_epoch(tmp_path):
    history = fit(make(), callbacks.PairDiagnostics(X, LABELS, path=tmp_path, every=2), epochs=5)
    assert list(written(tmp_path, "active_negatives")) == [0, 2, 4]
    assert len(history["active_negatives"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_loss",
    [
        lambda: losses.TripletLoss(negatives=miners.RandomNegatives(seed=0)),
        lambda: losses.MarginLoss(miner=miners.DistanceWeighted(seed=0)),
    ],
    ids=["random negatives", "distance-weighted sampling"],
)
def test_the_diagnostics_have_no_side_effects(tmp_path, make_loss):
    seen = make(make_loss())
    history = fit(seen, callbacks.PairDiagnostics(X, LABELS, path=tmp_path))
    unseen = make(make_loss())
    assert history["loss"] == fit(unseen)["loss"]
    for ours, theirs in zip(seen.variables, unseen.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_loss_that_is_given_says_what_is_active_and_positive(tmp_path):
    match = losses.MarginLoss(boundary=0.5, match=lambda a, b: a[:, None] // 2 == b // 2)
    model = make()
    fit(model, callbacks.PairDiagnostics(X, LABELS, path=tmp_path, loss=match), epochs=1)
    x = model.predict(X, verbose=0)
    expected = analysis.active_pairs(losses.MarginLoss(boundary=0.5), x, LABELS // 2)
    assert written(tmp_path, "active_positives")[1] == pytest.approx(expected.positive)
    coarse = analysis.pair_histogram(x, LABELS // 2, bins=1)
    assert written(tmp_path, "positive_distances")[1][:, 2].sum() == coarse.positive.sum()


def test_what_is_wrong_is_said_at_the_call(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="Received 40 examples and 39 labels, expected one label per example"):
        callbacks.PairDiagnostics(X, LABELS[1:], path=tmp_path)
    with pytest.raises(OSError, match="expected a place that can be written"):
        callbacks.PairDiagnostics(X, LABELS, path=tmp_path / "file")


@pytest.mark.parametrize(("labels", "kind"), [(np.arange(40), "positive"), (np.zeros(40, int), "negative")])
def test_examples_of_one_kind_of_pairs_are_refused_before_training(tmp_path, labels, kind):
    with pytest.raises(ValueError, match=f"Received 40 examples without a {kind} pair, expected examples of several"):
        fit(make(), callbacks.PairDiagnostics(X, labels, path=tmp_path))


def test_a_model_without_a_loss_of_embeddings_is_asked_for_one(tmp_path):
    model = make()
    model.compile("sgd", loss="mse")
    with pytest.raises(ValueError, match=r"compiled with loss='mse', expected a loss of tfdml .* or pass loss=\."):
        fit(model, callbacks.PairDiagnostics(X, LABELS, path=tmp_path))
