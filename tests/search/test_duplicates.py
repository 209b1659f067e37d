"""Groups of near-duplicates against scipy's connected components of all pairs."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from tests.oracles import scores_of
from tests.search.products import unsteady
from tfdml import search
from tfdml.search import blocks, near_duplicates
from tfdml.search import scores as pair_scores
from tfdml.search.duplicates.groups import nearest_copies


def near_copies(seed=0):
    """Vectors of which many are copies, some with a little noise, in random order."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, 9))
    x = np.concatenate([x, x[:60] + 0.1 * rng.normal(size=(60, 9)), np.tile(x[5], (40, 1)), x[:30] * 3])
    return x[rng.permutation(len(x))].astype("float32")


def by_components(x, similarity):
    """The first row of the component of each row, in float64."""
    labels = connected_components(scores_of(x, x) >= similarity)[1]
    return np.array([np.flatnonzero(labels == label)[0] for label in labels])


@pytest.mark.parametrize("similarity", [0.75, 0.9, 0.97])
def test_groups_are_the_connected_components(similarity):
    x = near_copies()
    expected = by_components(x, similarity)
    assert 1 < len(set(expected)) < len(x)
    np.testing.assert_array_equal(near_duplicates(x, similarity), expected)


@pytest.mark.parametrize("multiply", [pair_scores.product, unsteady])
def test_copies_are_similar_by_1_and_memory_and_the_product_change_nothing(multiply, monkeypatch):
    x = near_copies(1)
    once = near_duplicates(x, 0.9)
    monkeypatch.setattr(pair_scores, "product", multiply)
    for threads, max_bytes in ((1, 20_000), (2, 60_000), (2, 2**29)):
        monkeypatch.setattr(blocks, "thread_count", lambda threads=threads: threads)
        monkeypatch.setattr("tfdml.search.duplicates.groups.MAX_BYTES", max_bytes)
        np.testing.assert_array_equal(near_duplicates(x, 0.9), once)
    np.testing.assert_array_equal(near_duplicates(np.tile(np.eye(4), (50, 1)), 1.0), np.arange(200) % 4)


def test_a_pair_at_the_similarity_is_grouped_and_one_a_bit_below_is_not():
    for x in np.random.default_rng(0).normal(size=(50, 2, 30)).astype("float32"):
        score = search.Exact(x[:1]).search(x[1:], 1)[1][0, 0]
        np.testing.assert_array_equal(near_duplicates(x, score), [0, 0])
        np.testing.assert_array_equal(near_duplicates(x, np.nextafter(score, np.float32(2))), [0, 1])


def test_a_chain_is_one_group_in_any_order():
    angle = np.radians(np.arange(0, 180, 2))
    chain = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for order in (np.arange(90), np.arange(90)[::-1], np.random.default_rng(0).permutation(90)):
        assert set(near_duplicates(chain[order], np.cos(np.radians(2.1)))) == {0}
        np.testing.assert_array_equal(near_duplicates(chain[order], np.cos(np.radians(1.9))), np.arange(90))


def test_zero_vectors_are_alone_and_one_vector_is_a_group():
    np.testing.assert_array_equal(near_duplicates(np.zeros((3, 2)), 0.5), [0, 1, 2])
    np.testing.assert_array_equal(near_duplicates(np.ones((1, 2)), 0.5), [0])
    assert near_duplicates(np.zeros((0, 3)), 0.9).tolist() == []


def test_nearest_copies_are_the_best_pairs_of_each_row_in_and_outside_its_part():
    distinct = np.random.default_rng(0).normal(size=(60, 3))
    vectors = np.concatenate([distinct, distinct[:20] + 1e-3, np.ones((40, 3))])
    parts = np.repeat([0, 1], 60)
    pairs = search.similar_pairs(vectors, 0.9)
    groups, rows, similarity = nearest_copies(vectors, 0.9, parts)
    np.testing.assert_array_equal(groups, search.near_duplicates(vectors, 0.9))
    best = {}
    for (first, row), score in zip(pairs.rows.tolist(), pairs.similarity.tolist(), strict=True):
        kind = (parts[first] != parts[row], row)
        best[kind] = max(best.get(kind, (-2, 0)), (round(score, 5), -first))
    found = {(parts[a] != parts[b], b): (a, score) for (a, b), score in zip(rows.tolist(), similarity, strict=True)}
    assert set(found) == set(best)
    for kind, (first, score) in found.items():
        assert abs(score - best[kind][0]) < 1e-4
        assert similarity.dtype == np.float32
        assert groups[first] == groups[kind[1]]
    assert found[False, 119][0] == 80  # the first of equal ones


def test_two_thousand_copies_take_little_memory_and_none_is_lost():
    vectors = np.tile(np.random.default_rng(0).normal(size=16), (2_000, 1))
    tracemalloc.start()
    groups, rows, _ = nearest_copies(vectors, 0.99, np.zeros(2_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not groups.any()
    np.testing.assert_array_equal(rows, np.stack([np.zeros(1_999), np.arange(1, 2_000)], axis=1))
    assert peak < 200 * 2**20
