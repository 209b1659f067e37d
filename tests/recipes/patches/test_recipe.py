"""Patches that are compared by a descriptor and by a 2-channel network, of photographs and of a small PhotoTourism."""

import pytest

from recipes.patches import __main__ as recipe
from recipes.patches.data import phototour as reader
from tests.recipes.patches.miniatures import write_scene
from tests.recipes.quick import results_of


@pytest.mark.slow
def test_both_networks_are_measured_beside_pixels_with_a_picture(tmp_path, monkeypatch):
    written = results_of(monkeypatch, recipe, tmp_path)
    assert written["protocol"] == "photo-patches/photograph-disjoint/exact-cosine/v1/40"
    assert (written["pairs"], written["loss"], written["hard_pairs"]) == (1_000, "multi-similarity", False)
    assert set(written["results"]) == {"pixels", "descriptor", "2-channel"}
    assert all(0 < values["fpr95"] <= 1 for values in written["results"].values())
    assert (tmp_path / "patches.png").stat().st_size > 10_000


@pytest.mark.slow
def test_phototour_is_read_from_its_files_and_all_pairs_are_decided(tmp_path, monkeypatch):
    counts = [write_scene(tmp_path / "data" / scene, pairs=1_000) for scene in ("liberty", "notredame")]
    monkeypatch.setattr(reader, "COUNTS", counts[0] | counts[1])
    options = ("--loss", "hardest", "--hard-pairs", "--networks", "siam")
    written = results_of(monkeypatch, recipe, tmp_path / "runs", "--data", tmp_path / "data", *options)
    assert written["protocol"] == "phototour/liberty-to-notredame/fpr95-1000/v1"
    assert (written["pairs"], written["loss"], written["hard_pairs"]) == (1_000, "hardest", True)
    assert set(written["results"]) == {"pixels", "descriptor", "2-channel", "siam"}
    assert all(0 <= values["fpr95"] <= 1 for values in written["results"].values())
