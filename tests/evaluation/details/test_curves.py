"""Curves and histograms against scikit-learn, loops and arithmetic."""

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve

from tests.oracles import scores_of
from tfdml.evaluation.details import curves
from tfdml.evaluation.details.embedded_sets import queries_and_gallery

RNG = np.random.default_rng(0)
LABELS = np.repeat(np.arange(8), [2, 3, 4, 5, 6, 7, 8, 9])
VECTORS = (RNG.normal(size=(8, 6))[LABELS] + RNG.normal(size=(44, 6))).astype("float32")
GALLERY = (RNG.normal(size=(30, 6)).astype("float32"), np.arange(30) % 7)


def sides(gallery):
    if not gallery:
        return queries_and_gallery(VECTORS, LABELS, None, None, 1)
    return queries_and_gallery(VECTORS, LABELS, GALLERY[1], GALLERY[0], 1)


def similarities(queries, items):
    """All cosines in float64, without those of an example with itself."""
    found = scores_of(queries.vectors, items.vectors)
    return found, ~np.eye(len(found), dtype=bool) if queries is items else np.ones(found.shape, bool)


@pytest.mark.parametrize("gallery", [False, True])
def test_the_precision_recall_curve_is_that_of_scikit_learn_for_each_query(gallery):
    queries, items = sides(gallery)
    s, kept = similarities(queries, items)
    rows = np.flatnonzero([((items.labels == queries.labels[i]) & kept[i]).any() for i in range(len(s))])
    levels = np.linspace(0, 1, 101)
    expected = np.zeros(101)
    for i in rows:
        relevant = (items.labels == queries.labels[i])[kept[i]]
        precision, recall, _ = precision_recall_curve(relevant, s[i][kept[i]])
        expected += [precision[:-1][recall[:-1] >= level - 1e-9].max() for level in levels]
    found = curves.precision_recall_curve(queries, items, rows)
    np.testing.assert_allclose(found.x, levels)
    np.testing.assert_allclose(found.y, expected / len(rows), atol=1e-9)


def test_items_with_the_same_similarity_enter_the_precision_together():
    # The query is equally near to one relevant and one other item: precision 1/2 at every recall, in any order.
    for labels in ([0, 1], [1, 0]):
        queries, items = queries_and_gallery([[1.0, 0.0]], [0], np.array(labels), [[2.0, 0.0], [1.0, 0.0]], 1)
        np.testing.assert_array_equal(curves.precision_recall_curve(queries, items, np.array([0])).y, 0.5)


def test_blocks_of_queries_do_not_change_the_curve(monkeypatch):
    queries, items = sides(False)
    whole = curves.precision_recall_curve(queries, items, np.arange(44))
    monkeypatch.setattr(curves, "_SCORES", 100)
    np.testing.assert_allclose(curves.precision_recall_curve(queries, items, np.arange(44)).y, whole.y)


def test_the_recall_curve_counts_the_ranks_up_to_each_k():
    found = curves.recall_curve(np.array([1.0, 3.0, np.nan, 2.0, 1.0]), 3)
    np.testing.assert_array_equal(found.x, [1, 2, 3])
    np.testing.assert_array_equal(found.y, [0.5, 0.75, 1.0])


def test_the_ranks_of_a_large_gallery_are_few_and_include_the_first_and_the_last():
    found = curves.recall_curve(np.array([1.0, 60_000.0]), 60_000)
    assert len(found.x) <= 100
    assert (found.x[0], found.x[-1]) == (1, 60_000)
    assert (found.y[0], found.y[-1]) == (0.5, 1.0)


@pytest.mark.parametrize("gallery", [False, True])
def test_the_histograms_hold_every_pair_of_a_small_set(gallery):
    queries, items = sides(gallery)
    s, kept = similarities(queries, items)
    same = queries.labels[:, None] == items.labels
    found = curves.similarity_histograms(queries, items, seed=0)
    for counts, pairs in ((found.positive, same & kept), (found.negative, ~same)):
        np.testing.assert_array_equal(counts, np.histogram(s[pairs], found.edges)[0])


def test_the_histograms_of_a_large_set_are_a_sample_that_depends_on_the_seed(monkeypatch):
    queries, items = sides(False)
    whole = curves.similarity_histograms(queries, items, seed=0)
    monkeypatch.setattr(curves, "_PAIRS", 200)
    monkeypatch.setattr(curves, "_BINS", 4)
    some = curves.similarity_histograms(queries, items, seed=0)
    assert 0 < some.positive.sum() <= 200
    assert 0 < some.negative.sum() <= 200
    for part, counts in zip(some[1:], whole[1:], strict=True):
        shares = counts.reshape(4, -1).sum(axis=1) / counts.sum()
        np.testing.assert_allclose(part / part.sum(), shares, atol=0.15)
    again, other = (curves.similarity_histograms(queries, items, seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.negative, some.negative)
    assert (other.negative != some.negative).any()


def test_many_queries_are_drawn_by_the_seed_among_those_with_a_relevant_item(monkeypatch):
    ranks = np.where(np.arange(50) % 2, np.nan, 1.0)
    np.testing.assert_array_equal(curves.sampled_queries(ranks, 0), np.arange(0, 50, 2))
    monkeypatch.setattr(curves, "_QUERIES", 10)
    drawn = curves.sampled_queries(ranks, 0)
    assert len(np.unique(drawn)) == 10
    assert (drawn % 2 == 0).all()
    np.testing.assert_array_equal(drawn, curves.sampled_queries(ranks, 0))
