"""Three kinds of few-shot training, on glyphs."""

import pytest

from tests.recipes.quick import results_of

pytestmark = pytest.mark.slow


def test_every_kind_is_measured_on_test_classes_and_an_episode_is_drawn(tmp_path, monkeypatch, capsys):
    written = results_of(monkeypatch, "few_shot", tmp_path)
    assert written["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/100-classes"
    results = written["results"]
    assert set(results) == {"pixels", "cross-entropy", "metric", "prototypical", "zoo, best model"}
    assert results["zoo, best model"]["100-way 1-shot apart"]["accuracy"] > 0.8  # it is trained
    assert results["pixels"]["5-way 1-shot"]["accuracy"] > 0.2
    assert f"{100 * results['metric']['5-way 5-shot']['accuracy']:.1f}" in capsys.readouterr().out
    assert (tmp_path / "episode.png").stat().st_size > 1000
