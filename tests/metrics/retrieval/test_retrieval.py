"""Retrieval numbers against scikit-learn and examples done by hand; near ties, memory, lists, errors."""

import math
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from tests.oracles import number_of, rankings_of, scores_of, unit
from tests.search.products import unsteady
from tfdml.metrics import retrieval
from tfdml.metrics.retrieval import ranks
from tfdml.search import blocks, scores

NAMES = ("recall@1", "recall@2", "recall@4", "recall@8", "precision@1", "r_precision", "map@r", "map", "mrr")


def of_lists(neighbors, labels, **options):
    """The numbers of neighbor lists."""
    return retrieval(None, labels, neighbors=neighbors, **options)


def clustered(classes=12, dim=6, noise=1.0, seed=0):
    """Uneven classes of 1 to 9 members, in mixed order."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(classes), rng.integers(1, 10, size=classes)))
    centers = rng.normal(size=(classes, dim))
    return (centers[labels] + noise * rng.normal(size=(len(labels), dim))).astype(np.float32), labels


def quiet(*args, **kwargs):
    """`retrieval` where ties are meant to be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return retrieval(*args, **kwargs)


def whole(*args, **kwargs):
    """`quiet` with `map`; looks that the numbers are the same without it."""
    full, top = quiet(*args, **kwargs), quiet(*args, full_map=False, **kwargs)
    assert set(full) - set(top) == {"map"}
    for name in top:
        np.testing.assert_array_equal(top[name], full[name])
    return full


def assert_same(got, expected, tolerance=1e-12):
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=0, atol=tolerance, err_msg=name)


# Examples by hand.

QUERY = [[1.0, 0.0]]


def arc(count):
    """Unit vectors that the query (1, 0) ranks in their order."""
    angles = np.linspace(0.1, 1.5, count)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


MAP = (1 / 2 + 2 / 6 + 3 / 7 + 4 / 8 + 5 / 9) / 5

# Relevance by rank, and values. The map@2 of the first row would be 0.5 divided by the one hit and 0.25 by min(2, R);
# its recall@2 is the hit rate, not the share 0.2 of the relevant items. Discounts of ndcg: 1, 1/log2(3), 1/log2(4).
BY_HAND = [
    ([0, 1, 0, 0, 0, 1, 1, 1, 1], {"recall@1": 0, "recall@2": 1, "precision@1": 0, "r_precision": 0.2, "mrr": 0.5}),
    ([0, 1, 0, 0, 0, 1, 1, 1, 1], {"map@2": 0.1, "map@5": 0.1, "map@r": 0.1, "map@9": MAP, "map": MAP}),
    ([1, 0, 1, 1, 0], {"map@r": (1 + 2 / 3) / 3, "r_precision": 2 / 3, "map": (1 + 2 / 3 + 3 / 4) / 3, "mrr": 1}),
    ([1, 1, 1, 0, 0, 0, 0, 0], dict.fromkeys(NAMES, 1)),
    ([1, 1, 1, 1, 0], {"map@1": 0.25, "map@2": 0.5, "map@4": 1}),
    ([1, 0, 1, 0, 0], {"precision@1": 1, "precision@2": 1 / 2, "precision@3": 2 / 3, "precision@5": 2 / 5}),
    ([0, 1, 1, 0, 0, 1], {"ndcg@1": 0, "ndcg@2": 0.63093 / 1.63093, "ndcg@3": 1.13093 / 2.13093}),
    ([1, 0, 0, 0], {"ndcg@4": 1}),
]


@pytest.mark.parametrize(("relevance", "expected"), BY_HAND)
def test_the_numbers_of_one_ranking_by_hand(relevance, expected):
    extra = [name for name in expected if "@" in name and name != "map@r"]
    gallery = {"gallery": arc(len(relevance)), "gallery_labels": relevance}
    assert_same(whole(QUERY, [1], k=1, extra=extra, **gallery), expected, 1e-5)


