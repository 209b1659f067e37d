"""Patches that are compared by a descriptor and by a 2-channel network, and dense stereo."""

import json
import runpy
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.datasets.readers.miniatures import write_scene
from tfdml.datasets.readers.public import phototour as reader

RECIPE = str(Path(__file__).parents[2] / "recipes" / "patches.py")


def run(monkeypatch, output, *words):
    monkeypatch.setattr("sys.argv", ["patches", "--quick", "--output", str(output), *map(str, words)])
    runpy.run_path(RECIPE, run_name="__main__")
    return json.loads((output / "results.json").read_text())


def test_the_loss_of_a_row_is_a_cross_entropy_of_the_pixels_that_are_seen():
    row_loss = runpy.run_path(RECIPE)["row_loss"]
    similarities = np.random.default_rng(0).uniform(-1, 1, (1, 1, 3, 5)).astype(np.float32)
    matches = np.array([[[3.25, np.nan, 1.0]]], np.float32)
    s = similarities[0, 0] / 0.1
    # 3.25 is between the pixels 3 and 4; 2 is 1.25 away and does not count. 1 has no other pixel between 1 and 2 away
    # but 0 and 2, which are exactly 1 away.
    first = np.log(np.exp(s[0, [0, 1, 3, 4]]).sum()) - 0.75 * s[0, 3] - 0.25 * s[0, 4]
    last = np.log(np.exp(s[2, [1, 3, 4]]).sum()) - s[2, 1]
    value = row_loss(keras.ops.convert_to_tensor(matches), keras.ops.convert_to_tensor(similarities))
    assert float(value) == pytest.approx((first + last) / 2, rel=1e-5)
    hidden = row_loss(keras.ops.convert_to_tensor(matches * np.nan), keras.ops.convert_to_tensor(similarities))
    assert float(hidden) == 0


def test_half_of_the_drawn_pairs_match():
    drawn_pairs = runpy.run_path(RECIPE)["drawn_pairs"]
    labels = np.repeat(np.arange(5), 4)
    pairs = drawn_pairs(labels, 50)
    np.testing.assert_array_equal(labels[pairs.first] == labels[pairs.second], pairs.same)
    assert pairs.same.sum() == len(pairs) / 2 == 50
    assert (pairs.first != pairs.second).all()


@pytest.mark.slow
def test_networks_and_cross_correlation_are_measured_and_drawn(tmp_path, monkeypatch, capsys):
    found = run(monkeypatch, tmp_path, "--networks", "2ch")
    assert found["protocol"] == "photo-patches/photograph-disjoint/exact-cosine/v1/40"
    assert found["pairs"] == 1_000
    assert set(found["results"]) == {"descriptor", "2-channel", "2ch", "stereo"}
    assert 0 < found["results"]["descriptor"]["fpr95"] < found["results"]["2-channel"]["fpr95"] <= 1
    stereo = found["results"]["stereo"]
    assert stereo["bad"]["window 9"] == pytest.approx(0.0785, abs=5e-5)
    assert stereo["interval"]["window 9"][0] < 0.0785 < stereo["interval"]["window 9"][1]
    assert (tmp_path / "stereo.png").stat().st_size > 50_000
    assert "stereo, window 9       bad pixels 7.9%" in capsys.readouterr().out


@pytest.mark.slow
def test_phototour_is_read_from_its_files_and_all_pairs_are_decided(tmp_path, monkeypatch):
    counts = [write_scene(tmp_path / "data" / scene, pairs=1_000) for scene in ("liberty", "notredame")]
    monkeypatch.setattr(reader, "COUNTS", counts[0] | counts[1])
    found = run(monkeypatch, tmp_path / "runs", "--data", tmp_path / "data", "--networks", "siam")
    assert found["protocol"] == "phototour/liberty-to-notredame/fpr95-1000/v1"
    assert found["pairs"] == 1_000
    assert set(found["results"]) == {"descriptor", "2-channel", "siam"}
    assert all(0 <= values["fpr95"] <= 1 for values in found["results"].values())
