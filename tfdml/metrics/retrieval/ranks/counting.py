"""Ranks from exact scores of the whole gallery."""

import numpy as np

from tfdml.metrics.retrieval.ranks.base import Ranks, descending_order

_SORT_ABOVE = 16  # Number of tied relevant items above which one sort is faster than a pass for each of their scores.


def count(relevance, queries, block):
    """`Ranks` of all relevant items; `block` `(queries, n)` holds exact scores."""
    counts = [_count_row(row, relevance, query) for query, row in zip(queries, block, strict=True)]
    query = np.repeat(np.arange(len(counts)), [len(above) for above, _, _ in counts])
    return Ranks(query, *np.concatenate(counts, axis=1))


def _count_row(row, relevance, query):
    """Above, earlier and equal of a query's relevant items, `(3, R)`."""
    ascending = np.sort(row)
    relevant = np.sort(row[relevance.classmates(query)])[::-1][: relevance.counts[query]]  # Excluded items have -inf.
    reached = np.searchsorted(ascending, relevant, "right")
    tied = np.flatnonzero((ascending[reached - 2] == relevant) & (reached > 1))
    above, earlier, equal = len(row) - reached, np.zeros_like(reached), np.ones_like(reached)
    if len(tied) > _SORT_ABOVE:
        earlier = np.flatnonzero(relevance.same_class(query, descending_order(row)))[: len(relevant)] - above
    else:
        for value in set(relevant[tied].tolist()):
            earlier[relevant == value] = np.flatnonzero(relevance.same_class(query, np.flatnonzero(row == value)))
    equal[tied] = reached[tied] - np.searchsorted(ascending, relevant[tied])
    return np.stack([above, earlier, equal])
