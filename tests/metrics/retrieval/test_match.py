"""More metrics, graded relevance, and query and gallery flags: scikit-learn, examples by hand, memory, errors."""

import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from tests.metrics.retrieval.test_definitions import shared_tags
from tfdml.metrics import retrieval


def some(seed=0, rows=40, dim=4):
    return np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)


X, Y = some(), some(1, rows=25)
CLASSES = np.random.default_rng(2).integers(0, 7, size=40)
TAGS, OTHER_TAGS = (np.random.default_rng(seed).random((rows, 6)) < 0.2 for seed, rows in ((3, 40), (4, 25)))


def test_only_what_is_asked_for_is_added():
    names = ["recall@1", "recall@8", "ndcg@10", "precision@1", "r_precision", "map@r", "map", "mrr"]
    assert list(retrieval(X, CLASSES, k=(1, 8), extra=("ndcg@10",), per_query=True)) == names
    assert list(retrieval(X, CLASSES, k=(1, 8), extra=("ndcg@10", "recall@8", "ndcg@10"), per_query=True)) == names


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


@pytest.mark.parametrize("same", [{}, {"match": lambda a, b: a[:, None] == b}], ids=["classes", "match"])
@pytest.mark.filterwarnings("error")
def test_ties_at_the_top_warn_only_where_an_item_that_is_not_relevant_takes_part(same):
    x = np.repeat([[1.0, 0.0], [0.0, 1.0]], 4, axis=0)
    assert retrieval(x, np.repeat([0, 1], 4), k=1, **same)["map@r"] == 1
    with pytest.warns(UserWarning, match=r"For 100\.0% of the queries .* ties='expected'"):
        retrieval(x, np.tile([0, 0, 1, 1], 2), k=1, **same)


def test_graded_ndcg_by_hand():
    # Grades 1, 3 and 0 in the order of the ranks: 1 + 3 / log2(3) against 3 + 1 / log2(3).
    gallery = np.array([[1.0, 0.1], [1.0, 0.5], [1.0, 2.0]])
    data = {"gallery": gallery, "gallery_labels": [[1], [3], [0]], "k": 1, "extra": ("ndcg@1", "ndcg@3")}
    found = retrieval([[1.0, 0.0]], [0], match=lambda a, b: b.T, **data)
    assert found["ndcg@1"] == pytest.approx(1 / 3)
    assert found["ndcg@3"] == pytest.approx((1 + 3 * 0.63093) / (3 + 0.63093), abs=1e-5)
    assert found["map@r"] == 1  # Both relevant items come first; grades do not matter here.


def test_memory_does_not_change_a_value_and_blocks_bound_it():
    rng = np.random.default_rng(0)
    x, tags = rng.normal(size=(1500, 4)), rng.random((1500, 5)) < 0.3
    options = {"match": shared_tags, "extra": ("precision@3", "ndcg@15", "map@6"), "k": 2}
    expected = retrieval(x, tags, **options)
    tracemalloc.start()
    assert retrieval(x, tags, max_bytes=2**20, **options) == expected
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20  # A matrix of 1,500 x 1,500 float32 takes 9 MiB.


# Flags.


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
        ({"match": shared_tags, "labels": TAGS[1:]}, r"labels of shape \(39, 6\), expected \(40, ...\)"),
        ({"match": shared_tags, "labels": TAGS, "gallery": Y}, "gallery_labels"),
        ({"match": shared_tags, "labels": TAGS, "gallery": Y, "gallery_labels": TAGS}, r"expected \(25, ...\)"),
    ],
)
def test_wrong_input_is_refused_with_advice(change, message):
    arguments = {"labels": CLASSES, **change}
    with pytest.raises(ValueError, match=message):
        retrieval(X, arguments.pop("labels"), **arguments)
