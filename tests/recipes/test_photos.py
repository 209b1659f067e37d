"""The story of someone's own photos, and of photo patches without them."""

import json

import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.recipes.quick import results_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Ten classes of five small JPEG files that differ in color, and a file that is no image."""
    folder = tmp_path_factory.mktemp("photos")
    for row, label in enumerate(np.repeat(np.arange(10), 5)):
        color = np.random.default_rng(label).integers(0, 200, 3)
        pixels = color + np.random.default_rng(row).integers(0, 55, (40, 48, 3))
        (folder / f"class-{label}").mkdir(exist_ok=True)
        (folder / f"class-{label}" / f"{row}.jpg").write_bytes(tf.io.encode_jpeg(pixels.astype("uint8")).numpy())
    (folder / "class-0" / "broken.jpg").write_bytes(b"no image")
    return folder


def test_a_folder_becomes_a_table_a_picture_and_a_model_that_reads_files(photos, tmp_path, monkeypatch, capsys):
    results = results_of(monkeypatch, "photos", tmp_path, "--data", photos)
    assert set(results["results"]) == {"untrained network", "multi-similarity", "triplet"}
    scores = {name: results["results"][name]["map@r"] for name in ("multi-similarity", "triplet")}
    assert results["exported"] == max(scores, key=scores.get)
    assert (tmp_path / "neighbors.png").read_bytes().startswith(b"\x89PNG")
    extra = tmp_path / "saved_model" / "assets.extra"
    assert len(json.loads((extra / "class_names.json").read_text())) == 8  # two of the ten validate
    view = tfdml.datasets.Preprocessing(**json.loads((extra / "preprocessing.json").read_text()))
    assert view.shape == (64, 64, 3)
    printed = capsys.readouterr().out
    assert "broken.jpg" in printed
    assert f"{100 * results['results']['triplet']['recall@1']:.1f}" in printed


def test_photo_patches_are_the_photos_of_those_who_have_none_and_their_test_part_stays_closed(tmp_path, monkeypatch):
    opened = []
    all_parts = tfdml.datasets.photo_patches
    monkeypatch.setattr(
        tfdml.datasets, "photo_patches", lambda splits: opened.extend(splits) or all_parts(splits=splits)
    )
    results = results_of(monkeypatch, "photos", tmp_path)
    assert opened == ["train", "validation"]
    assert results["protocol"] == "photo-patches/photograph-disjoint-validation/exact-cosine/v1"
    assert (
        results_of(monkeypatch, "photos", tmp_path, "--resume")["results"] == results["results"]
    )  # nothing is left to train
