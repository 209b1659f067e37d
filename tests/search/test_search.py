"""Exact and ScaNN search behind one interface."""

import functools
import math
import sys

import numpy as np
import pytest

from tests.oracles import scores_of
from tests.search.products import unsteady
from tfdml import search
from tfdml.search import blocks
from tfdml.search import scores as pair_scores
from tfdml.search.nearest import largest

METRICS = ("cosine", "dot", "euclidean")


def clustered(rows=400, dim=12, classes=40, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(classes, dim))
    return (centers[rng.integers(classes, size=rows)] + 0.5 * rng.normal(size=(rows, dim))).astype(np.float32)


def neighbors_of(vectors, queries, k, metric):
    """Ids and scores in float64, equal scores by position."""
    scores = scores_of(queries, vectors, metric)
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(scores, ids, axis=1) * (-1 if metric == "euclidean" else 1)


def build(kind, vectors, ids=None, **options):
    return KINDS[kind](vectors, ids, **options)


KINDS = {"exact": search.Exact, "scann": search.Scann, "faiss": search.Faiss, "lance": search.Lance}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_folder = pytest.mark.parametrize("kind", ["exact", "scann", "faiss"])  # with files of tfdml's own


@every_kind
def test_ids_may_be_any_int64(kind):
    x = clustered(50)
    ids = -(2**62) + np.random.default_rng(0).permutation(50)
    found, _ = build(kind, x, ids).search(x, 1)
    np.testing.assert_array_equal(found[:, 0], ids)


@every_kind
def test_k_may_be_the_size_of_the_index_and_there_may_be_no_queries(kind):
    x = clustered(50)
    index = build(kind, x)
    ids, _ = index.search(x[:3], 50)
    np.testing.assert_array_equal(np.sort(ids, axis=1), np.tile(np.arange(50), (3, 1)))
    ids, scores = index.search(x[:0], 4)
    assert ids.shape == scores.shape == (0, 4)
    assert (len(index), index.dim, index.metric) == (50, 12, "cosine")


# Exact search.


def with_near_ties(rows=700, dim=24):
    """Vectors of which many are duplicates, a bit apart, or codes of -1 and 1."""
    x = clustered(rows, dim)
    x[300:400] = x[:100]
    x[400:500] = np.nextafter(x[:100], np.float32(9))
    x[500:600] = np.sign(x[500:600])
    return x


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 9, 300])
@pytest.mark.parametrize("multiply", [pair_scores.product, unsteady])
def test_memory_threads_batches_places_and_the_product_do_not_change_a_bit(metric, k, multiply, monkeypatch):
    x = with_near_ties()
    queries = x[::3]
    ids, values = search.Exact(x, metric=metric).search(queries, k)
    monkeypatch.setattr(pair_scores, "product", multiply)
    for threads, max_bytes in ((1, 2**29), (1, 100_000), (2, 2**29), (2, 250_000)):
        monkeypatch.setattr(blocks, "thread_count", lambda threads=threads: threads)
        found, found_values = search.Exact(x, metric=metric, max_bytes=max_bytes).search(queries, k)
        np.testing.assert_array_equal(found, ids)
        np.testing.assert_array_equal(found_values, values)
    for some in (slice(5, 6), slice(100, 103)):
        found, found_values = search.Exact(x, metric=metric).search(queries[some], k)
        np.testing.assert_array_equal(found, ids[some])
        np.testing.assert_array_equal(found_values, values[some])
    order = np.random.default_rng(0).permutation(len(x))
    moved, moved_values = search.Exact(x[order], order, metric=metric).search(queries, k)
    np.testing.assert_array_equal(moved_values, values)
    sooner = values < values[:, -1:] if metric == "euclidean" else values > values[:, -1:]
    for i in range(len(queries)):  # Of those at the last score, position decides who is found.
        assert set(moved[i, sooner[i]]) == set(ids[i, sooner[i]])


@pytest.mark.parametrize("metric", METRICS)
def test_the_order_is_that_of_the_scores_of_pairs_and_then_of_position(metric):
    x = with_near_ties(rows=600, dim=5)
    ids, values = search.Exact(x, metric=metric).search(x[:50], 40)
    gallery = pair_scores.Gallery(x, metric)
    queries, vectors = gallery.scores(x[:50]).queries.astype(float), gallery.vectors.astype(float)
    for query, found, found_values in zip(queries, ids, values, strict=True):
        terms = -((query - vectors) ** 2) if metric == "euclidean" else query * vectors
        sums = np.array([math.fsum(row) for row in terms])
        expected = (-np.sqrt(-sums) if metric == "euclidean" else sums).astype(np.float32)
        np.testing.assert_array_equal(found, np.argsort(-expected, kind="stable")[:40])
        np.testing.assert_array_equal(
            found_values, np.abs(expected[found]) if metric == "euclidean" else expected[found]
        )


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 5), (1024, 3), (5000, 1), (5000, 17), (5000, 700), (5000, 5000)])
def test_largest_finds_the_largest_with_ties_by_position(n, k):
    rng = np.random.default_rng(n + k)
    for scores in (rng.normal(size=n), rng.integers(0, 4, size=n), np.full(n, -np.inf), np.arange(n), -np.arange(n)):
        scores = scores.astype(np.float32)
        np.testing.assert_array_equal(largest(scores, k), np.argsort(-scores, kind="stable")[:k])


