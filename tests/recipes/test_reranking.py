"""A search that a model of pairs ranks again."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import tfdml

RECIPE = str(Path(__file__).parents[2] / "recipes" / "reranking.py")

pytestmark = pytest.mark.slow


def test_a_search_is_reranked_on_test_classes_and_the_model_of_pairs_is_exported(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["reranking", "--quick", "--output", str(tmp_path)])
    runpy.run_path(RECIPE, run_name="__main__")
    written = json.loads((tmp_path / "results.json").read_text())
    results = written["recall@1"]
    assert written["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/first-40-classes/100-queries"
    assert 0 < results["search"][0] < results["model of pairs"][0] < 1
    assert (tmp_path / "reranking.png").stat().st_size > 1000
    loaded = tfdml.export.load(tmp_path / "export")
    images = np.zeros((2, 32, 32, 1), "uint8")
    assert loaded.predict_on_batch((images, images)).shape == (2,)
