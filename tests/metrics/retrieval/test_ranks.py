"""Ranks by every method, and ranks from tiles: comparisons by loops, half of the product, queries left to counting."""

import sys

import numpy as np
import pytest

from tests.search.products import unsteady
from tfdml.metrics import retrieval
from tfdml.metrics.retrieval import ranks
from tfdml.metrics.retrieval.ranks import tiling
from tfdml.metrics.retrieval.ranks.tiles import compare_tile
from tfdml.metrics.retrieval.relevance import Relevance
from tfdml.search import blocks, scores


@pytest.mark.parametrize("method", ["tile", "sort", "count"])
@pytest.mark.parametrize("levels", [5, 100, 10**6])
@pytest.mark.parametrize(("number", "best"), [(1, 900), (4, 900), (4, 10), (90, 900), (90, 96), (750, 900)])
def test_ranks_are_places_in_a_stable_sort_however_they_are_found(method, levels, number, best, monkeypatch):
    """Many or few relevant items, anywhere or near the top, with and without ties: all ways of finding ranks."""
    rng = np.random.default_rng(levels + number + best)
    monkeypatch.setattr(tiling, "_COLUMNS", 400)
    monkeypatch.setattr(ranks, "_fastest_method", lambda *arguments: getattr(ranks, method))
    values = rng.integers(0, levels, size=900).astype(np.float32)
    order = np.argsort(-values, kind="stable")
    is_relevant = np.isin(np.arange(900), rng.choice(order[:best], size=number, replace=False))
    relevance = Relevance([1], is_relevant.astype(int), None, None, 1, 900)
    products = scores.Gallery(values[:, None], "dot").scores(np.ones((1, 1), np.float32))
    relevant_values = values[order[is_relevant[order]]]
    expected = np.flatnonzero(is_relevant[order]) + 1
    for depth in (1, 8, 150, 900):
        needs = {"max_bytes": 2**24, "row_bytes": 0, "thread_bytes": 0}
        measured = ranks.measure_ranks(lambda _, found: found, products, relevance, np.array([depth]), **needs)
        ((queries, found),) = [(queries, found) for queries, found in measured if len(queries)]
        count = len(found.above)
        assert (queries.tolist(), found.query.tolist()) == ([0], [0] * count)
        assert count >= max(1, (expected <= depth).sum())
        assert count >= (relevant_values == relevant_values.max()).sum()
        is_within = expected[:count] <= max(depth, expected[0])
        found_values = relevant_values[:count]
        np.testing.assert_array_equal((found.above + found.earlier + 1)[is_within], expected[:count][is_within])
        mixed = np.isin(found_values, values[~is_relevant]) & is_within
        np.testing.assert_array_equal(found.above[mixed], [(values > v).sum() for v in found_values[mixed]])
        np.testing.assert_array_equal(found.equal[mixed], [(values == v).sum() for v in found_values[mixed]])
        assert (found.above + found.earlier + 1 > depth)[~is_within].all()


@pytest.mark.parametrize("seed", range(40))
def test_a_tile_is_compared_as_by_loops(seed):
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 40), rng.choice([1, 7, 64, 300, 2600])
    tile = rng.integers(-20, 20, size=(m, n)).astype(np.float32)
    tile = tile if seed % 2 else np.asfortranarray(tile)
    row = np.repeat(np.arange(m), rng.integers(0, 1 + seed % 8, size=m))
    middle = rng.integers(-20, 40, size=len(row))
    middle = middle[np.lexsort((-middle, row))]
    low, high = (middle - 0.5).astype(np.float32), (middle + 0.5).astype(np.float32)
    is_dense = rng.random(m) < seed % 3 / 2
    above, item, column = compare_tile(tile, row, low, high, is_dense, np.empty((2, m * n), bool))
    np.testing.assert_array_equal(above, [(tile[r] > h).sum() for r, h in zip(row, high, strict=True)])
    assert sorted(zip(item.tolist(), column.tolist(), strict=True)) == [
        (i, j) for i in range(len(row)) for j in np.flatnonzero((tile[row[i]] >= low[i]) & (tile[row[i]] <= high[i]))
    ]