@pytest.mark.parametrize("scale", [1e19, 1e20])
@pytest.mark.parametrize("metric", ["dot", "euclidean"])
@pytest.mark.parametrize(
    "make",
    [search.Exact, search.Scann, functools.partial(search.Scann, method="quantized")],
    ids=["exact", "scann", "ah"],
)
def test_scores_beyond_the_range_of_float32_are_refused(make, metric, scale):
    with pytest.raises(ValueError, match="beyond the range of float32"):
        make(clustered() * scale, metric=metric).search(clustered()[:2] * scale, 3)
    with pytest.raises(ValueError, match="beyond the range of float32"):
        make(clustered(), metric=metric).search(clustered()[:2] * 1e37, 3)


def test_an_index_does_not_change_with_the_array_it_was_built_from():
    x = clustered(50)
    index = search.Exact(x, metric="dot")
    before = index.search(x[:5].copy(), 3)[1]
    queries = x[:5].copy()
    x[:] = 0
    np.testing.assert_array_equal(index.search(queries, 3)[1], before)


def test_whole_numbers_have_exact_distances_and_ties_in_the_order_of_the_index():
    ids, scores = search.Exact([[2], [1], [0], [0], [1], [0]], metric="euclidean").search([[2]], 6)
    assert ids.tolist() == [[0, 1, 4, 2, 3, 5]]
    assert scores.tolist() == [[0, 1, 1, 2, 2, 2]]


@every_kind
@pytest.mark.parametrize("shift", [0, 3, 1e6])
def test_a_euclidean_score_does_not_depend_on_the_other_vectors(kind, shift):
    x = clustered(60) + np.float32(shift)
    alone = np.concatenate([build(kind, one[None], metric="euclidean").search(x[:5], 1)[1] for one in x], axis=1)
    ids, scores = build(kind, x, metric="euclidean").search(x[:5], 60)
    np.testing.assert_array_equal(np.take_along_axis(alone, ids, axis=1), scores)
    distance = np.sqrt(((x[:5, None].astype(float) - x) ** 2).sum(axis=2))
    np.testing.assert_allclose(alone, distance, rtol=1e-7)


# ScaNN.


def test_the_size_chooses_the_method():
    from tfdml.search.approximate.scann import _automatic

    sizes = (1, 19_999, 20_000, 99_999, 100_000)
    assert [_automatic(n) for n in sizes] == ["exact", "exact", "quantized", "quantized", "partitioned"]
    assert [build(kind, clustered()).method for kind in KINDS if kind != "exact"] == 3 * ["exact"]
    for kind in ("faiss", "lance"):
        large = build(kind, np.random.default_rng(0).normal(size=(20_000, 4)))
        assert (large.method, large.leaves, large.leaves_to_search) == ("partitioned", 141, 36)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("kind", "method", "codes"),
    [
        ("scann", "quantized", None),
        ("scann", "partitioned", None),
        ("faiss", "exact", "float32"),
        ("faiss", "exact", "product"),
        ("faiss", "exact", "binary"),
        ("faiss", "partitioned", "int8"),
        ("faiss", "partitioned", "product"),
        ("faiss", "partitioned", "binary"),
        ("faiss", "graph", "float32"),
        ("faiss", "graph", "int8"),
    ],
)
def test_approximate_search_finds_nearly_all_and_scores_them_exactly(metric, kind, method, codes):
    x = clustered(3000, 16)
    exact, exact_scores = search.Exact(x, metric=metric).search(x[:200], 10)
    options = {} if codes is None else {"codes": codes}
    found, scores = build(kind, x, metric=metric, method=method, **options).search(x[:200], 10)
    assert search.neighbor_recall(found, exact) > 0.95
    same, error = found == exact, 1e-4 if kind == "scann" else 0  # ScaNN's own products
    np.testing.assert_allclose(scores[same], exact_scores[same], rtol=error, atol=error / 10)


def test_default_settings_find_98_percent_of_20_000_clustered_vectors():
    x = clustered(20_000, 32, classes=4000)
    index = search.Scann(x)
    assert index.method == "quantized"
    assert search.neighbor_recall(index.search(x[:300], 10)[0], search.Exact(x).search(x[:300], 10)[0]) >= 0.98


