"""The best model of a run, exported with its value."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml import callbacks, losses, models
from tfdml._core.atomic import atomic_write
from tfdml._core.checksums import write_checksums
from tfdml.callbacks import export_best
from tfdml.export.saved_model import CHECKSUMS

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


def record(path):
    return json.loads((path / "assets.extra" / "best.json").read_text())


@pytest.mark.slow
def test_it_holds_the_model_of_the_best_epoch_with_its_value(tmp_path):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    model = models.EmbeddingModel(inputs, models.plain_cnn(inputs, dim=4, widths=(4,)))
    model.compile(keras.optimizers.Adam(0.05), loss=losses.MultiSimilarityLoss(), run_eagerly=True)
    options = {"on_error": "skip", "assets_extra": {"notes.txt": b"first"}}
    export, found = callbacks.ExportBest(tmp_path / "model", monitor="val_map@r", mode="max", **options), []
    collect = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: found.append(model.predict(IMAGES, verbose=0)))
    model.fit(IMAGES, LABELS, epochs=3, verbose=0, callbacks=[Say([float("nan"), 0.4, 0.3]), export, collect])
    assert export.best == 0.4
    served = tf.saved_model.load(str(tmp_path / "model")).signatures
    embeddings = served["serving_default"](images=tf.constant(IMAGES))["embedding"]
    np.testing.assert_allclose(embeddings, found[1], atol=1e-5)
    assert not np.allclose(found[1], found[0], atol=1e-3)
    assert not np.allclose(found[1], found[2], atol=1e-3)
    assert record(tmp_path / "model") == {"monitor": "val_map@r", "mode": "max", "value": 0.4, "epoch": 1}
    assert (tmp_path / "model/assets.extra/notes.txt").read_bytes() == b"first"
    assert set(served["serve_bytes"].structured_outputs) == {"embedding", "error"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for exports that hold the epoch of their model, and none of the seconds that a SavedModel takes."""

    def write(model, path, *, assets_extra):
        files = {"assets.extra/versions.json", "assets.extra/best.json", "saved_model.pb", CHECKSUMS}
        with atomic_write(path, lambda folder: files) as partial:
            (partial / "assets.extra").mkdir(parents=True)
            (partial / "assets.extra" / "versions.json").write_text("{}")
            (partial / "assets.extra" / "best.json").write_bytes(assets_extra["best.json"])
            (partial / "saved_model.pb").write_text(str(int(model.optimizer.iterations) - 1))
            write_checksums(partial, CHECKSUMS)

    monkeypatch.setattr(export_best, "saved_model", write)
    return tmp_path / "model"


def epoch_of(folder):
    """The epoch of the exported model, which is that of its record."""
    epoch = int((folder / "saved_model.pb").read_text())
    assert record(folder)["epoch"] == epoch
    return epoch


def callback(values, folder, **options):
    return [Say(values), callbacks.ExportBest(folder, **options)]


def small():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    return model


def run(model, callbacks, epochs, initial_epoch=0):
    """One step an epoch."""
    x = np.ones((2, 1), "float32")
    model.fit(x, x, epochs=epochs, initial_epoch=initial_epoch, verbose=0, callbacks=callbacks)


@pytest.mark.parametrize(
    ("mode", "values", "best"),
    [
        ("max", [0.1, 0.4, 0.3, 0.4], 1),
        ("min", [0.3, 0.4, 0.2, 0.9], 2),
        ("max", [0.2, None, 0.5, None], 2),
        ("max", [float("nan"), 0.5, float("nan")], 1),
        ("min", [float("nan"), 0.5, float("nan")], 1),
        ("max", [float("inf"), 0.5, float("inf")], 1),
        ("min", [-float("inf"), 0.5, -float("inf")], 1),
    ],
)
def test_the_best_epoch_is_the_first_of_the_best_value(folder, mode, values, best):
    both = callback(values, folder, mode=mode)
    run(small(), both, len(values))
    assert epoch_of(folder) == best
    assert both[-1].best == values[best] == record(folder)["value"]


@pytest.mark.parametrize("stop", range(1, 5))
def test_a_run_that_resumes_at_any_epoch_ends_with_the_export_of_an_unbroken_one(folder, stop):
    values, best = [0.2, 0.5, 0.3, 0.1, 0.4], {"max": 1, "min": 3}

    def exports():
        return [callbacks.ExportBest(folder.parent / mode, mode=mode) for mode in best]

    model = small()
    run(model, [Say(values), *exports()], stop)
    resumed = exports()
    run(model, [Say(values), *resumed], len(values), initial_epoch=stop)
    for export, (mode, epoch) in zip(resumed, best.items(), strict=True):
        assert epoch_of(folder.parent / mode) == epoch
        assert export.best == values[epoch] == record(folder.parent / mode)["value"]


