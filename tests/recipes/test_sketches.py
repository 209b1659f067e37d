"""Outlines that search filled characters."""

import pytest
import tensorflow as tf

from tests.recipes.quick import results_of

pytestmark = pytest.mark.slow


def test_two_kinds_of_towers_are_measured_on_test_classes_and_exported(tmp_path, monkeypatch, capsys):
    found = results_of(monkeypatch, "sketches", tmp_path)
    assert found["protocol"] == (
        "glyphs/class-disjoint/exact-cosine/v1/first-40-classes/outlines-against-other-designs"
    )
    assert set(found["results"]) == {"pixels", "shared", "separate"}
    assert found["results"]["shared"][0]["recall@1"] > 0.1  # of 40 classes
    assert f"{100 * found['results']['shared'][0]['recall@1']:.1f}" in capsys.readouterr().out
    images = tf.zeros((2, 32, 32, 1), "uint8")
    for kind in ("shared", "separate"):
        for tower in ("query", "gallery"):
            served = tf.saved_model.load(str(tmp_path / kind / tower)).signatures["serving_default"](images=images)
            assert served["embedding"].shape == (2, 128)
