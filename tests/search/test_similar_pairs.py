"""Similar pairs against all products in float64, and bounds on their recall against SciPy."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from tests.oracles import scores_of, unit
from tfdml import search
from tfdml.search.duplicates import cells, pairs
from tfdml.search.duplicates.binomial import binomial_interval, binomial_lower_bound


def clusters(count, seed=0, spread=0.25, dim=12):
    """Vectors around centers, and noisy copies of a quarter of them."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(20, dim))
    x = centers[rng.integers(20, size=count)] + spread * rng.normal(size=(count, dim))
    copies = x[: count // 4] + 0.02 * rng.normal(size=(count // 4, dim))
    return np.concatenate([x, copies])[rng.permutation(count + count // 4)].astype("float32")


def by_products(x, y, similarity):
    """The set of pairs of a row of x and a row of y that are similar, in float64."""
    return {(int(i), int(j)) for i, j in zip(*np.nonzero(scores_of(x, y) >= similarity), strict=True)}


def as_set(found):
    assert len(found.rows) == len(found.similarity)
    return set(map(tuple, found.rows.tolist()))


@pytest.mark.parametrize("similarity", [0.9, 0.995])
def test_the_exact_join_returns_each_similar_pair_once_with_its_cosine(similarity, monkeypatch):
    monkeypatch.setattr(pairs, "_SIDE", 37)
    x = clusters(200)
    found = search.similar_pairs(x, similarity)
    assert as_set(found) == {(i, j) for i, j in by_products(x, x, similarity) if i < j}
    assert found.recall is None
    np.testing.assert_allclose(found.similarity, unit(x)[found.rows].prod(1).sum(1), atol=1e-6)
    np.testing.assert_array_equal(search.pair_groups(found.rows, len(x)), search.near_duplicates(x, similarity))


def test_queries_are_joined_with_a_gallery():
    x, y = clusters(100, seed=1), clusters(150, seed=1)
    assert as_set(search.similar_pairs(x, 0.97, gallery=y)) == by_products(x, y, 0.97)


@pytest.mark.parametrize("with_gallery", [False, True])
def test_the_approximate_join_has_no_wrong_pair_and_its_bound_holds(with_gallery):
    x, gallery = clusters(2000, seed=2), clusters(1500, seed=2) if with_gallery else None
    everything = search.similar_pairs(x, 0.99, gallery=gallery)
    found = search.similar_pairs(x, 0.99, gallery=gallery, approximate=True, recall=0.95, sample=400)
    exact, approximate = as_set(everything), as_set(found)
    assert approximate <= exact
    np.testing.assert_array_equal(
        found.similarity, everything.similarity[[tuple(pair) in approximate for pair in everything.rows.tolist()]]
    )
    missed = {row for pair in exact - approximate for row in (pair[:1] if with_gallery else pair)}
    rows = {row for pair in exact for row in (pair[:1] if with_gallery else pair)}
    assert 0.9 < found.recall.lower <= 1 - len(missed) / len(rows)
    assert 0 < found.recall.complete <= found.recall.rows < 400


def test_fewer_cells_are_searched_for_a_lower_recall(monkeypatch):
    probes, tasks = [], cells.Cells.tasks
    monkeypatch.setattr(
        cells.Cells, "tasks", lambda self, queries, count: probes.append(count) or tasks(self, queries, count)
    )
    for recall in (0.5, 0.9, 0.99):
        search.similar_pairs(clusters(2000, seed=3), 0.98, approximate=True, recall=recall, sample=300)
    assert probes == sorted(set(probes))


def test_where_half_of_the_cells_are_needed_the_join_is_exact():
    x = np.random.default_rng(4).normal(size=(600, 40)).astype("float32")
    found = search.similar_pairs(x, 0.2, approximate=True, recall=1.0, sample=100)
    assert found.recall is None
    assert as_set(found) == as_set(search.similar_pairs(x, 0.2))


def test_without_a_pair_in_the_sample_the_bound_is_0():
    x = np.random.default_rng(5).normal(size=(600, 40)).astype("float32")
    found = search.similar_pairs(x, 0.99, approximate=True, sample=100)
    assert len(found.rows) == 0
    assert found.recall == (0, 0, 0.0)


def test_the_same_seed_gives_the_same_pairs_on_any_number_of_threads(monkeypatch):
    x = clusters(1000, seed=6)
    once = search.similar_pairs(x, 0.97, approximate=True, recall=0.8, sample=200)
    monkeypatch.setattr(search.blocks, "thread_count", lambda: 1)
    again = search.similar_pairs(x, 0.97, approximate=True, recall=0.8, sample=200)
    np.testing.assert_array_equal(once.rows, again.rows)
    assert once.recall == again.recall


def test_an_empty_set_and_zero_vectors_have_no_pairs():
    assert search.similar_pairs(np.empty((0, 3)), 0.5).rows.shape == (0, 2)
    assert search.similar_pairs(np.zeros((4, 3)), 0.5).rows.shape == (0, 2)
    assert search.similar_pairs(np.ones((2, 3)), 0.5, gallery=np.empty((0, 3))).rows.shape == (0, 2)


def test_pairs_have_groups():
    np.testing.assert_array_equal(search.pair_groups(np.empty((0, 2)), 3), [0, 1, 2])
    np.testing.assert_array_equal(search.pair_groups([[2, 1], [3, 2]], 5), [0, 1, 1, 1, 4])


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (5, 5), (3, 10), (198, 200), (1, 4000), (3990, 4000)])
def test_bounds_of_a_share_are_those_of_clopper_and_pearson(successes, trials):
    expected = stats.binomtest(successes, trials).proportion_ci(0.95, method="exact")
    assert binomial_interval(successes, trials) == pytest.approx(tuple(expected), abs=1e-9)
    one_sided = stats.binomtest(successes, trials, alternative="greater").proportion_ci(0.95, method="exact")
    assert binomial_lower_bound(successes, trials) == pytest.approx(one_sided.low, abs=1e-9)


def test_without_trials_nothing_is_bounded():
    assert binomial_interval(0, 0) == (0, 1)


def test_the_nearest_centers_of_a_block_do_not_keep_its_products():
    products = np.random.default_rng(0).standard_normal((500, 2000), dtype=np.float32)
    tracemalloc.start()
    try:
        columns = cells._largest(products, 3)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * columns.nbytes
