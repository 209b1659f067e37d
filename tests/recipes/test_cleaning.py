"""The recipe of cleaning, small."""

import json

import pytest

pytest.importorskip("imagehash")

from recipes import cleaning as recipe


@pytest.mark.slow
def test_the_recipe_measures_verified_copies_beside_both_hashes(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["cleaning", "--quick", "--output", str(tmp_path)])
    recipe.main()
    record = json.loads((tmp_path / "results.json").read_text())
    assert set(record["results"]) == {"network", "verified", "pHash", "dHash"}
    verified = record["results"]["verified"]
    assert verified["precision"][0] >= 0.95
    assert verified["crop"][0] > record["results"]["pHash"]["crop"][0]
    assert set(record["planted"]) == {"leak", "duplicate", "label", "outlier"}
    assert record["planted"]["leak"]["right"] > 0
    assert (tmp_path / "report" / "report.html").is_file()
    assert (tmp_path / "pairs.png").is_file()
