"""Nearest neighbors inside a graph, beside loops over the definitions."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.oracles import scores_of
from tfdml.export import ExactSearch, PartitionedSearch, ScannSearch
from tfdml.export.graph_index import GraphIndex
from tfdml.export.graph_search import exact, partitioned
from tfdml.export.graph_search.cells import center_ranks, k_means
from tfdml.export.graph_search.quantized import StoredVectors
from tfdml.export.graph_search.search_option import as_search

METRICS = ["cosine", "dot", "euclidean"]


def points(count, dim=6, seed=0, center=0.0):
    return (center + np.random.default_rng(seed).normal(size=(count, dim))).astype("float32")


def found_by(search, vectors, queries, metric):
    searcher = search.searcher(vectors, metric)
    compiled = tf.function(searcher, input_signature=[tf.TensorSpec((None, vectors.shape[1]), "float32")])
    rows, scores = compiled(tf.constant(queries))
    return rows.numpy(), scores.numpy()


def assert_the_nearest(rows, scores, queries, vectors, metric, tolerance):
    expected = scores_of(queries, vectors, metric)
    best = -np.sort(-expected, axis=1)[:, : rows.shape[1]]
    sign = -1 if metric == "euclidean" else 1
    np.testing.assert_allclose(sign * scores, best, atol=tolerance)
    np.testing.assert_allclose(np.take_along_axis(expected, rows.astype(int), axis=1), best, atol=tolerance)
    assert all(len(set(row)) == len(row) for row in rows)


WHOLE = [  # searches that look at every vector, the number of vectors, and how exact their scores are
    *((ExactSearch(k=5), count, 1e-5) for count in (5, 31, 200, 1000)),
    (PartitionedSearch(k=4, cells=12, probes=12), 300, 1e-5),
    pytest.param(ScannSearch(k=5, leaves=20, leaves_to_search=20, rescore=300), 1500, 1e-4, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("search", "count", "tolerance"), WHOLE)
def test_a_search_of_all_vectors_finds_the_nearest(search, count, tolerance, metric, monkeypatch):
    monkeypatch.setattr(exact, "_BLOCK", 300)  # 1,000 vectors are four blocks
    center = 0.0 if isinstance(search, ScannSearch) else 3.0
    vectors, queries = points(count, center=center), points(7, seed=1, center=center)
    rows, scores = found_by(search, vectors, queries, metric)
    assert rows.shape == scores.shape == (7, search.k)
    assert_the_nearest(rows, scores, queries, vectors, metric, tolerance)


@pytest.mark.parametrize("metric", METRICS)
def test_equal_scores_are_in_the_order_of_the_index(metric):
    vectors = np.repeat(points(3), 120, axis=0)[np.random.default_rng(0).permutation(360)]
    rows, _ = found_by(ExactSearch(k=4), vectors, vectors[:5], metric)
    for query, row in zip(vectors, rows, strict=False):
        np.testing.assert_array_equal(row, np.flatnonzero((vectors == query).all(axis=1))[:4])


def test_a_vector_is_at_distance_zero_from_itself_far_from_the_origin():
    vectors = points(400, center=1000.0)
    rows, scores = found_by(ExactSearch(k=2), vectors, vectors[:3], "euclidean")
    np.testing.assert_array_equal(rows[:, 0], [0, 1, 2])
    np.testing.assert_array_equal(scores[:, 0], 0)


def test_a_zero_vector_has_cosine_zero_with_everything():
    vectors = np.concatenate([points(40), np.zeros((1, 6), "float32")])
    rows, scores = found_by(ExactSearch(k=41), vectors, np.zeros((1, 6), "float32"), "cosine")
    np.testing.assert_array_equal(scores, 0)
    np.testing.assert_array_equal(rows, [np.arange(41)])


@pytest.mark.parametrize(("dtype", "error"), [("bfloat16", 2**-8), ("int8", 0.5 / 127)])
@pytest.mark.parametrize("metric", METRICS)
def test_rounded_vectors_take_less_space_and_are_searched_as_they_are(dtype, error, metric):
    vectors, queries = points(400), points(5, seed=1)
    stored = StoredVectors(vectors, dtype)
    rounded = stored.take(tf.range(400)).numpy()
    assert stored.codes.dtype.size == {"bfloat16": 2, "int8": 1}[dtype]
    assert np.abs(rounded - vectors).max() <= error * np.abs(vectors).max() * 1.01
    rows, scores = found_by(ExactSearch(k=3, dtype=dtype), vectors, queries, metric)
    truth = scores_of(queries, vectors, metric)
    found = (-1 if metric == "euclidean" else 1) * scores
    np.testing.assert_allclose(found, np.take_along_axis(truth, rows.astype(int), axis=1), atol=0.1)
    assert (np.diff(found, axis=1) <= 0).all()


def test_queries_are_searched_in_parts_where_the_candidates_take_much_memory(monkeypatch):
    vectors, queries = points(300), points(9, seed=1)
    search = PartitionedSearch(k=4, cells=12, probes=6)
    together = found_by(search, vectors, queries, "cosine")
    monkeypatch.setattr(partitioned, "_CANDIDATE_BYTES", 4 * 150 * 6 * 2)  # of two queries
    for a, b in zip(together, found_by(search, vectors, queries, "cosine"), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert search.searcher(vectors, "cosine")._batch_size == 2


@pytest.mark.parametrize("metric", METRICS)
def test_the_probes_reach_the_wanted_recall_on_other_queries(metric):
    centers = 4 * points(40, dim=8)
    pick = np.random.default_rng(2).integers(40, size=2200)
    everything = (centers[pick] + points(2200, dim=8, seed=3)).astype("float32")
    vectors, queries = everything[:2000], everything[2000:]
    searcher = PartitionedSearch(k=5, recall=0.9).searcher(vectors, metric)
    rows, _ = searcher(tf.constant(queries))
    nearest, _ = found_by(ExactSearch(k=5), vectors, queries, metric)
    recall = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(rows.numpy(), nearest, strict=True)])
    assert searcher.settings["cells"] == 125  # a 16th of the vectors
    assert recall > 0.85
    assert searcher.settings["probes"] < 60


def test_every_query_gets_k_neighbors_from_small_cells():
    vectors = np.concatenate([points(50), 50 + points(2, seed=1)])
    search = PartitionedSearch(k=20, cells=8, probes=1)
    rows, scores = found_by(search, vectors, 50 + points(3, seed=2), "euclidean")
    assert rows.shape == (3, 20)
    assert np.isfinite(scores).all()
    assert all(len(set(row)) == 20 for row in rows)


def test_a_search_is_given_by_its_name_or_with_its_settings():
    assert as_search(None) == as_search("exact") == ExactSearch()
    assert (as_search("partitioned"), as_search("scann")) == (PartitionedSearch(), ScannSearch())
    assert as_search(ExactSearch(k=3)).k == 3
    for refused in ("faiss", ExactSearch, 3, []):
        with pytest.raises(ValueError, match="expected 'exact', 'partitioned', 'scann', an ExactSearch, "):
            as_search(refused)


@pytest.mark.parametrize("search", [ExactSearch(), PartitionedSearch()])
def test_without_k_a_small_index_returns_all_its_vectors(search):
    rows, _ = found_by(search, points(4), points(2, seed=1), "cosine")
    assert sorted(rows[0]) == [0, 1, 2, 3]
    index = SimpleNamespace(vectors=points(4), ids=np.arange(4), metric="cosine")
    assert GraphIndex(index, search, 6).description["k"] == 4
    index = SimpleNamespace(vectors=points(40), ids=np.arange(40), metric="dot")
    assert GraphIndex(index, search, 6).description["k"] == 10


def test_k_means_keeps_every_row_once_in_the_cell_of_the_nearest_center():
    vectors = points(90, dim=2)
    cells = k_means(vectors, vectors, 4)
    found = cells.cell_of_rows()
    distance = ((vectors[:, None] - cells.centers) ** 2).sum(axis=2)
    np.testing.assert_array_equal(found, distance.argmin(axis=1))
    for cell in range(4):
        rows = cells.order[cells.starts[cell] : cells.starts[cell + 1]]
        np.testing.assert_array_equal(rows, np.flatnonzero(found == cell))
    sizes = np.bincount(found)
    assert [cells.fewest(probes) for probes in range(5)] == [0, *np.cumsum(np.sort(sizes))]


def test_k_means_ends_at_the_means_of_its_cells():
    vectors = np.concatenate([points(30, dim=2), 50 + points(20, dim=2, seed=1)])
    cells = k_means(vectors, vectors[::-1], 2)
    means = [vectors[:30].mean(axis=0), vectors[30:].mean(axis=0)]
    np.testing.assert_allclose(sorted(cells.centers.tolist()), sorted(np.array(means).tolist()), atol=1e-5)


def test_a_cell_without_vectors_keeps_its_center():
    cells = k_means(np.ones((3, 1), "float32"), np.ones((3, 1), "float32"), 2)
    assert (cells.centers.tolist(), cells.starts.tolist()) == ([[1.0], [1.0]], [0, 3, 3])


def test_the_rank_of_a_cell_is_the_number_of_cells_nearer_to_the_query():
    vectors = np.array([[0.0], [1.0], [5.0], [6.0], [20.0]], "float32")
    cells = k_means(vectors, vectors, 5)  # each vector is a cell
    offsets = -0.5 * (cells.centers**2).sum(axis=1)
    ranks = center_ranks(np.array([[4.9]], "float32"), cells, np.array([[0, 1, 2, 3, 4]]), offsets)
    np.testing.assert_array_equal(ranks, [[3, 2, 0, 1, 4]])


@pytest.mark.slow
def test_a_query_whose_leaves_hold_too_few_vectors_searches_all():
    vectors, queries = points(1000, dim=8), points(4, dim=8, seed=1)
    rows, scores = found_by(ScannSearch(k=100, leaves=200, leaves_to_search=1), vectors, queries, "cosine")
    assert np.isfinite(scores).all()
    assert all(len(set(row)) == 100 for row in rows)


def test_scann_that_does_not_import_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "scann", None)
    with pytest.raises(ImportError, match=r"requires TensorFlow 2\.20.*PartitionedSearch needs no further package"):
        ScannSearch().searcher(points(1000), "cosine")


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (lambda: ExactSearch(k=0), "Received k=0, expected a whole number of at least 1"),
        (lambda: ExactSearch(dtype="float64"), "Received dtype='float64', expected one of 'float32'"),
        (lambda: PartitionedSearch(cells=0), "Received cells=0, expected a whole number"),
        (lambda: PartitionedSearch(recall=0), "Received recall=0, expected a share above 0 and up to 1"),
        (lambda: PartitionedSearch(cells=9).searcher(points(8), "dot"), "cells=9 for 8 vectors, expected at most one"),
        (
            lambda: PartitionedSearch(cells=4, probes=5).searcher(points(8), "dot"),
            "probes=5 of 4 cells, expected fewer",
        ),
        (lambda: ScannSearch(leaves=0), "Received leaves=0, expected a whole number"),
        (lambda: ScannSearch().searcher(points(999), "dot"), "999 vectors for ScannSearch, expected at least 1,000"),
        (
            lambda: ScannSearch(leaves=10, leaves_to_search=11).searcher(points(1000), "dot"),
            "leaves=10, leaves_to_search=11, expected no more",
        ),
    ],
)
def test_wrong_settings_are_named(search, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        search()
