"""Query expansion and database augmentation against loops over their formula, and examples by hand."""

import numpy as np
import pytest

from tests.oracles import unit
from tfdml.search import augment_database, expand_queries


def clusters(n=90, dim=6, classes=9, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return (2 * rng.normal(size=(classes, dim))[labels] + rng.normal(size=(n, dim))).astype("float32"), labels


def expanded_by_loops(queries, gallery, k, alpha, self_rows=None):
    rows = []
    items = unit(gallery)
    for i, q in enumerate(unit(queries)):
        others = [j for j in range(len(items)) if self_rows is None or j != self_rows[i]]
        nearest = sorted(others, key=lambda j, q=q: (-(q @ items[j]), j))[:k]
        weights = [max(0.0, q @ items[j]) ** alpha if alpha else 1.0 for j in nearest]
        rows.append(q + sum(w * items[j] for w, j in zip(weights, nearest, strict=True)))
    return unit(rows)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("k", [1, 4, 70])  # among 70 items, some have a negative similarity
def test_queries_are_expanded_by_the_formula(k, alpha):
    x, _ = clusters()
    expanded = expand_queries(x[:20], x[20:], k=k, alpha=alpha)
    assert expanded.dtype == np.float32
    np.testing.assert_allclose(expanded, expanded_by_loops(x[:20], x[20:], k, alpha), atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_a_database_is_augmented_by_the_formula(alpha):
    x, _ = clusters()
    expected = expanded_by_loops(x, x, 5, alpha, self_rows=np.arange(len(x)))
    np.testing.assert_allclose(augment_database(x, k=5, alpha=alpha), expected, atol=1e-5)


def test_a_query_in_the_gallery_is_not_its_own_neighbor_even_among_copies():
    x, _ = clusters()
    rows = np.array([3, -1, 40])
    queries = np.stack([x[3], -x[5], x[40]])
    expected = expanded_by_loops(queries, x, 4, 0.0, self_rows=rows)
    np.testing.assert_allclose(expand_queries(queries, x, k=4, self_rows=rows), expected, atol=1e-5)
    copies = np.repeat(np.eye(3, dtype="float32"), 4, axis=0)
    np.testing.assert_array_equal(augment_database(copies, k=2), copies)


def test_memory_changes_nothing(monkeypatch):
    x, _ = clusters()
    whole = augment_database(x, k=5), expand_queries(x[:50], x[50:], k=5)
    monkeypatch.setattr("tfdml.search.refinement.expansion.MAX_BYTES", 40_000)
    np.testing.assert_array_equal(augment_database(x, k=5), whole[0])
    np.testing.assert_array_equal(expand_queries(x[:50], x[50:], k=5), whole[1])