def small_classes(rows=900, dim=8, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, rows // 4, size=rows)
    return rng.normal(size=(rows, dim)).astype(np.float32) + labels[:, None] % 7, labels


def products_of(monkeypatch, *args, **kwargs):
    """The result of `retrieval`, and the number of pairs whose float32 product was computed."""
    pairs = []

    def counted(queries, gallery, out=None):
        if queries.dtype == np.float32:
            pairs.append(len(queries) * len(gallery))
        return unsteady(queries, gallery, out)

    monkeypatch.setattr(scores, "product", counted)
    return retrieval(*args, per_query=True, full_map=False, **kwargs), sum(pairs)


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("groups", [None, np.arange(900) % 3])
def test_half_of_the_product_ranks_as_all_of_it(metric, groups, monkeypatch):
    monkeypatch.setattr(tiling, "_ROWS", 60)
    monkeypatch.setattr(tiling, "_COLUMNS", 100)
    x, labels = small_classes()
    half, computed = products_of(monkeypatch, x, labels, metric=metric, groups=groups)
    assert computed <= 0.55 * len(x) ** 2
    groups = np.arange(900) if groups is None else groups  # each query is removed from a gallery that is another set
    sets = {"gallery": x, "gallery_labels": labels, "groups": groups, "gallery_groups": groups}
    full, computed = products_of(monkeypatch, x, labels, metric=metric, **sets)
    assert computed == len(x) ** 2
    for name in half:
        np.testing.assert_array_equal(half[name], full[name])


def test_recall_at_many_k_needs_no_more_than_the_rank_of_the_best_item():
    x, labels = small_classes()
    values = retrieval(x, labels, k=(1, 10, 100, 800), per_query=True)
    for k in (1, 10, 100, 800):
        np.testing.assert_array_equal(
            values[f"recall@{k}"], np.where(np.isnan(values["mrr"]), np.nan, values["mrr"] >= 1 / k)
        )


def test_only_queries_with_too_many_close_items_are_scored_exactly(monkeypatch):
    x, labels = small_classes()
    x[:200] = 1.0  # One of 200 duplicates is within rounding of all others.
    exact = []
    block = scores.Scores.exact_block
    monkeypatch.setattr(
        scores.Scores, "exact_block", lambda self, rows, out: exact.extend(rows) or block(self, rows, out)
    )
    with pytest.warns(UserWarning, match="ties"):
        retrieval(x, labels, metric="dot", full_map=False)
    near = np.flatnonzero([(labels[:200] == label).any() for label in labels])
    assert set(exact) <= set(near)
    among = [(labels[:200] == label).sum() > 1 for label in labels[:200]]
    assert set(exact) >= set(np.flatnonzero(among))


def test_relevant_items_of_many_queries_are_ranked_in_parts_that_fit_into_memory(monkeypatch):
    x, labels = small_classes()
    expected = retrieval(x, labels, full_map=False)
    assert len(tiling._chunks_of_queries(np.full(900, 3), 2**16)) > 5
    monkeypatch.setattr(tiling, "_ITEM_BYTES", 2**14)
    assert retrieval(x, labels, full_map=False, max_bytes=2**23) == expected


def test_threads_that_drop_items_of_the_same_queries_at_the_same_time_rank_as_one(monkeypatch):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 550, size=3000)
    x = rng.normal(size=(550, 16))[labels] + 0.7 * rng.normal(size=(3000, 16))
    monkeypatch.setattr(tiling, "_ROWS", 64)
    monkeypatch.setattr(tiling, "_COLUMNS", 2048)
    monkeypatch.setattr(blocks, "thread_count", lambda: 8)
    expected = retrieval(x, labels, per_query=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(3):
            got = retrieval(x, labels, per_query=True, full_map=False)
            for name in got:
                np.testing.assert_array_equal(got[name], expected[name])
    finally:
        sys.setswitchinterval(interval)
