"""Three kinds of few-shot training, and the models of the zoo with tuned heads."""

import json
import runpy
from pathlib import Path

import pytest

RECIPE = str(Path(__file__).parents[2] / "recipes" / "few_shot.py")

pytestmark = pytest.mark.slow


def test_every_kind_is_measured_on_test_classes_and_an_episode_is_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["few_shot", "--quick", "--output", str(tmp_path)])
    runpy.run_path(RECIPE, run_name="__main__")
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/849-classes/first-100-classes"
    results = record["results"]
    assert {"pixels", "cross-entropy", "metric", "prototypical", "zoo, tuned heads"} < set(results)
    assert results["zoo, best model"]["100-way 1-shot apart"]["accuracy"] > 0.8  # it is trained
    assert results["pixels"]["5-way 1-shot"]["accuracy"] > 0.2
    assert f"{100 * results['metric']['5-way 5-shot']['accuracy']:.1f}" in capsys.readouterr().out
    assert (tmp_path / "episode.png").stat().st_size > 1000
