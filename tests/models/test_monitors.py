"""Monitors that no epoch will have are errors before the first step; programs that are right train."""

import keras
import numpy as np
import pytest

from tests.worlds import linear
from tfdml import callbacks, losses

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
LABELS = np.repeat(np.arange(4), 2)
EarlyStopping, Checkpoint = keras.callbacks.EarlyStopping, keras.callbacks.ModelCheckpoint


def evaluation(**options):
    return callbacks.RetrievalEvaluation((X, LABELS), k=(1, 2), **options)


class Own(keras.callbacks.Callback):
    """A user's callback, which writes a log."""

    def on_epoch_end(self, epoch, logs=None):
        logs["val_own"] = 1.0


@pytest.fixture(scope="module")
def model():
    return linear(losses.ContrastiveLoss(), dim=2, optimizer="sgd")


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (lambda folder: [callbacks.ExportBest(folder / "best", monitor="val_mapr"), evaluation()], "val_mapr"),
        (lambda folder: [evaluation(), callbacks.ExportBest(folder / "best", monitor="val_mapr")], "val_mapr"),
        (lambda folder: [callbacks.ExportBest(folder / "best", monitor="val_loss")], "without validation_data"),
        (lambda folder: [callbacks.ExportBest(folder / "best"), evaluation()], "before RetrievalEvaluation"),
        (lambda folder: [EarlyStopping("val_map@r", mode="max"), evaluation()], "List EarlyStopping after it"),
        (lambda folder: [evaluation(), EarlyStopping("val_recall@4", mode="max")], "val_recall@4"),
        (lambda folder: [evaluation(at_sign="_at_"), EarlyStopping("val_map@r", mode="max")], "val_map@r"),
        (lambda folder: [Checkpoint(folder / "a.keras", save_best_only=True), evaluation()], "val_loss"),
    ],
)
def test_a_monitor_that_nobody_writes_in_time_is_an_error_before_the_first_step(model, listed, message, tmp_path):
    steps = model.steps
    with pytest.raises(ValueError, match=message):
        model.fit(X, LABELS, epochs=2, verbose=0, callbacks=listed(tmp_path))
    assert model.steps == steps


def test_right_programs_train(model, tmp_path):
    def clusters(embeddings, labels):
        return {"nmi": 1.0}

    right = [
        [evaluation(), EarlyStopping("val_recall@2", mode="max"), EarlyStopping("loss")],
        [evaluation(metrics=clusters), EarlyStopping("val_nmi", mode="max")],
        [evaluation(), Own(), EarlyStopping("val_own", mode="max")],
        [Checkpoint(tmp_path / "a.keras"), evaluation(at_sign="_at_"), EarlyStopping("val_map_at_r", mode="max")],
        evaluation(),
        None,
    ]
    for listed in right:
        model.fit(X, LABELS, epochs=1, verbose=0, callbacks=listed)
    stop = EarlyStopping("val_loss")
    model.fit(X, LABELS, verbose=0, validation_data=(X, LABELS), callbacks=[stop, evaluation()])


def test_the_mode_of_a_monitor_is_that_of_its_metric_or_an_error_before_the_first_step(model):
    own = evaluation(metrics=lambda embeddings, labels: {"nmi": 1.0})
    for stop in (EarlyStopping("val_map@r"), keras.callbacks.ReduceLROnPlateau("val_recall@1")):
        model.fit(X, LABELS, epochs=2, verbose=0, callbacks=[own, stop])
        assert stop.mode == "max"
    steps = model.steps
    with pytest.raises(ValueError, match=r"EarlyStopping\(monitor='val_nmi'\) without a mode"):
        model.fit(X, LABELS, verbose=0, callbacks=[own, EarlyStopping("val_nmi")])
    assert model.steps == steps
