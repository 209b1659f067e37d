"""A search that a model of pairs ranks again."""

import numpy as np
import pytest

import tfdml
from tests.recipes.quick import results_of

pytestmark = pytest.mark.slow


def test_a_search_is_reranked_on_test_classes_and_the_model_of_pairs_is_exported(tmp_path, monkeypatch):
    written = results_of(monkeypatch, "reranking", tmp_path)
    results = written["recall@1"]
    assert written["protocol"] == "glyphs/class-disjoint/exact-cosine/v1/first-40-classes/100-queries"
    assert 0 < results["search"][0] < results["model of pairs"][0] < 1
    assert (tmp_path / "reranking.png").stat().st_size > 1000
    loaded = tfdml.export.load(tmp_path / "export")
    images = np.zeros((2, 32, 32, 1), "uint8")
    assert loaded.predict_on_batch((images, images)).shape == (2,)
