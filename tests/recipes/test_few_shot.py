"""Three kinds of few-shot training, on glyphs and on miniatures of both original formats."""

import json
import runpy
from pathlib import Path

import pytest

RECIPE = str(Path(__file__).parents[2] / "recipes" / "few_shot.py")

pytestmark = pytest.mark.slow


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Function that runs the recipe with options and returns the results that it writes."""

    def run(*options):
        monkeypatch.setattr("sys.argv", ["few_shot", "--quick", "--output", str(tmp_path / "runs"), *options])
        runpy.run_path(RECIPE, run_name="__main__")
        return json.loads((tmp_path / "runs/results.json").read_text())

    return run


def test_every_kind_is_measured_on_test_classes_and_an_episode_is_drawn(record, tmp_path, capsys):
    written = record()
    assert written["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/100-classes"
    results = written["results"]
    assert set(results) == {"pixels", "cross-entropy", "metric", "prototypical", "zoo, best model"}
    assert results["zoo, best model"]["100-way 1-shot apart"]["accuracy"] > 0.8  # it is trained
    assert results["pixels"]["5-way 1-shot"]["accuracy"] > 0.2
    assert f"{100 * results['metric']['5-way 5-shot']['accuracy']:.1f}" in capsys.readouterr().out
    assert (tmp_path / "runs/episode.png").stat().st_size > 1000
