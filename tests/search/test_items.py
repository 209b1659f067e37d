"""Several vectors of one item: each item is found once, by its nearest vector."""

import numpy as np
import pyarrow as pa
import pytest

from tests.search.test_search import build, clustered, every_kind, neighbors_of
from tfdml import metrics, search

X, QUERIES = clustered(500, seed=8), clustered(25, seed=9)
PRODUCTS = np.array([f"product {i}" for i in np.random.default_rng(0).zipf(1.6, 500) % 90])
PRICES = np.arange(500) % 4


def nearest_items(queries, vectors, products, k, metric):
    """The rows of the nearest vectors of the k nearest products, and their scores, from a list of all vectors."""
    found, values = [], []
    for rows, scores in zip(*neighbors_of(vectors, queries, len(vectors), metric), strict=True):
        best = {}
        for row, score in zip(rows, scores, strict=True):
            best.setdefault(products[row], (row, score))
        found.append([row for row, _ in list(best.values())[:k]])
        values.append([score for _, score in list(best.values())[:k]])
    return np.array(found), np.array(values)


@pytest.mark.parametrize("kind", ["faiss", "scann"])
def test_approximate_search_of_cells_finds_most_items(kind):
    x, products = clustered(4000, seed=1), np.arange(4000) // 5
    options = {"metadata": {"product": products}, "method": "partitioned", "leaves": 40, "leaves_to_search": 20}
    index = build(kind, x, **options)
    exact, _ = search.Exact(x, metadata={"product": products}).search(x[:200], 10, items="product")
    found, _ = index.search(x[:200], 10, items="product")
    assert search.neighbor_recall(products[found], products[exact]) > 0.98
    exact, _ = search.Exact(x, metadata={"product": products}).search(x[:50], 10, items="product", best=3)
    best, _ = index.search(x[:50], 10, items="product", best=3)
    assert search.neighbor_recall(products[best], products[exact]) > 0.98
    assert all(len(set(products[row])) == 10 for row in found)


def test_metrics_count_items():
    index = search.Exact(X, metadata={"product": PRODUCTS})
    numbers = index.item_numbers("product")
    assert numbers.tolist() == [list(dict.fromkeys(PRODUCTS)).index(product) for product in PRODUCTS]
    labels = np.arange(numbers.max() + 1) % 6  # of the products
    found, _ = index.search(QUERIES, 20, items="product")
    wanted = np.arange(25) % 6
    options = {"gallery_labels": labels, "k": 5, "extra": ("ndcg@5",), "at_r": False}
    counted = metrics.retrieval(None, wanted, neighbors=numbers[index.rows(found)], **options)
    rows, _ = nearest_items(QUERIES, X, PRODUCTS, 20, "cosine")
    hits = labels[numbers[rows[:, :5]]] == wanted[:, None]
    assert counted["recall@5"] == hits.any(axis=1).mean()
    assert counted["precision@1"] == hits[:, 0].mean()
    np.testing.assert_array_equal(index.item_numbers(None), np.arange(500))


@every_kind
def test_an_item_behind_all_vectors_of_another_one_is_found(kind):
    angles = np.arange(8) / 10
    index = build(kind, np.stack([np.cos(angles), np.sin(angles)], axis=1), metadata={"item": [*"aaaaaabc"]})
    assert index.search([[1, 0]], 2, items="item")[0].tolist() == [[0, 6]]
    assert index.search([[1, 0]], 3, items="item")[0].tolist() == [[0, 6, 7]]


def test_no_queries_find_no_items_and_numbers_may_be_items():
    index = search.Exact(X, metadata={"product": np.arange(500) // 5})
    found, scores = index.search(X[:0], 7, items="product")
    assert found.shape == scores.shape == (0, 7)
    assert index.search(X[:1], 1, items="product")[0].tolist() == [[0]]


def test_categories_are_items():
    categories = pa.table({"product": pa.array(["a", "b", "a"]).dictionary_encode()})
    assert search.Exact(X[:3], metadata=categories).count(items="product") == 2


def test_a_search_that_repeats_a_vector_ends():
    class Repeating(search.Exact):
        def _neighbors(self, segment, allowed, queries, k):
            return (x[:, :1].repeat(k, axis=1) for x in super()._neighbors(segment, allowed, queries, k))

    index = Repeating(X, metadata={"product": PRODUCTS})
    _, scores = index.search(QUERIES, 3, items="product")
    assert np.isneginf(scores[:, 1:]).all()  # no second item was found