def test_a_new_run_over_an_old_export_is_told_what_to_beat_and_how_to_start_over(folder):
    run(small(), callback([0.1, 0.4], folder), 2)
    told = r"val_map@r=0.4 of epoch 2, and this run begins with epoch 1: .* start_over=True"
    with pytest.warns(UserWarning, match=told):
        run(small(), callback([0.3, 0.2, 0.4], folder), 3)
    assert record(folder)["value"] == 0.4
    assert epoch_of(folder) == 1
    with pytest.warns(UserWarning, match=told):
        run(small(), callback([0.3, 0.2, 0.41], folder), 3)
    assert record(folder)["value"] == 0.41
    assert epoch_of(folder) == 2


def test_a_run_that_starts_over_replaces_the_export_by_its_first(folder):
    run(small(), callback([0.1, 0.4], folder), 2)
    export = callbacks.ExportBest(folder, start_over=True)
    assert export.best is None
    run(small(), [Say([0.3, 0.2]), export], 2)
    assert epoch_of(folder) == 0
    run(small(), [Say([0.2, 0.35]), export], 2)
    assert record(folder)["value"] == 0.35


def test_a_second_fit_with_the_same_callback_needs_no_warning(folder):
    both = callback([0.3, 0.2], folder)
    for _ in range(2):
        run(small(), both, 2)
    assert epoch_of(folder) == 0


@pytest.mark.parametrize(("best", "start_over", "beaten"), [(0.3, False, 0.4), (0.6, False, 0.6), (0.3, True, 0.3)])
def test_the_better_of_two_values_has_to_be_beaten(folder, best, start_over, beaten):
    run(small(), callback([0.4], folder), 1)
    assert callbacks.ExportBest(folder, best=best, start_over=start_over).best == beaten


def test_a_value_to_beat_holds_without_an_export(folder):
    run(small(), callback([0.1, 0.4], folder, best=0.45), 2)
    assert not folder.exists()


def test_an_export_of_another_or_an_unknown_value_is_not_replaced_unless_asked(folder):
    run(small(), callback([0.4], folder), 1)
    with pytest.raises(ValueError, match=r"monitor='loss' and mode='max'.* 'val_map@r' and 'max'.*start_over=True"):
        callbacks.ExportBest(folder, monitor="loss")
    with pytest.raises(ValueError, match=r"mode='min', but the export"):
        callbacks.ExportBest(folder, mode="min")
    assert callbacks.ExportBest(folder, mode="min", start_over=True).best is None
    text = '{"monitor": "val_map@r", "mode": "max", "value": %s, "epoch": %s}'
    numbers = [('"x"', 1), ("1" + "0" * 400, 1), (1, "Infinity")]
    for damage in ('{"value": 1}', "[]", "{", "[" * 100_000, *(text % each for each in numbers)):
        (folder / "assets.extra" / "best.json").write_text(damage)
        with pytest.raises(ValueError, match=r"its value is not known.*start_over=True"):
            callbacks.ExportBest(folder)
    (folder / "assets.extra" / "best.json").unlink()
    with pytest.raises(ValueError, match=r"its value is not known.*start_over=True"):
        callbacks.ExportBest(folder)
    run(small(), callback([0.1], folder, start_over=True), 1)
    assert record(folder)["value"] == 0.1


def test_an_error_between_model_and_value_leaves_the_export_before(folder, monkeypatch):
    run(small(), callback([0.1], folder), 1)

    def broken(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dumps", broken)
    with pytest.raises(KeyboardInterrupt):
        run(small(), callback([0.1, 0.4], folder), 2, initial_epoch=1)
    assert epoch_of(folder) == 0
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_monitor_that_is_not_there_is_named_with_those_that_are(tmp_path):
    with pytest.raises(ValueError, match=r"monitor='val_mapr'.*expected one of \['loss', 'val_map@r'\]"):
        run(small(), callback([0.1, 0.2], tmp_path / "model", monitor="val_mapr"), 2)


def test_what_is_wrong_is_said_at_the_call(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TypeError, match="max_byte"):
        callbacks.ExportBest(tmp_path / "model", max_byte=3)
    with pytest.raises(OSError, match="expected a place that can be written"):
        callbacks.ExportBest(tmp_path / "file" / "model")
    with pytest.raises(FileExistsError, match="which is a file, expected the name of a folder"):
        callbacks.ExportBest(tmp_path / "file")
    with pytest.raises(ValueError, match=r"ends in '\.keras'"):
        callbacks.TrainingCheckpoint(tmp_path / "model.h5")
    with pytest.raises(OSError, match="expected a place that can be written"):
        callbacks.TrainingCheckpoint(tmp_path / "file" / "model.keras")


def test_a_model_with_a_weight_that_is_not_finite_is_not_exported(folder):
    model = small()
    model.layers[-1].kernel.assign(np.full((1, 1), np.nan))
    with pytest.warns(UserWarning, match=r"the variable .* is not finite\. The model is not exported"):
        run(model, callback([0.5], folder), 1)
    assert not folder.exists()
