"""The story that `make demo` runs."""

import json
import runpy
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest

import tfdml

RECIPE = Path(__file__).parents[2] / "recipes" / "glyphs.py"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """What a run leaves that is killed as soon as its first epoch is saved."""
    return tmp_path_factory.mktemp("stopped")


@pytest.fixture(scope="module")
def whole(stopped, tmp_path_factory):
    """The output folder of a quick run from begin to end, of which `stopped` is a copy after the first epoch."""
    output = tmp_path_factory.mktemp("whole")
    saved = tfdml.callbacks.TrainingCheckpoint.on_epoch_end

    def save_and_copy(checkpoint, epoch, logs=None):
        saved(checkpoint, epoch, logs)
        if epoch == 0:
            shutil.copytree(output, stopped, dirs_exist_ok=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfdml.callbacks.TrainingCheckpoint, "on_epoch_end", save_and_copy)
        patch.setattr("sys.argv", [str(RECIPE), "--quick", "--output", str(output)])
        runpy.run_path(str(RECIPE), run_name="__main__")  # in this process, which has loaded TensorFlow
    return output


def test_it_leaves_numbers_pictures_and_a_model(whole):
    results = json.loads((whole / "results.json").read_text())
    assert results["protocol"].startswith("glyphs/class-disjoint/exact-cosine/v1")
    assert results["seed"] == 0
    assert results["seconds"] > 0
    assert results["resumed_at_epoch"] == 0
    assert "tensorflow" in results["versions"]
    trained, untrained = results["results"]["trained network"], results["results"]["untrained network"]
    assert trained["map@r"] > 1.1 * untrained["map@r"]
    for picture in ("before.png", "after.png", "training.png"):
        assert (whole / picture).read_bytes().startswith(b"\x89PNG")
    assert (whole / "saved_model" / "saved_model.pb").exists()


def test_a_stopped_run_resumes_to_the_weights_of_an_unbroken_one(whole, stopped, monkeypatch, capsys):
    assert not (stopped / "results.json").exists()
    monkeypatch.setattr("sys.argv", ["glyphs", "--quick", "--resume", "--output", str(stopped)])
    runpy.run_path(str(RECIPE), run_name="__main__")
    printed = capsys.readouterr().out
    assert "Epoch 1/2" not in printed
    assert "Epoch 2/2" in printed
    ours, theirs = (json.loads((output / "results.json").read_text()) for output in (stopped, whole))
    assert ours["resumed_at_epoch"] == 1
    assert ours["results"] == theirs["results"]
    assert f"{100 * ours['results']['trained network']['recall@1']:.1f}" in printed
    found, expected = (keras.saving.load_model(output / "checkpoint.keras") for output in (stopped, whole))
    for ours, theirs in zip(found.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (stopped / "history.csv").read_text() == (whole / "history.csv").read_text()
