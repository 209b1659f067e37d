"""Verification of glyphs, and the readers and the alignment of faces in miniature."""

import json
import runpy
from pathlib import Path

import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "faces.py"

pytestmark = pytest.mark.slow


def test_a_network_is_tuned_and_its_decisions_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(RECIPE.parents[1])
    monkeypatch.setattr("sys.argv", ["faces", "--quick", "--output", str(tmp_path)])
    runpy.run_path(str(RECIPE), run_name="__main__")
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/first-40-classes/400-pairs-2-folds"
    assert set(record["results"]) == {"pixels", "network for search", "margin loss"}
    assert record["results"]["margin loss"][0]["accuracy"] > 0.85
    assert set(record["thresholds"]) == {"0", "1"}
    assert (tmp_path / "faces.png").stat().st_size > 10_000
    assert f"{100 * record['results']['margin loss'][0]['accuracy']:.2f}" in capsys.readouterr().out
