"""More metrics, graded relevance, and query and gallery flags, against loops from the definitions and scikit-learn."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from tests.metrics.retrieval.test_retrieval import of_lists, quiet
from tests.oracles import scores_of
from tfdml.metrics import retrieval

EXTRA = ("precision@3", "ndcg@4", "ndcg@15", "map@6")


def shared_labels(a, b):
    return a.astype("float32") @ b.T.astype("float32")


def shared_levels(a, b):
    return np.cumprod(a[:, None] == b, axis=2).sum(axis=2)


def values_of_one(grades):
    """The definitions, for the grades of one ranked list; None without a relevant item."""
    relevance = [int(grade > 0) for grade in grades]
    total = sum(relevance)
    if total == 0:
        return None
    precision = [sum(relevance[: i + 1]) / (i + 1) for i in range(len(grades))]
    hits = [p * r for p, r in zip(precision, relevance, strict=True)]

    def dcg(grades, k):
        return sum(grade / math.log2(i + 2) for i, grade in enumerate(grades[:k]))

    return {
        "recall@2": float(any(relevance[:2])),
        "precision@1": relevance[0],
        "precision@3": sum(relevance[:3]) / 3,
        **{f"ndcg@{k}": dcg(grades, k) / dcg(sorted(grades, reverse=True), k) for k in (4, 15)},
        "map@6": sum(hits[:6]) / total,
        "r_precision": sum(relevance[:total]) / total,
        "map@r": sum(hits[:total]) / total,
        "map": sum(hits) / total,
        "mrr": 1 / (1 + relevance.index(1)),
    }


def by_loops(queries, items, grade, candidate):
    """Values of each query by cosine similarity, as a dict of arrays; `grade(i, j)` and `candidate(i, j)`."""
    rows = []
    for i, scores in enumerate(scores_of(queries, items)):
        ranking = sorted((j for j in range(len(items)) if candidate(i, j)), key=lambda j: -scores[j])
        rows.append(values_of_one([grade(i, j) for j in ranking]))
    names = next(filter(None, rows))
    return {name: np.array([row[name] if row else np.nan for row in rows]) for name in names}


def assert_same(found, expected, leave_out=()):
    assert set(found) == set(expected) - set(leave_out)
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-12, err_msg=name)


def some(seed=0, rows=40, dim=4):
    return np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)


X, Y = some(), some(1, rows=25)
CLASSES = np.random.default_rng(2).integers(0, 7, size=40)
TAGS, OTHER_TAGS = (np.random.default_rng(seed).random((rows, 6)) < 0.2 for seed, rows in ((3, 40), (4, 25)))
LEVELS = np.stack([CLASSES // 3, CLASSES, np.arange(40) % 2], axis=1)
OPTIONS = {"k": 2, "extra": EXTRA, "per_query": True}


def in_common(i, j):
    return sum(a and b for a, b in zip(TAGS[i].tolist(), TAGS[j].tolist(), strict=True))


# Classes.


def test_more_metrics_agree_with_the_definitions():
    expected = by_loops(X, X, lambda i, j: int(CLASSES[i] == CLASSES[j]), lambda i, j: i != j)
    assert_same(retrieval(X, CLASSES, **OPTIONS), expected)
    assert_same(retrieval(X, CLASSES, full_map=False, **OPTIONS), expected, ["map"])
    neighbors = np.argsort(-scores_of(X, X), axis=1)
    assert_same(of_lists(neighbors, CLASSES, **OPTIONS), expected, ["map"])


def test_only_what_is_asked_for_is_added():
    names = ["recall@1", "recall@8", "ndcg@10", "precision@1", "r_precision", "map@r", "map", "mrr"]
    assert list(retrieval(X, CLASSES, k=(1, 8), extra=("ndcg@10",), per_query=True)) == names
    assert list(retrieval(X, CLASSES, k=(1, 8), extra=("ndcg@10", "recall@8", "ndcg@10"), per_query=True)) == names


@pytest.mark.parametrize("seed", range(3))
def test_expected_values_are_the_mean_over_all_orders_of_tied_items(seed):
    rng = np.random.default_rng(seed)
    scores, grades = rng.integers(0, 3, size=6), np.array([1, 3, 0, 0, 2, 0])
    orders = itertools.permutations(range(6))
    rankings = (sorted(order, key=lambda j: -scores[j]) for order in orders)
    every = [values_of_one([int(grades[j]) for j in ranking]) for ranking in rankings]
    mean = {name: np.mean([values[name] for values in every]) for name in every[0]}
    gallery = {"gallery": scores[:, None], "gallery_labels": grades, "metric": "dot", "ties": "expected"}
    options = {"k": 2, "extra": ("precision@3", "ndcg@4", "map@6"), "per_query": True, **gallery}
    found = retrieval([[1.0]], [0], match=lambda a, b: np.tile(b, (len(a), 1)), **options)
    assert_same(found, {name: [value] for name, value in mean.items()}, ["ndcg@15"])
    options["gallery_labels"] = grades > 0
    binary = retrieval([[1.0]], [1], **{**options, "gallery_labels": (grades > 0).astype(int)})
    assert_same(
        {name: binary[name] for name in binary if "ndcg" not in name},
        {n: [mean[n]] for n in mean},
        ["ndcg@4", "ndcg@15"],
    )


def test_ndcg_is_that_of_scikit_learn_also_where_scores_are_tied():
    rng = np.random.default_rng(5)
    x, g, labels = rng.integers(-1, 2, (20, 3)), rng.integers(-1, 2, (30, 3)), rng.integers(0, 4, 30)
    grades = rng.integers(0, 4, size=(20, 30))
    options = {"k": 1, "gallery": g, "gallery_labels": np.arange(30), "metric": "dot", "extra": ("ndcg@5", "ndcg@30")}
    found = retrieval(x, np.arange(20), match=lambda a, b: grades[a][:, b], ties="expected", per_query=True, **options)
    for k in (5, 30):
        expected = [ndcg_score([y], [s], k=k) for y, s in zip(grades, x @ g.T, strict=True)]
        np.testing.assert_allclose(found[f"ndcg@{k}"], expected, atol=1e-12)
    found = retrieval(x, np.arange(20) % 4, **{**options, "gallery_labels": labels}, ties="expected", per_query=True)
    expected = [ndcg_score([labels == i % 4], [s], k=5) for i, s in enumerate(x @ g.T)]
    np.testing.assert_allclose(found["ndcg@5"], expected, atol=1e-12)


# Labels compared by a function.


def test_a_function_that_compares_classes_gives_the_numbers_of_classes():
    same = {"match": lambda a, b: a[:, None] == b}
    assert_same(retrieval(X, CLASSES, **same, **OPTIONS), retrieval(X, CLASSES, **OPTIONS))
    groups = np.arange(40) % 3
    expected = retrieval(X, CLASSES, groups=groups, **OPTIONS)
    assert_same(retrieval(X, CLASSES, groups=groups, **same, **OPTIONS), expected)
    coarse = np.round(X)
    for ties in ("index", "expected"):
        expected = quiet(coarse, CLASSES, ties=ties, **OPTIONS)
        assert_same(quiet(coarse, CLASSES, ties=ties, **same, **OPTIONS), expected)


@pytest.mark.parametrize("same", [{}, {"match": lambda a, b: a[:, None] == b}], ids=["classes", "match"])
@pytest.mark.filterwarnings("error")
def test_ties_at_the_top_warn_only_where_an_item_that_is_not_relevant_takes_part(same):
    x = np.repeat([[1.0, 0.0], [0.0, 1.0]], 4, axis=0)
    assert retrieval(x, np.repeat([0, 1], 4), k=1, **same)["map@r"] == 1
    with pytest.warns(UserWarning, match=r"For 100\.0% of the queries .* ties='expected'"):
        retrieval(x, np.tile([0, 0, 1, 1], 2), k=1, **same)


def test_sets_of_labels_agree_with_the_definitions():
    expected = by_loops(X, X, in_common, lambda i, j: i != j)
    assert_same(retrieval(X, TAGS, match=shared_labels, **OPTIONS), expected)
    assert np.isnan(expected["map"]).sum() == retrieval(X, TAGS, match=shared_labels)["skipped"] > 0


def test_sets_of_labels_of_queries_and_a_gallery_agree_with_the_definitions():
    expected = by_loops(X, Y, lambda i, j: int((TAGS[i] & OTHER_TAGS[j]).sum()), lambda i, j: True)
    gallery = {"gallery": Y, "gallery_labels": OTHER_TAGS}
    assert_same(retrieval(X, TAGS, match=shared_labels, **gallery, **OPTIONS), expected)
    relevance, scores = TAGS.astype(int) @ OTHER_TAGS.T.astype(int) > 0, scores_of(X, Y)
    kept = ~np.isnan(expected["map"])
    precision = [average_precision_score(r, s) for r, s in zip(relevance[kept], scores[kept], strict=True)]
    np.testing.assert_allclose(expected["map"][kept], precision)


def test_levels_of_a_hierarchy_agree_with_the_definitions():
    def leading(i, j):
        return next((n for n in range(3) if LEVELS[i, n] != LEVELS[j, n]), 3)

    found = retrieval(X, LEVELS, match=shared_levels, **OPTIONS)
    assert_same(found, by_loops(X, X, leading, lambda i, j: i != j))


def test_graded_ndcg_by_hand():
    # Grades 1, 3 and 0 in the order of the ranks: 1 + 3 / log2(3) against 3 + 1 / log2(3).
    gallery = np.array([[1.0, 0.1], [1.0, 0.5], [1.0, 2.0]])
    data = {"gallery": gallery, "gallery_labels": [[1], [3], [0]], "k": 1, "extra": ("ndcg@1", "ndcg@3")}
    found = retrieval([[1.0, 0.0]], [0], match=lambda a, b: b.T, **data)
    assert found["ndcg@1"] == pytest.approx(1 / 3)
    assert found["ndcg@3"] == pytest.approx((1 + 3 * 0.63093) / (3 + 0.63093), abs=1e-5)
    assert found["map@r"] == 1  # Both relevant items come first; grades do not matter here.


def test_neighbors_give_the_numbers_of_the_exact_search():
    neighbors = np.argsort(-scores_of(X, X), axis=1)
    expected = retrieval(X, TAGS, match=shared_labels, full_map=False, **OPTIONS)
    assert_same(of_lists(neighbors, TAGS, match=shared_labels, **OPTIONS), expected)
    neighbors = np.argsort(-scores_of(X, Y), axis=1)
    sides = {"gallery_labels": OTHER_TAGS, "groups": np.arange(40) % 3, "gallery_groups": np.arange(25) % 3}
    expected = retrieval(X, TAGS, gallery=Y, match=shared_labels, full_map=False, **sides, **OPTIONS)
    assert_same(of_lists(neighbors, TAGS, match=shared_labels, **sides, **OPTIONS), expected)


def test_memory_does_not_change_a_value_and_blocks_bound_it():
    rng = np.random.default_rng(0)
    x, tags = rng.normal(size=(1500, 4)), rng.random((1500, 5)) < 0.3
    options = {"match": shared_labels, "extra": EXTRA, "k": 2}
    expected = retrieval(x, tags, **options)
    tracemalloc.start()
    assert retrieval(x, tags, max_bytes=2**20, **options) == expected
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20  # A matrix of 1,500 x 1,500 float32 takes 9 MiB.


# Flags.


def flags(seed):
    return tuple(np.random.default_rng(seed).random((2, 40)) < 0.6)


def test_flags_choose_queries_and_gallery_and_remove_each_query_from_its_own():
    queries, in_gallery = flags(0)
    rows, items = np.flatnonzero(queries), np.flatnonzero(in_gallery)
    assert 0 < len(np.intersect1d(rows, items)) < min(len(rows), len(items))
    expected = by_loops(
        X[rows], X[items], lambda i, j: int(CLASSES[rows[i]] == CLASSES[items[j]]), lambda i, j: rows[i] != items[j]
    )
    assert_same(retrieval(X, CLASSES, queries=queries, in_gallery=in_gallery, **OPTIONS), expected)
    neighbors = np.argsort(-scores_of(X[rows], X[items]), axis=1)
    ids = {"groups": rows, "gallery_groups": items, "gallery_labels": CLASSES[items]}
    assert_same(of_lists(neighbors, CLASSES[rows], **ids, **OPTIONS), expected, ["map"])


def test_flags_work_with_groups_and_with_a_function():
    queries, in_gallery = flags(1)
    rows, items, groups = np.flatnonzero(queries), np.flatnonzero(in_gallery), np.arange(40) % 4
    found = retrieval(X, TAGS, queries=queries, in_gallery=in_gallery, groups=groups, match=shared_labels, **OPTIONS)
    expected = by_loops(
        X[rows],
        X[items],
        lambda i, j: in_common(rows[i], items[j]),
        lambda i, j: groups[rows[i]] != groups[items[j]],
    )
    assert_same(found, expected)


def test_flags_of_all_rows_are_leave_one_out():
    every = np.ones(40, bool)
    assert retrieval(X, CLASSES, queries=every, in_gallery=every) == retrieval(X, CLASSES)
    assert retrieval(X, CLASSES, queries=every) == retrieval(X, CLASSES)


def test_a_copy_of_a_query_in_the_gallery_stays():
    # Rows 0 and 1 are the same photograph. Row 0 is a query and in the gallery, row 1 is in the gallery only.
    x = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    found = retrieval(x, [0, 0, 1], k=1, queries=np.array([True, False, False]))
    assert (found["recall@1"], found["map"], found["queries"]) == (1, 1, 1)
    only = {"queries": np.array([True, False, False]), "in_gallery": np.array([True, False, True])}
    with pytest.raises(ValueError, match="None of the 1 queries has a relevant item"):
        retrieval(x, [0, 0, 1], k=1, **only)


# Errors.

NONE = np.zeros(40, bool)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": ("map@r",)}, "'map@r' in extra, expected names such as"),
        ({"extra": ("f1@3",)}, "'f1@3' in extra"),
        ({"extra": ("ndcg@0",)}, "'ndcg@0' in extra"),
        ({"extra": (5,)}, "'?5'? in extra"),
        ({"extra": "ndcg@5"}, r"Write extra=\('ndcg@5',\)"),
        ({"extra": ("precision@40",)}, "k=40, but a query has 39 candidates"),
        ({"queries": NONE}, "0 queries"),
        ({"in_gallery": NONE}, "0 gallery items"),
        ({"queries": NONE[1:]}, r"queries of shape \(39,\), bool, expected \(40,\) booleans"),
        ({"in_gallery": np.arange(40)}, r"in_gallery of shape \(40,\), int64, expected \(40,\) booleans"),
        ({"queries": ~NONE, "gallery": X, "gallery_labels": CLASSES}, "gallery with queries or in_gallery"),
        ({"queries": ~NONE, "gallery_groups": CLASSES}, "gallery_groups with queries or in_gallery"),
        ({"queries": ~NONE, "labels": CLASSES[1:]}, r"labels of shape \(39,\), expected \(40, ...\)"),
        ({"queries": ~NONE, "groups": CLASSES[1:]}, "one id per row"),
        ({"match": "equal"}, "match='equal', expected a function"),
        ({"match": lambda a, b: a[:, None] == b, "average": "macro"}, "average='macro' with match"),
        ({"match": lambda a, b: a == a[0]}, r"a matrix of shape \(40,\), bool, from match, expected"),
        ({"match": lambda a, b: np.subtract.outer(a, b)}, "grades of at least 0"),
        ({"match": lambda a, b: np.full((len(a), len(b)), np.nan)}, "grades of at least 0"),
        ({"match": lambda a, b: np.full((len(a), len(b)), np.inf)}, "finite grades of at least 0"),
        ({"match": lambda a, b: np.full((len(a), len(b)), "x")}, "grades of at least 0"),
        ({"match": lambda a, b: np.zeros((len(a), len(b)))}, "None of the 40 queries"),
        ({"match": shared_labels, "labels": TAGS[1:]}, r"labels of shape \(39, 6\), expected \(40, ...\)"),
        ({"match": shared_labels, "labels": TAGS, "gallery": Y}, "gallery_labels"),
        ({"match": shared_labels, "labels": TAGS, "gallery": Y, "gallery_labels": TAGS}, r"expected \(25, ...\)"),
    ],
)
def test_wrong_input_is_refused_with_advice(change, message):
    arguments = {"labels": CLASSES, **change}
    with pytest.raises(ValueError, match=message):
        retrieval(X, arguments.pop("labels"), **arguments)