def test_a_query_is_removed_by_its_row_and_not_by_its_rank():
    # Rows 0 and 1 are the same photograph under two classes. The list of row 1 is 0, 1, 2, 3: without its first item
    # the query would find itself. Rankings: 1 2 3, 0 2 3, 0 1 3, 2 0 1.
    x = [[1.0, 0.0], [1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]
    found = quiet(x, [0, 1, 0, 1], k=1, per_query=True)
    np.testing.assert_allclose(found["mrr"], [1 / 2, 1 / 3, 1, 1 / 3])


def test_nothing_is_removed_from_a_gallery_of_its_own():
    x = [[1.0, 0.0], [0.0, 1.0]]
    with pytest.warns(UserWarning, match="each query finds itself. Leave out gallery="):
        found = retrieval(x, [0, 1], k=1, gallery=x, gallery_labels=[0, 1])
    assert (found["recall@1"], found["queries"]) == (1, 2)


def test_keys_come_in_the_documented_order():
    x, labels = clustered()
    names = ["recall@1", "recall@10", "precision@1", "r_precision", "map@r", "mrr", "queries", "skipped"]
    assert list(retrieval(x, labels, k=(10, 1, 10), full_map=False)) == names
    assert list(retrieval(x, labels, k=(1, 10))) == [*names[:5], "map", *names[5:]]


@pytest.mark.parametrize(
    ("share", "items", "rank"), [("1%", 100, 1), ("1%", 101, 2), ("0.5%", 200, 1), ("7%", 100, 7), ("100%", 9, 9)]
)
def test_a_share_of_the_gallery_is_a_rank_that_is_rounded_up(share, items, rank):
    rng = np.random.default_rng(1)
    x, gallery = rng.normal(size=(40, 5)), rng.normal(size=(items, 5))
    labels, gallery_labels = rng.integers(0, 8, 40), rng.integers(0, 8, items)
    got = retrieval(x, labels, gallery=gallery, gallery_labels=gallery_labels, k=(share, rank), per_query=True)
    assert [name for name in got if "recall" in name] == [f"recall@{rank}", f"recall@{share}"]
    np.testing.assert_array_equal(got[f"recall@{share}"], got[f"recall@{rank}"])


def test_in_leave_one_out_a_share_counts_the_candidates_without_the_query():
    x, labels = clustered()
    rank = -(-(len(labels) - 1) // 10)
    got = retrieval(x, labels, k=("10%", rank, 2), full_map=False)
    assert got["recall@10%"] == got[f"recall@{rank}"]
    neighbors = np.argsort(-scores_of(x, x), axis=1, kind="stable")
    lists = of_lists(neighbors, labels, k="10%")
    assert lists["recall@10%"] == got["recall@10%"]


# Other libraries.


def test_map_is_scikit_learns_average_precision():
    x, labels = clustered(seed=9)
    scores = scores_of(x, x)
    others = ~np.eye(len(x), dtype=bool)
    expected = [
        average_precision_score(labels[others[i]] == labels[i], scores[i][others[i]])
        for i in range(len(x))
        if (labels == labels[i]).sum() > 1
    ]
    assert whole(x, labels)["map"] == pytest.approx(np.mean(expected), abs=1e-9)


# Vectors that are nearly equal.


def with_near_ties(classes, rows=260, dim=24, seed=0):
    """Vectors of which many are duplicates, a bit apart, or codes of -1 and 1; a few large or many small classes."""
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(rows, dim)).astype(np.float32), rng.integers(0, classes, size=rows)
    x += rng.normal(size=(classes, dim)).astype(np.float32)[labels]
    x[60:120] = x[:60]
    x[120:180] = np.nextafter(x[:60], np.float32(9))
    x[180:220] = np.sign(x[180:220])
    return x, labels


def test_without_k_the_ranks_are_those_that_a_query_has_candidates_for():
    x, labels = np.eye(4), [0, 0, 1, 1]
    for found in (quiet(x, labels), of_lists([[1, 2], [0, 2], [3, 0], [2, 0]], labels)):
        assert [name for name in found if "recall" in name] == ["recall@1", "recall@2"]
    with pytest.raises(ValueError, match="k=8, but a query has 3 candidates"):
        retrieval(x, labels, k=(1, 2, 4, 8))


def exact_scores(queries, gallery, metric):
    """`(q, n)` scores of pairs, each from a correctly rounded sum."""
    gallery = scores.Gallery(gallery, metric)
    queries = gallery.scores(queries).queries.astype(float)
    found = np.empty((len(queries), len(gallery)), np.float32)
    for i, q in enumerate(queries):
        terms = -((q - gallery.vectors) ** 2) if metric == "euclidean" else q * gallery.vectors
        sums = np.array([math.fsum(row) for row in terms])
        found[i] = -np.sqrt(-sums) if metric == "euclidean" else sums
    return found


@pytest.mark.parametrize(
    ("metric", "classes"),
    [("dot", 5), *(pytest.param(*row, marks=pytest.mark.slow) for row in [("cosine", 2), ("euclidean", 120)])],
)
def test_memory_threads_and_the_product_do_not_change_a_bit(metric, classes, monkeypatch):
    x, labels = with_near_ties(classes)
    groups, gallery = {"groups": np.arange(len(x)) % 3}, {"gallery": x[::2], "gallery_labels": labels[::2]}
    for options in ({"ties": "index"}, {"ties": "expected"}, groups, gallery):
        options = {"metric": metric, "per_query": True, **options}
        monkeypatch.undo()
        expected = whole(x, labels, **options)
        for threads, max_bytes in ((1, 2**29), (2, 200_000)):
            monkeypatch.setattr(scores, "product", unsteady)
            monkeypatch.setattr(blocks, "thread_count", lambda threads=threads: threads)
            got = whole(x, labels, max_bytes=max_bytes, **options)
            for name in NAMES:
                np.testing.assert_array_equal(got[name], expected[name])


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("classes", [2, 5, 120])
@pytest.mark.parametrize("method", ["tile", "sort", "count"])
def test_near_ties_rank_by_the_scores_of_pairs_and_then_by_position(metric, classes, method, monkeypatch):
    monkeypatch.setattr(scores, "product", unsteady)
    monkeypatch.setattr(ranks.tiling, "_COLUMNS", 50)
    monkeypatch.setattr(ranks, "_fastest_method", lambda *arguments: getattr(ranks, method))
    x, labels = with_near_ties(classes, seed=1)
    some = np.arange(0, len(x), 11)
    got = whole(x, labels, metric=metric, per_query=True)
    for row, row_scores in zip(some, exact_scores(x[some], x, metric), strict=True):
        (ranking,) = rankings_of(row_scores, np.delete(np.arange(len(x)), row))
        values = {name: number_of(name, labels[ranking] == labels[row]) for name in NAMES}
        assert_same({name: got[name][row] for name in NAMES}, values)


def test_data_where_every_order_is_open_stays_within_its_memory(monkeypatch):
    x = np.sign(np.random.default_rng(0).normal(size=(3000, 16))) + np.float32(0)
    labels = np.random.default_rng(1).integers(0, 600, size=3000)
    quiet(x[:50], labels[:50] // 60)
    tracemalloc.start()
    quiet(x, labels, max_bytes=2**23)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * 2**20  # A matrix of 3,000 x 3,000 float32 takes 34 MiB, the scores of its pairs many times more.


def test_cosine_ignores_length_and_euclidean_agrees_with_it_on_the_sphere():
    x, labels = clustered()
    scaled = x * np.random.default_rng(0).uniform(1e-12, 1e12, size=(len(x), 1)).astype(np.float32)
    on_sphere = unit(x)
    assert_same(retrieval(scaled, labels), retrieval(x, labels))
    assert_same(retrieval(on_sphere, labels, metric="euclidean"), retrieval(x, labels))


def test_a_vector_of_zeros_has_cosine_zero_with_everything():
    x = np.array([[0.0, 0.0], [1.0, 0.1], [1.0, 0.0], [-1.0, 0.0]])
    got = quiet(x, [0, 0, 1, 1], k=1, per_query=True)
    assert got["mrr"][1] == 0.5


# From neighbors.


def all_neighbors(x):
    scores = scores_of(x, x)
    return np.argsort(-scores, axis=1, kind="stable")


def test_neighbors_give_the_numbers_of_the_exact_search():
    x, labels = clustered()
    expected = retrieval(x, labels, full_map=False)
    full = all_neighbors(x)
    got = of_lists(full, labels)
    assert list(got) == list(expected)
    assert_same(got, expected)
    largest = np.unique(labels, return_counts=True)[1].max()
    short = of_lists(full[:, : max(largest, 9)], labels)
    assert_same({n: short[n] for n in short if n != "mrr"}, {n: expected[n] for n in expected if n != "mrr"})


def test_the_query_is_taken_out_of_its_list_wherever_it_stands():
    labels = [0, 0, 1, 1]
    lists = np.array([[0, 2, 1], [2, 1, 0], [3, 0, 1], [0, 3, 2]])
    got = of_lists(lists, labels, k=(1, 2), per_query=True)
    np.testing.assert_array_equal(got["recall@1"], [0, 0, 1, 0])
    np.testing.assert_array_equal(got["recall@2"], [1, 1, 1, 1])
    np.testing.assert_array_equal(got["mrr"], [0.5, 0.5, 1, 0.5])


def test_a_list_without_a_hit_counts_zero_in_mrr():
    got = of_lists([[1], [0]], [0, 0], k=1, gallery_labels=[1, 0, 2, 0], at_r=False, per_query=True)
    np.testing.assert_array_equal(got["mrr"], [1, 0])
    assert "map@r" not in got
    assert "r_precision" not in got


def test_a_place_where_nothing_was_found_counts_as_not_relevant():
    got = of_lists([[2, -1, -1]], [7], k=1, gallery_labels=[7, 0, 7, 7])
    assert_same(got, {"r_precision": 1 / 3, "map@r": 1 / 3, "recall@1": 1})


def test_too_few_neighbors_are_an_error_for_every_metric_that_needs_more():
    lists, options = [[0, 1]], {"k": 1, "gallery_labels": [1, 0, 1, 1]}
    with pytest.raises(ValueError, match="at least 3, the larger of k and its number of relevant items"):
        of_lists(lists, [1], **options)
    with pytest.raises(ValueError, match=r"Received 2 neighbors .* at least 4.* Search for more neighbors"):
        of_lists(lists, [1], **options, at_r=False, extra=("ndcg@4",))
    found = of_lists(lists, [1], **options, at_r=False, extra=("map@2", "precision@2", "ndcg@2"))
    assert (found["map@2"], found["precision@2"]) == (1 / 3, 1 / 2)
    assert found["ndcg@2"] == pytest.approx(1 / 1.63093, abs=1e-5)  # R = 3 comes from the labels, not from the list.


def test_a_gallery_that_a_group_leaves_small_needs_no_more_neighbors_than_it_has():
    got = of_lists([[2, 0]], [1], k=3, gallery_labels=[1, 1, 0], groups=[9], gallery_groups=[8, 9, 8])
    assert_same(got, {"recall@3": 1, "mrr": 0.5, "r_precision": 0})


def test_a_skipped_query_needs_no_neighbors():
    got = of_lists([[1, 2, 0], [-1, -1, -1]], [0, 5], k=1, gallery_labels=[0, 0, 1])
    assert_same(got, {"recall@1": 1, "r_precision": 0.5, "queries": 1, "skipped": 1})


# Errors.

X, LABELS = clustered()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embeddings": np.arange(1, len(X) + 1)[:, None] * [[3.0, 4.0]]}, "all the same"),
        ({"embeddings": np.ones_like(X) + 1e-7, "metric": "euclidean"}, "all the same"),
        ({"groups": np.ma.masked_equal(LABELS, LABELS[0])}, "groups with"),
        ({"embeddings": X * 1e20, "metric": "dot"}, "range of float32"),
        ({"k": 0}, "expected positive integers"),
        ({"k": ()}, "expected positive integers"),
        ({"k": (1, 2.5)}, "expected positive integers"),
        ({"k": "1"}, r"k='1', expected positive integers, such as \(1, 2, 4, 8\), or shares: '1%'"),
        ({"k": (1, "0%")}, "or shares"),
        ({"k": "101%"}, "or shares"),
        ({"k": "1e3%"}, "or shares"),
        ({"k": len(X)}, "Lower k"),
        ({"metric": "l2"}, "expected one of 'cosine'"),
        ({"ties": "random"}, "one of 'index', 'expected'"),
        ({"average": "weighted"}, "one of 'micro', 'macro'"),
        ({"max_bytes": 1000}, "expected at least"),
        ({"gallery": X}, "needs gallery_labels"),
        ({"gallery": X[:, 1:], "gallery_labels": LABELS}, "dim"),
        ({"gallery": X[:0], "gallery_labels": LABELS[:0]}, "at least one"),
        ({"gallery_labels": LABELS}, "without a gallery"),
        ({"gallery": X, "gallery_labels": LABELS, "groups": LABELS}, "gallery_groups"),
        ({"groups": LABELS[1:]}, "one id per row"),
        ({"labels": np.arange(len(X))}, "None of the"),
        ({"embeddings": None}, "neither of embeddings and neighbors"),
        ({"neighbors": [[0]]}, "both of embeddings and neighbors"),
        ({"embeddings": None, "neighbors": [[0]], "queries": [True]}, "queries with neighbors, expected"),
    ],
)
def test_wrong_input_is_refused_with_advice(change, message):
    arguments = {"embeddings": X, "labels": LABELS, **change}
    with pytest.raises(ValueError, match=message):
        retrieval(arguments.pop("embeddings"), arguments.pop("labels"), **arguments)


