"""Curves and histograms of an evaluation."""

import numpy as np

from tfdml.evaluation.report.records import Curve, Similarities
from tfdml.search.scores import row_products

_POINTS = 100  # of a curve
_BINS = 100
_QUERIES = 2_000  # of the precision-recall curve: one ranking of the whole gallery each
_PAIRS = 2**20  # of each histogram
_SCORES = 2**22  # float32 scores in memory at the same time
_STEP = 2**13  # pairs in memory at the same time


def recall_curve(ranks, candidates):
    """Recall@k for k from 1 to the number of candidates, at places with equal ratios.

    Args:
        ranks: `(queries,)` rank of the first relevant item; NaN for a query without one.
        candidates: number of items that a query may find.

    Returns:
        `Curve` of k and the share of the queries with a rank of at most k.
    """
    ordered = np.sort(ranks[~np.isnan(ranks)])
    ks = np.unique(np.rint(np.geomspace(1, candidates, _POINTS)))
    return Curve(ks, np.searchsorted(ordered, ks, "right") / len(ordered))


def precision_recall_curve(queries, items, rows):
    """The interpolated precision at each recall, a mean over queries.

        P(r) = max over all t with recall(t) >= r of precision(t)

    precision(t) is the share of relevant items among those with a similarity of at least t, recall(t) the share of the
    relevant items that are among them. Each query has its own ranking.

    Args:
        queries, items: `EmbeddedSet`s; the same one for leave-one-out.
        rows: `(n,)` the queries, each with a relevant item.

    Returns:
        `Curve` of recall from 0 to 1 and precision.

    Source: Manning, Raghavan, Schuetze, Introduction to Information Retrieval, 2008, section 8.4.
    """
    levels = np.linspace(0, 1, _POINTS + 1)
    total = np.zeros(len(levels))
    step = max(1, _SCORES // len(items.labels))
    for start in range(0, len(rows), step):
        chunk = rows[start : start + step]
        scores = queries.unit[chunk] @ items.unit.T
        if queries is items:
            scores[np.arange(len(chunk)), chunk] = -np.inf
        for row, label in zip(scores, queries.labels[chunk], strict=True):
            relevant = row[(items.labels == label) & (row > -np.inf)]
            total += _precision_at(levels, np.sort(row), np.sort(relevant)[::-1])
    return Curve(levels, total / len(rows))


def _precision_at(levels, ordered, relevant):
    """The interpolated precision at each recall, from all scores ascending and relevant scores descending."""
    hits = np.searchsorted(-relevant, -relevant, "right")
    precision = hits / (len(ordered) - np.searchsorted(ordered, relevant, "left"))
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return best[np.maximum(np.ceil(levels * len(relevant) - 1e-9).astype(int), 1) - 1]


def drawn_queries(ranks, seed):
    """Rows of the queries with a relevant item, ascending; a random part of them where there are many."""
    rows = np.flatnonzero(~np.isnan(ranks))
    if len(rows) <= _QUERIES:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, _QUERIES, replace=False))


def similarity_histograms(queries, items, seed):
    """Numbers of positive and of negative pairs by similarity.

    Args:
        queries, items: `EmbeddedSet`s; the same one for leave-one-out, which has no pairs of an example with itself.
        seed: seed of the pairs that are drawn.

    Returns:
        `Similarities` of all positive pairs, or 2^20 random ones where there are more; and of the negative pairs among
        all pairs, or among 2^20 random ones.
    """
    edges = np.linspace(-1, 1, _BINS + 1)
    kinds = [pairs(queries, items, np.random.default_rng(seed)) for pairs in (_positive_pairs, _negative_pairs)]
    return Similarities(edges, *(_counts(queries, items, query, item, edges) for query, item in kinds))


def _counts(queries, items, query, item, edges):
    """Number of pairs in each bin."""
    counts = np.zeros(len(edges) - 1, np.int64)
    for start in range(0, len(query), _STEP):
        chunk = slice(start, start + _STEP)
        s = row_products(queries.unit[query[chunk]], items.unit[item[chunk]])
        counts += np.histogram(np.clip(s, -1, 1), edges)[0]
    return counts


def _positive_pairs(queries, items, random):
    """Rows of queries and of items of the same class."""
    order = np.argsort(items.labels, kind="stable")
    left, right = (np.searchsorted(items.labels[order], queries.labels, side) for side in ("left", "right"))
    ends = np.cumsum(right - left)
    pairs = _numbers(ends[-1], random)
    query = np.searchsorted(ends, pairs, "right")
    item = order[right[query] + pairs - ends[query]]
    is_pair = (query != item) | (queries is not items)
    return query[is_pair], item[is_pair]


def _negative_pairs(queries, items, random):
    """Rows of queries and of items of other classes."""
    query, item = np.divmod(_numbers(len(queries.labels) * len(items.labels), random), len(items.labels))
    is_pair = queries.labels[query] != items.labels[item]
    return query[is_pair], item[is_pair]


def _numbers(count, random):
    """The numbers below `count`, or random ones of them where there are more than 2^20."""
    return np.arange(count) if count <= _PAIRS else random.integers(count, size=_PAIRS)
