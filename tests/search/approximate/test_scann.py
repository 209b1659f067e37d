"""ScaNN with each vector in two cells (SOAR)."""

import numpy as np
import pytest

from tfdml import search

pytest.importorskip("scann")

VECTORS = np.random.default_rng(0).normal(size=(4000, 16)).astype(np.float32)
QUERIES = np.random.default_rng(1).normal(size=(200, 16)).astype(np.float32)


def recall(index):
    exact = search.Exact(VECTORS, metric=index.metric).search(QUERIES, 10)[0]
    return search.neighbor_recall(index.search(QUERIES, 10)[0], exact)


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_a_second_cell_raises_the_recall_of_few_cells(metric, tmp_path):
    plain, soar = (
        search.Scann(VECTORS, metric=metric, method="partitioned", leaves_to_search=3, soar=weight)
        for weight in (None, 1.5)
    )
    assert recall(soar) > recall(plain) + 0.05
    ids, scores = soar.search(QUERIES, 10)
    assert all(len(set(row)) == 10 for row in ids.tolist())
    soar.save(tmp_path / "index")
    loaded_ids, loaded_scores = search.load(tmp_path / "index").search(QUERIES, 10)
    np.testing.assert_array_equal(loaded_ids, ids)
    np.testing.assert_allclose(loaded_scores, scores, rtol=1e-6)  # ScaNN's own products
