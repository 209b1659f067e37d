"""The recipe of cleaning, small."""

import pytest

pytest.importorskip("imagehash")

from recipes import cleaning as recipe
from tests.recipes.quick import results_of


@pytest.mark.slow
def test_the_recipe_measures_verified_copies_beside_both_hashes(tmp_path, monkeypatch):
    record = results_of(monkeypatch, recipe, tmp_path)
    assert set(record["results"]) == {"network", "verified", "pHash", "dHash"}
    verified = record["results"]["verified"]
    assert verified["precision"][0] >= 0.95
    assert verified["crop"][0] > record["results"]["pHash"]["crop"][0]
    assert set(record["planted"]) == {"leak", "duplicate", "label", "outlier"}
    assert record["planted"]["leak"]["right"] > 0
    assert (tmp_path / "report" / "report.html").is_file()
    assert (tmp_path / "pairs.png").is_file()
