"""Ranks by comparison of each relevant item with the approximate scores of the whole gallery."""

import numpy as np

from tfdml.metrics.retrieval.ranks.base import Ranks, joined, order_of

_FEW = 8  # Scores are gathered first where at most one in this many matters: those that reach the last relevant item.


def compare(scores, sides, depth, rows, block):
    """`Ranks` by comparison; None where too many items are close to relevant ones.

    The approximate score of an item decides, unless it lies between the bounds `low` and `high` around the score of the
    relevant item. With the close items C, which are scored exactly,

        above = #{approximate > high} - #{C: approximate > high} + #{C: exact > that of the relevant item}
    """
    query, column = sides.relevant(rows)
    exact = scores.exact(rows[query], column)
    order = np.lexsort((column, -exact, query))
    query, column, exact = query[order], column[order], exact[order]
    low, high = scores.around(rows[query], exact)
    counts, close = _compare_rows(block, query, low, high, depth[rows], len(query) + block.size // 128)
    if close is None:
        return None
    counted = counts >= 0
    query, column, high = query[counted], column[counted], high[counted]
    above, before, equal = _order_close(close, scores.exact(rows[close[0]], close[1]), query, column)
    return Ranks(query, counts[counted] - _count_above(block, close, query, high) + above, before, equal)


def _compare_rows(block, query, low, high, depth, limit):
    """Counts the items that are clearly above relevant ones, and finds those close to them.

    Args:
        block: `(rows, n)` approximate scores.
        query, low, high: `(P,)` for each relevant item its query and the bounds around its score, in descending order
            of score.
        depth: `(rows,)`.
        limit: largest number of close items.

    Returns:
        counts: `(P,)` integers, -1 where the rank is beyond depth.
        close: `(query, column)` of the close items, in this order; None if there are more than `limit`.
    """
    counts, close = np.full(len(query), -1), []
    ends = np.searchsorted(query, np.arange(len(block) + 1)).tolist()
    low, high = low.tolist(), high.tolist()
    scratch = np.empty((3, block.shape[1]), bool)
    for row, start, stop in zip(block, ends, ends[1:], strict=False):
        counted, columns = _compare_row(row, low[start:stop], high[start:stop], depth[len(close)], scratch)
        counts[start : start + len(counted)] = counted
        close.append(columns)
        limit -= len(columns)
        if limit < 0:
            return counts, None
    return counts, joined(close)


def _compare_row(row, low, high, depth, scratch):
    """Counts of scores above each `high`, while they are below `depth`, and columns between any `low` and `high`."""
    if not low:
        return [], np.empty(0, np.int64)
    reached = np.greater_equal(row, low[-1], out=scratch[0])
    if np.count_nonzero(reached) * _FEW > len(row):
        return _compare_scores(row, low, high, depth, scratch)
    columns = np.flatnonzero(reached)
    counts, close = _compare_scores(row[columns], low, high, depth, scratch[:, : len(columns)])
    return counts, columns[close]


def _compare_scores(scores, low, high, depth, scratch):
    """`_compare_row` with each relevant item compared with all `scores`."""
    counts = []
    above, between, close = scratch
    for lower, upper in zip(low, high, strict=True):
        np.greater(scores, upper, out=above)
        count = np.count_nonzero(above)
        if count >= depth and lower < low[0]:
            break
        within = between if counts else close
        np.greater_equal(scores, lower, out=within)
        np.not_equal(above, within, out=within)
        if counts:
            np.logical_or(close, between, out=close)
        counts.append(count)
    return counts, np.flatnonzero(close)


def _order_close(close, exact, query, column):
    """Number of close items above each relevant one, before it at the same score, and equal to it."""
    row, place = close
    order, first, equal = order_of(row, exact, place)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    width = 1 + place.max(initial=0)
    rank = rank[np.searchsorted(row * width + place, query * width + column)]
    return first[rank] - np.searchsorted(row, query), rank - first[rank], equal[rank]


def _count_above(block, close, query, high):
    """Number of close items with an approximate score above `high`, for each relevant item."""
    row = np.concatenate([close[0], query])
    value = np.concatenate([block[close], high])
    is_close = np.arange(len(row)) < len(close[0])
    order = np.lexsort((is_close, -value, row))
    so_far = np.empty(len(row), np.int64)
    so_far[order] = np.cumsum(is_close[order])
    return so_far[len(close[0]) :] - np.searchsorted(close[0], query)
