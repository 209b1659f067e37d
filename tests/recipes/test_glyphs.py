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
        patch.setattr("sys.argv", [str(RECIPE), "--quick", *folders_in(output)])
        runpy.run_path(str(RECIPE), run_name="__main__")  # in this process, which has loaded TensorFlow
    return output


def folders_in(output):
    return "--output", str(output), "--models", str(output / "models")


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


def test_it_leaves_a_zoo_entry_with_the_numbers_of_its_table(whole):
    assert tfdml.zoo.check("glyphs", root=whole / "models") == ()
    card = tfdml.zoo.card("glyphs", root=whole / "models")
    trained = json.loads((whole / "results.json").read_text())["results"]["trained network"]
    assert card.protocol.startswith("glyphs/class-disjoint/exact-cosine/v1")
    assert card.metrics["recall@1"].value == pytest.approx(trained["recall@1"], abs=1e-3)
    assert card.metrics["map@r"].value == pytest.approx(trained["map@r"], abs=1e-3)


def test_it_leaves_a_report_and_an_index_that_finds_the_files_of_the_test_images(whole):
    assert "map@r" in (whole / "report.html").read_text().lower()
    index = tfdml.search.load(whole / "index")
    path, label = index.metadata.slice(5, 1).to_pylist()[0].values()
    found, _ = index.search(index.vectors[5:6], 1)
    assert found.tolist() == [[5]]
    test = tfdml.datasets.glyphs()[1]
    np.testing.assert_array_equal(keras.utils.load_img(path, color_mode="grayscale"), test.images[5, :, :, 0])
    assert label == test.class_names[test.labels[5]]


def test_a_stopped_run_resumes_to_the_weights_of_an_unbroken_one(whole, stopped, monkeypatch, capsys):
    assert not (stopped / "results.json").exists()
    monkeypatch.setattr("sys.argv", ["glyphs", "--quick", "--resume", *folders_in(stopped)])
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
