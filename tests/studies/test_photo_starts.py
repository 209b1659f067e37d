"""The study of the starts of networks for photo patches: rows, tables, and the whole story on a few places."""

import csv
import json
import runpy

import keras
import numpy as np
import pytest

import tfdml
from recipes import zoo
from studies import pages, photo_patches, photo_starts, runner
from tests.studies.test_photo_patches import random_part


def one_convolution(*, weights, input_shape):
    """Stands in for EfficientNet-Lite0, with random weights."""
    images = keras.Input(input_shape)
    layers = [keras.layers.Conv2D(4, 16, strides=16, name=name) for name in ("blocks_2_add", "blocks_7_add")]
    return keras.Model(images, layers[1](keras.layers.UpSampling2D(16)(layers[0](images))))


@pytest.mark.slow
def test_a_quick_run_trains_both_starts_and_hands_a_network_over_and_trains_nothing_twice(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(tfdml.datasets, "photo_patches", lambda splits: [random_part(name) for name in splits])
    monkeypatch.setattr(photo_patches.baselines, "PAIRS", 500)
    monkeypatch.setattr(photo_starts, "REPETITIONS", 3)
    monkeypatch.setattr(photo_starts, "_averages", photo_patches.baselines.pixels)
    monkeypatch.setattr(tfdml.models, "efficientnet_lite", one_convolution)
    arguments = ["--quick", "--workers", "1", "--output", str(tmp_path)]
    photo_starts.main(arguments)
    assert capsys.readouterr().out.count(" trained: ") == 4  # two starts, and their test
    rows = list(csv.DictReader((tmp_path / "photo_starts.csv").read_text().splitlines()))
    assert [(row["start"], row["seed"]) for row in rows] == [("random", "0"), ("ImageNet", "0")]
    assert {row["protocol"] for row in rows} == {"test/first-16-places"}
    precisions = list(csv.DictReader((tmp_path / "photo_starts_precision.csv").read_text().splitlines()))
    sizes = {row["precision"]: int(row["bytes"]) for row in precisions}
    assert sizes["int8"] < 0.7 * sizes["float32"]  # codes of 8 numbers, and a step and an offset per vector
    handed_over = keras.saving.load_model(tmp_path / "zoo.keras", compile=False)
    assert handed_over.output_shape == (None, 8)
    assert "seconds of processor time" in json.loads((tmp_path / "zoo.json").read_text())
    photo_starts.main(arguments)
    assert " trained: " not in capsys.readouterr().out


@pytest.mark.slow
def test_a_network_of_imagenet_begins_with_its_weights_and_ignores_light_and_color():
    run = zoo.Run(layer="blocks_0_bn2", dim=4)
    model = zoo.pretrained(run)
    whole = tfdml.models.efficientnet_lite(weights="imagenet", input_shape=(64, 64, 3))
    inner = {layer.name: layer for layer in model.get_layer("backbone")._flatten_layers()}
    np.testing.assert_array_equal(inner["conv_stem"].get_weights()[0], whole.get_layer("conv_stem").get_weights()[0])
    image = np.random.default_rng(0).uniform(0, 200, (1, 64, 64, 1))
    views = np.concatenate([np.repeat(image, 3, axis=-1), np.repeat(1.2 * image + 10, 3, axis=-1)])
    views = np.concatenate([views, views[:1] + np.array([30.0, 0.0, -30.0])])
    embeddings = model.predict(views, verbose=0)
    np.testing.assert_allclose(embeddings[1:], embeddings[[0, 0]], atol=1e-3)


def test_the_published_networks_are_those_of_the_choice_with_about_the_same_processor_time():
    runs, trials = photo_starts.RUNS, runner.read_rows(photo_starts.CHOICE)
    rows = runner.read_rows(photo_starts.ROWS)
    expected = [(photo_starts.start_of(vars(run)), run.seed, run.steps) for run in runs]
    assert [(row["start"], row["seed"], row["steps"]) for row in rows] == expected
    for run in runs[::3]:
        same_start = [row for row in trials if bool(row["layer"]) == bool(run.layer)]
        best = max(same_start, key=lambda row: row["recall@1"])
        for name in ("layer", "learning_rate", "side", "decay"):
            assert best[name] == getattr(run, name)
    seconds = {
        start: np.mean([row["core_seconds"] for row in runner.where(rows, start=start)])
        for start in photo_starts.STARTS
    }
    assert max(seconds.values()) < 1.15 * min(seconds.values())
    assert {"validation" in row["protocol"] for row in trials} == {True}


def test_the_entry_of_the_zoo_is_the_network_of_the_first_seed():
    recipe = runpy.run_path(str(pages.ROOT / "recipes" / "zoo.py"))
    settings = vars(recipe["RUNS"][photo_starts.ENTRY])
    (run,) = [run for run in photo_starts.RUNS if run.layer and run.seed == 0]
    unused = {"widths": run.widths}  # of networks with random weights
    assert vars(run) == settings | unused | {"seed": recipe["SEED"]}
    (row,) = runner.where(runner.read_rows(photo_starts.ROWS), start="ImageNet", seed=0)
    card = tfdml.zoo.card(photo_starts.ENTRY, root=pages.ROOT / "savedmodels")
    assert card.metrics["recall@1"].value == pytest.approx(row["recall@1"], abs=1e-3)
    assert "EfficientNet-Lite0" in card.license
