"""The recipe of cleaning, small."""

import json

import pytest

pytest.importorskip("imagehash")

from recipes import cleaning as recipe


@pytest.mark.slow
def test_the_recipe_measures_the_network_beside_both_hashes(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["cleaning", "--quick", "--output", str(tmp_path)])
    recipe.main()
    record = json.loads((tmp_path / "results.json").read_text())
    assert set(record["results"]) == {"network", "network, best threshold", "pHash", "dHash"}
    best = record["results"]["network, best threshold"]
    assert best["precision"][0] >= 0.99
    assert best["crop"][0] > record["results"]["pHash"]["crop"][0]
    assert {"duplicate", "leak"} <= set(record["planted"])
    assert (tmp_path / "report" / "report.html").is_file()