@pytest.mark.parametrize(
    ("neighbors", "change", "message"),
    [
        ([[0, 1], [9, 0]], {}, "row numbers of the gallery"),
        ([[0, 1], [-2, 0]], {}, "row numbers of the gallery"),
        ([[0, 1, 1], [0, 1, 2]], {}, "repeat within a list, first for query 0"),
        ([[0.0, 1.0], [1.0, 0.0]], {}, "integers"),
        (np.ma.masked_equal([[0, 1], [1, 0]], 1), {}, "neighbors with 2 masked entries"),
        ([0, 1], {}, r"expected \(queries, n\)"),
        ([[0], [1]], {"k": 2}, "Search for more neighbors"),
        ([[0, 1], [1, 0]], {"labels": [0, 0, 0]}, "one id per row"),
    ],
)
def test_wrong_neighbors_are_refused_with_advice(neighbors, change, message):
    arguments = {"labels": [0, 0], "gallery_labels": [0, 1, 0], "k": 1, **change}
    with pytest.raises(ValueError, match=message):
        of_lists(neighbors, arguments.pop("labels"), **arguments)


@pytest.mark.parametrize("gallery", [{}, {"gallery": np.eye(3)[:, :2], "gallery_labels": [5, 5, 5]}])
def test_one_class_is_an_error_because_every_ranking_is_perfect(gallery):
    lists = np.array([[1, 2], [0, 2], [0, 1]])
    with pytest.raises(ValueError, match="labels of one class, 5"):
        retrieval(lists, [5, 5, 5], k=1, **gallery)
    gallery.pop("gallery", None)
    with pytest.raises(ValueError, match="labels of one class, 5"):
        of_lists(lists, [5, 5, 5], k=1, **gallery)


def test_progress_shows_a_bar_until_all_queries_are_ranked(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    retrieval(X, LABELS, verbose=1)
    retrieval(X, LABELS, verbose=1, full_map=False)
    done = f"[{30 * '='}] {len(X)}/{len(X)}\n"
    assert capsys.readouterr().err.count(f"queries ranked {done}") == 2
