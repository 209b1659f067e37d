"""The best model of a run, exported."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml import callbacks, losses, models

IMAGES = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 1), dtype="uint8")
LABELS = np.arange(8) // 2


class Say(keras.callbacks.Callback):
    """Write given values into the logs, None for nothing."""

    def __init__(self, values):
        super().__init__()
        self.values = values

    def on_epoch_end(self, epoch, logs=None):
        if self.values[epoch] is not None:
            logs["val_map@r"] = self.values[epoch]


class Collect(keras.callbacks.Callback):
    """The embeddings of every epoch."""

    def on_train_begin(self, logs=None):
        self.embeddings = []

    def on_epoch_end(self, epoch, logs=None):
        self.embeddings.append(self.model.predict(IMAGES, verbose=0))


def fit(export, values):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    model = models.EmbeddingModel(inputs, models.plain(inputs, dim=4, widths=(4,)))
    model.compile(keras.optimizers.Adam(0.05), loss=losses.MultiSimilarityLoss())
    collect = Collect()
    model.fit(IMAGES, LABELS, epochs=len(values), verbose=0, callbacks=[Say(values), export, collect])
    return collect.embeddings


def exported(path):
    served = tf.saved_model.load(str(path))
    return served.signatures["serving_default"](images=tf.constant(IMAGES))["embedding"].numpy()


@pytest.mark.parametrize(
    ("mode", "values", "best"),
    [
        ("max", [0.1, 0.4, 0.3, 0.4], 1),
        ("min", [0.3, 0.4, 0.2, 0.9], 2),
        ("max", [0.2, None, 0.5, None], 2),
        ("max", [float("nan"), 0.5, float("nan")], 1),
    ],
)
def test_it_holds_the_model_of_the_best_epoch(tmp_path, mode, values, best):
    export = callbacks.ExportBest(tmp_path / "model", monitor="val_map@r", mode=mode)
    embeddings = fit(export, values)
    assert export.best == values[best]
    np.testing.assert_allclose(exported(tmp_path / "model"), embeddings[best], atol=1e-5)
    assert not np.allclose(embeddings[best], embeddings[best - 1], atol=1e-3)


def test_a_run_that_goes_on_beats_what_it_had(tmp_path):
    fit(callbacks.ExportBest(tmp_path / "model", best=0.45), [0.1, 0.4])
    assert not (tmp_path / "model").exists()


def test_a_monitor_that_is_not_there_is_named_with_those_that_are(tmp_path):
    with pytest.raises(ValueError, match=r"monitor='val_mapr'.*expected one of \['loss', 'val_map@r'\]"):
        fit(callbacks.ExportBest(tmp_path / "model", monitor="val_mapr"), [0.1, 0.2])


def test_what_is_wrong_is_said_at_the_call(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="mode='best', expected 'max' or 'min'"):
        callbacks.ExportBest(tmp_path / "model", mode="best")
    with pytest.raises(OSError, match="expected a place that can be written"):
        callbacks.ExportBest(tmp_path / "file" / "model")
    with pytest.raises(ValueError, match="something other than a SavedModel"):
        callbacks.ExportBest(tmp_path / "file")
    with pytest.raises(ValueError, match=r"ends in '\.keras'"):
        callbacks.Checkpoint(tmp_path / "model.h5")
    with pytest.raises(OSError, match="expected a place that can be written"):
        callbacks.Checkpoint(tmp_path / "file" / "model.keras")


def test_a_checkpoint_goes_on_to_the_weights_of_an_unbroken_run(tmp_path):
    def make():
        keras.utils.set_random_seed(0)
        inputs = keras.Input((8, 8, 1), dtype="uint8")
        model = models.EmbeddingModel(inputs, models.plain(inputs, dim=4, widths=(4,)))
        model.compile("adam", loss=losses.MultiSimilarityLoss())
        return model

    batches = tf.data.Dataset.from_tensors((IMAGES, LABELS)).repeat()
    whole, broken = make(), make()
    settings = {"steps_per_epoch": 2, "shuffle": False, "verbose": 0}
    whole.fit(batches, epochs=4, **settings)
    broken.fit(batches, epochs=2, callbacks=[callbacks.Checkpoint(tmp_path / "state.keras")], **settings)
    again = keras.saving.load_model(tmp_path / "state.keras")
    assert int(again.optimizer.iterations) == 4
    again.fit(batches, initial_epoch=2, epochs=4, **settings)
    for ours, theirs in zip(whole.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert [path.name for path in tmp_path.iterdir()] == ["state.keras"]
