"""Outlines that search filled characters."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage

import tfdml

RECIPE = str(Path(__file__).parents[2] / "recipes" / "sketches.py")

pytestmark = pytest.mark.slow


def test_two_kinds_of_towers_are_measured_on_test_classes_and_exported(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sketches", "--quick", "--output", str(tmp_path)])
    runpy.run_path(RECIPE, run_name="__main__")
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["protocol"] == (
        "glyphs/class-disjoint/exact-cosine/v1/outlines-against-other-designs/first-40-classes"
    )
    assert set(found["results"]) == {"pixels", "shared", "separate"}
    assert found["results"]["shared"][0]["recall@1"] > 0.1  # of 40 classes
    assert f"{100 * found['results']['shared'][0]['recall@1']:.1f}" in capsys.readouterr().out
    images = tf.zeros((2, 32, 32, 1), "uint8")
    for kind in ("shared", "separate"):
        for tower in ("query", "gallery"):
            served = tf.saved_model.load(str(tmp_path / kind / tower)).signatures["serving_default"](images=images)
            assert served["embedding"].shape == (2, 128)


def test_outlines_are_morphological_gradients_and_no_query_is_an_outline_of_a_gallery_image():
    recipe = runpy.run_path(RECIPE)
    part = tfdml.datasets.glyphs(validation=True)[1].classes(range(5))
    for image, outline in zip(part.images[:5, :, :, 0], recipe["outlines"](part.images[:5])[:, :, :, 0], strict=True):
        expected = ndimage.morphological_gradient(image.astype(int), size=(3, 3), mode="nearest")
        np.testing.assert_array_equal(outline, expected)
    (queries, _), (gallery, _) = recipe["sides"](part)
    of_gallery = {image.tobytes() for image in recipe["outlines"](gallery)}
    assert len(queries) + len(gallery) == len(part)
    assert not of_gallery & {image.tobytes() for image in queries}
