"""The recipe of tracking from begin to end, on a few clips."""

import json

import pytest

from recipes import tracking as recipe


@pytest.mark.slow
def test_a_network_is_trained_and_followed_beside_a_template(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["tracking", "--quick", "--output", str(tmp_path)])
    recipe.main()
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["protocol"] == "moving-pieces/photograph-disjoint/ope/frames-10-seed-0/v1"
    assert set(results["runs"]) == set(results["frames_per_second"]) == {"network", "template"}
    (template,) = results["runs"]["template"]
    assert 0.2 < template["success_area"] < 1
    assert len(template["success_of_clips"]) == template["sequences"] == 3
    assert (tmp_path / "tracks.gif").stat().st_size > 1000
