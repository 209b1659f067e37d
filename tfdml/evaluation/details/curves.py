"""Curves and histograms of an evaluation."""

import numpy as np

from tfdml.evaluation.details.records import Curve, Similarities
from tfdml.search.scores import row_products

_POINTS = 100  # of a curve
_BINS = 100
_QUERIES = 2_000  # of the precision-recall curve: each ranks the complete gallery
_PAIRS = 2**20  # of each histogram
_SCORES = 2**22  # float32 scores in memory at the same time
_STEP = 2**13  # pairs in memory at the same time


def recall_curve(ranks, candidates):
    """Recall@k for k from 1 to the number of candidates, with equal ratios, by the ranks of first relevant items."""
    ordered = np.sort(ranks[~np.isnan(ranks)])
    ks = np.unique(np.rint(np.geomspace(1, candidates, _POINTS)))
    return Curve(ks, np.searchsorted(ordered, ks, "right") / len(ordered))


def precision_recall_curve(queries, items, query_rows):
    """The interpolated precision at each recall r, max precision(t) over recall(t) >= r, a mean over some queries.

    Both are over the items with a similarity of at least t; `query_rows` have relevant items. In leave-one-out,
    `queries` and `items` are the same set. Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval,
    2008, 8.4.
    """
    recalls = np.linspace(0, 1, _POINTS + 1)
    total = np.zeros(len(recalls))
    step = max(1, _SCORES // len(items.labels))
    for start in range(0, len(query_rows), step):
        chunk = query_rows[start : start + step]
        scores = queries.unit[chunk] @ items.unit.T
        if queries is items:
            scores[np.arange(len(chunk)), chunk] = -np.inf
        for row, label in zip(scores, queries.labels[chunk], strict=True):
            relevant = row[(items.labels == label) & (row > -np.inf)]
            total += _precision_at(recalls, np.sort(row), np.sort(relevant)[::-1])
    return Curve(recalls, total / len(query_rows))


def _precision_at(levels, ordered, relevant):
    """The interpolated precision at each recall, from all scores ascending and relevant scores descending."""
    hits = np.searchsorted(-relevant, -relevant, "right")
    precision = hits / (len(ordered) - np.searchsorted(ordered, relevant, "left"))
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return best[np.maximum(np.ceil(levels * len(relevant) - 1e-9).astype(int), 1) - 1]


def sampled_queries(ranks, seed):
    """Ascending rows of queries with a relevant item, at most 2,000, drawn at random."""
    rows = np.flatnonzero(~np.isnan(ranks))
    if len(rows) <= _QUERIES:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, _QUERIES, replace=False))


def similarity_histograms(queries, items, seed):
    """Histograms of the similarities of positive and of negative pairs, without pairs of an example with itself.

    All positive pairs count, or 2^20 random ones; and all negative pairs, or those among 2^20 random pairs.
    """
    edges = np.linspace(-1, 1, _BINS + 1)
    rows = [pairs(queries, items, np.random.default_rng(seed)) for pairs in (_positive_pairs, _negative_pairs)]
    return Similarities(edges, *(_histogram(queries, items, *pair_rows, edges) for pair_rows in rows))


def _histogram(queries, items, query_rows, item_rows, edges):
    counts = np.zeros(len(edges) - 1, np.int64)
    for start in range(0, len(query_rows), _STEP):
        chunk = slice(start, start + _STEP)
        s = row_products(queries.unit[query_rows[chunk]], items.unit[item_rows[chunk]])
        counts += np.histogram(np.clip(s, -1, 1), edges)[0]
    return counts


def _positive_pairs(queries, items, random):
    order = np.argsort(items.labels, kind="stable")
    start, stop = (np.searchsorted(items.labels[order], queries.labels, side) for side in ("left", "right"))
    ends = np.cumsum(stop - start)  # pairs are numbered query by query
    pairs = _sampled_numbers(ends[-1], random)
    query = np.searchsorted(ends, pairs, "right")
    item = order[stop[query] + pairs - ends[query]]
    is_pair = (query != item) | (queries is not items)
    return query[is_pair], item[is_pair]


def _negative_pairs(queries, items, random):
    query, item = np.divmod(_sampled_numbers(len(queries.labels) * len(items.labels), random), len(items.labels))
    is_pair = (queries.labels[query] != items.labels[item]) & queries.is_labeled[query]
    return query[is_pair], item[is_pair]


def _sampled_numbers(count, random):
    """The numbers below `count`, or 2^20 random ones."""
    return np.arange(count) if count <= _PAIRS else random.integers(count, size=_PAIRS)