@pytest.mark.parametrize("kind", ["scann", "faiss"])
def test_queries_get_k_neighbors_even_where_the_searched_cells_hold_fewer(kind):
    x = clustered(1000)
    ids, scores = build(kind, x, method="partitioned", leaves=50, leaves_to_search=1).search(x[:20], 400)
    assert np.isfinite(scores).all()
    assert all(len(set(row)) == 400 for row in ids.tolist())


def test_more_leaves_and_more_rescoring_find_more():
    x = np.random.default_rng(0).normal(size=(3000, 24))
    exact, _ = search.Exact(x).search(x[:200], 10)

    def recall(**options):
        return search.neighbor_recall(search.Scann(x, **options).search(x[:200], 10)[0], exact)

    few = recall(method="partitioned", leaves=50, leaves_to_search=2)
    assert few < recall(method="partitioned", leaves=50, leaves_to_search=40) > 0.9
    assert recall(method="quantized", rescore=12) < recall(method="quantized", rescore=600) > 0.99


def test_a_scann_for_another_tensorflow_says_which_versions_go_together(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "scann"]:
        monkeypatch.delitem(sys.modules, name)
    missing = "raise tf.errors.NotFoundError(None, None, '_scann_ops.so: undefined symbol')"
    (tmp_path / "scann.py").write_text(f"import tensorflow as tf\n{missing}\n")
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):
        with pytest.raises(ImportError, match=r"undefined symbol.* TensorFlow 2\.20.* pip install tfdml\[scann\]"):
            search.Scann(clustered(50))


# Folders.


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("exact", {}),
        ("scann", {}),
        ("scann", {"method": "quantized"}),
        ("scann", {"method": "partitioned"}),
        ("faiss", {"method": "partitioned", "codes": "binary", "leaves": 20, "leaves_to_search": 7, "rescore": 50}),
    ],
)
def test_a_loaded_index_finds_the_same(tmp_path, kind, options, metric):
    x, ids = clustered(600), np.arange(600) + 2**60
    index = build(kind, x, ids, metric=metric, **options)
    index.save(tmp_path / "made" / "here")
    (tmp_path / "made").rename(tmp_path / "moved")
    loaded = search.load(tmp_path / "moved" / "here")
    assert type(loaded) is type(index)
    for before, after in zip(index.search(x[:50], 5), loaded.search(x[:50], 5), strict=True):
        np.testing.assert_array_equal(before, after)
    for name, value in vars(index).items():
        if not name.startswith("_") and name != "ids":
            assert getattr(loaded, name) == value


# Errors.

X = clustered(50)


@every_kind
@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X[:0],), {}, "Received no vectors"),
        ((X[0],), {}, r"expected \(n, dim\)"),
        ((X[:, :0],), {}, "dim > 0"),
        ((np.where(np.arange(50)[:, None] == 3, np.inf, X),), {}, "first in row 3"),
        ((X, np.arange(49)), {}, "one id per row"),
        ((X, np.arange(50) // 2), {}, "repeat"),
        ((X, np.arange(50.0)), {}, "expected integers"),
        ((np.ma.masked_equal(X, X[3, 3]),), {}, "vectors with 1 masked entries"),
        ((X, np.ma.masked_equal(np.arange(50), 3)), {}, "ids with 1 masked entries"),
        ((X,), {"metric": "manhattan"}, "expected one of 'cosine'"),
    ],
)
def test_wrong_vectors_are_refused_with_advice(kind, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        build(kind, *arguments, **options)


@every_kind
@pytest.mark.parametrize(
    ("queries", "k", "message"),
    [
        (X, 0, "from 1 to 50"),
        (X, 51, "k=51, expected a whole number from 1 to 50, the 50 items of the index"),
        (X, 2.0, "from 1 to 50"),
        (X, True, "from 1 to 50"),
        (X[:, :5], 1, "dim 5, expected 12"),
        (X[0], 1, r"v\[None\]"),
        (X * np.nan, 1, "first in row 0"),
        (np.ma.masked_equal(X, X[3, 3]), 1, "queries with 1 masked entries"),
    ],
)
def test_wrong_searches_are_refused_with_advice(kind, queries, k, message):
    index = build(kind, X)
    with pytest.raises(ValueError, match=message):
        index.search(queries, k)


def test_recall_against_exact_is_the_share_found():
    assert search.neighbor_recall([[1, 2, 3], [4, 5, 6]], [[3, 1], [7, 4]]) == 0.75


def test_row_names_of_a_filtered_frame_are_no_column():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"label": ["a", "b", "c"]})
    frame = frame[frame["label"] != "b"]
    assert search.Exact(np.eye(2, dtype="float32"), metadata=frame).metadata.column_names == ["label"]
