"""Ranks of the relevant items of queries, from the scores of `tfdml.search.scores`.

Few relevant items per query are compared with the approximate scores of the whole gallery. Of many, those that can be
among the first ones are sorted by approximate scores. Only what lies too near to a relevant item to be sure is scored
exactly; where that is very much, or every rank is wanted, all scores are exact. The ranks are the same.
"""

from typing import NamedTuple

import numpy as np

from tfdml.search.nearest import reached_by

_TOGETHER = 64  # queries whose ranks are found together, so that what they need stays in the cache
_FEW = 16  # Of more relevant items that share their score with others, a sort finds the order sooner.
_SORTED = 2**19  # scores of which the highest are sorted together: each of these takes about 40 bytes


class Ranks(NamedTuple):
    """Where relevant items of queries stand, by query and then by rank; each field is `(P,)` integers.

    Attributes:
        query: number of the query within its block.
        above: how many items have a higher score.
        before: how many have the same score and come earlier in the gallery; the rank is above + before + 1.
        equal: how many have the same score, itself included. Where only relevant items have it, they may stand apart
            instead, each alone and one above the other, which no number depends on.
    """

    query: np.ndarray
    above: np.ndarray
    before: np.ndarray
    equal: np.ndarray


def ranks_of_relevant(scores, sides, depth, rows, block):
    """Ranks of the relevant items that stand among the first `depth`, and of those that share the best score.

    Args:
        scores: `Scores` of all queries.
        sides: who is relevant to whom, and who is not a candidate; see `tfdml.metrics.relevance`.
        depth: `(queries,)` integers, at least 1.
        rows: slice of the queries.
        block: `(rows, n)` float32, overwritten.

    Yields:
        slice of some of the queries, and their `Ranks`, of which some may be beyond `depth`.
    """
    method = _method(scores, sides, depth, rows, block.shape[1])
    if method is not _count:
        scores.approximate(rows, out=block)
        _exclude(block, sides, rows)
        step = min(_TOGETHER, max(1, _SORTED // block.shape[1])) if method is _sort else _TOGETHER
        for part, some in _parts(rows, block, step):
            found = method(scores, sides, depth, some, part)
            if found is None:  # So it would be for most of the other queries.
                rest = slice(some.start, rows.stop)
                yield from _counts(scores, sides, rest, block[rest.start - rows.start :])
                return
            yield some, found
    else:
        yield from _counts(scores, sides, rows, block)


def _counts(scores, sides, rows, block):
    """Slices of the queries and `Ranks` from exact scores, whatever they are."""
    scores.exact_block(rows, out=block)
    _exclude(block, sides, rows)
    for part, some in _parts(rows, block, _TOGETHER):
        yield some, _count(sides, some, part)


def _parts(rows, block, step):
    """`step` rows of a block at a time, and the slice of their queries."""
    for start in range(rows.start, rows.stop, step):
        some = slice(start, min(start + step, rows.stop))
        yield block[start - rows.start : some.stop - rows.start], some


def _method(scores, sides, depth, rows, n):
    """What is quickest: few relevant items are compared with all; otherwise the first ones are sorted, or all."""
    if sides.counts[rows].mean() <= 16 + scores.queries.shape[1] / 8:
        return _compare
    return _sort if depth[rows].max() <= n // 4 else _count


def _compare(scores, sides, depth, rows, block):
    """`Ranks` by comparison with approximate scores; None where too many items lie near relevant ones."""
    query, column = sides.relevant(rows)
    exact = scores.exact(rows.start + query, column)
    order = np.lexsort((column, -exact, query))
    query, column, exact = query[order], column[order], exact[order]
    low, high = scores.around(rows.start + query, exact)
    counts, near = _compare_rows(block, query, low, high, depth[rows], len(query) + block.size // 128)
    if near is None:
        return None
    counted = counts >= 0
    query, column, high = query[counted], column[counted], high[counted]
    near_exact = scores.exact(rows.start + near[0], near[1])
    above, before, equal = _order_near(near, near_exact, query, column)
    return Ranks(query, counts[counted] - _count_above(block, near, query, high) + above, before, equal)


def _compare_rows(block, query, low, high, depth, limit):
    """Counts the items that are clearly above relevant ones, and finds those near to them.

    Args:
        block: `(rows, n)` approximate scores.
        query, low, high: `(P,)` for each relevant item its query and the bounds around its score, by falling score.
        depth: `(rows,)`.
        limit: how many items may be near.

    Returns:
        counts: `(P,)` integers, -1 where the rank is beyond depth.
        near: `(query, column)` of the items near, in this order; None where they are too many.
    """
    counts, near = np.full(len(query), -1), []
    ends = np.searchsorted(query, np.arange(len(block) + 1)).tolist()
    low, high = low.tolist(), high.tolist()
    scratch = np.empty((3, block.shape[1]), bool)
    for row, start, stop in zip(block, ends, ends[1:], strict=False):
        found, close = _compare_row(row, low[start:stop], high[start:stop], depth[len(near)], scratch)
        counts[start : start + len(found)] = found
        near.append(close)
        limit -= len(close)
        if limit < 0:
            return counts, None
    return counts, _joined(near)


def _compare_row(row, low, high, depth, scratch):
    """Counts of scores above `high`, for as long as they are below `depth`, and columns within any low and high."""
    counts = []
    above, reached, close = scratch
    for lower, upper in zip(low, high, strict=True):
        np.greater(row, upper, out=above)
        count = np.count_nonzero(above)
        if count >= depth and lower < low[0]:
            break
        within = reached if counts else close
        np.greater_equal(row, lower, out=within)
        np.not_equal(above, within, out=within)
        if counts:
            np.logical_or(close, reached, out=close)
        counts.append(count)
    return counts, np.flatnonzero(close) if counts else np.empty(0, np.int64)


def _order_near(near, exact, query, column):
    """Among the items near: how many are above each relevant one, before it at its score, and equal to it."""
    row, place = near
    order, first, length = _order(row, exact, place)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    width = 1 + place.max(initial=0)
    rank = rank[np.searchsorted(row * width + place, query * width + column)]
    return first[rank] - np.searchsorted(row, query), rank - first[rank], length[rank]


def _count_above(block, near, query, high):
    """How many of the items near are approximated above `high`, for each relevant one."""
    row = np.concatenate([near[0], query])
    value = np.concatenate([block[near], high])
    is_near = np.arange(len(row)) < len(near[0])
    order = np.lexsort((is_near, -value, row))
    so_far = np.empty(len(row), np.int64)
    so_far[order] = np.cumsum(is_near[order])
    return so_far[len(near[0]) :] - np.searchsorted(near[0], query)


def _order(group, exact, column):
    """Order by group, falling score and column; in this order, where the equals of each begin and how many they are."""
    order = np.lexsort((column, -exact, group))
    group, exact = group[order], exact[order]
    new = np.ones(len(order), bool)
    new[1:] = (group[1:] != group[:-1]) | (exact[1:] != exact[:-1])
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, len(order)))
    return order, np.repeat(starts, lengths), np.repeat(lengths, lengths)


class _Open(NamedTuple):
    """Items that share a chain of scores so close that their order is open, by place; each field is `(m,)`.

    Attributes:
        place: place in the rankings of some queries, one ranking after the other.
        chain: number of the chain.
        query: number of the query within the block.
        column: number of the item.
        relevant: whether the item is relevant to the query.
    """

    place: np.ndarray
    chain: np.ndarray
    query: np.ndarray
    column: np.ndarray
    relevant: np.ndarray


def _sort(scores, sides, depth, rows, block):
    """`Ranks` by sorting the highest approximate scores; None where the order of too many items is open."""
    gaps = scores.gaps(rows)
    columns, values = [], []
    for query, (row, gap) in enumerate(zip(block, gaps, strict=True), rows.start):
        column = np.flatnonzero(row >= _floor(row, sides.classmates(query), depth[query]) - gap)
        value = row[column]
        order = np.argsort(-value)
        columns.append(column[order])
        values.append(value[order])
    query, column = _joined(columns)
    begin = np.searchsorted(query, np.arange(len(block)))
    value = np.concatenate(values)
    relevant = sides.same_class(rows.start + query, column) & (value > -np.inf)
    near = value[:-1] - value[1:] <= gaps[query[1:]]
    near[begin[1:] - 1] = False
    chain = np.zeros(len(value), np.int32)
    np.cumsum(~near, out=chain[1:])
    is_open = np.zeros(chain[-1] + 1, bool)
    is_open[chain[1:][near & (relevant[1:] != relevant[:-1])]] = True
    place = np.flatnonzero(is_open[chain])
    if len(place) > block.size // 64:
        return None
    opened = _Open(place, chain[place], query[place], column[place], relevant[place])
    exact = scores.exact(rows.start + opened.query, opened.column)
    place = np.flatnonzero(relevant)
    return _settle(query[place], place, begin, opened, exact)


def _floor(row, classmates, depth):
    """A score that the first `depth` items of a row and the best relevant one reach."""
    return min(row[classmates].max(initial=-np.inf), reached_by(row, depth, spare=2))


def _settle(query, place, begin, opened, exact):
    """`Ranks` of relevant items from their places, where open chains are put in order of their exact scores.

    Args:
        query, place: `(P,)` of the relevant items, by place.
        begin: `(queries,)` where the ranking of each query begins.
        opened: `_Open`.
        exact: `(m,)` scores of its items.
    """
    order, first, length = _order(opened.chain, exact, opened.column)
    moved = np.searchsorted(place, opened.place[opened.relevant])
    hits = np.flatnonzero(opened.relevant[order])
    above, equal = place.copy(), np.ones_like(place)
    place[moved], above[moved], equal[moved] = opened.place[hits], opened.place[first[hits]], length[hits]
    return Ranks(query, above - begin[query], place - above, equal)


def _joined(arrays):
    """Number of the array that each entry comes from, and the arrays joined."""
    return np.repeat(np.arange(len(arrays)), [len(a) for a in arrays]), np.concatenate(arrays)


def _count(sides, rows, block):
    """`Ranks` of all relevant items, by counting the exact scores above each."""
    found = [_count_row(row, sides, query) for query, row in enumerate(block, rows.start)]
    query, _ = _joined([above for above, _, _ in found])
    return Ranks(query, *np.concatenate(found, axis=1))


def _count_row(row, sides, query):
    """Above, before and equal of a query's relevant items, `(3, R)`, from exact scores."""
    ordered = np.sort(row)
    own = np.sort(row[sides.classmates(query)])[::-1][: sides.counts[query]]  # Those excluded are -inf.
    reached = np.searchsorted(ordered, own, "right")
    tied = np.flatnonzero((ordered[reached - 2] == own) & (reached > 1))
    found = np.stack([len(row) - reached, np.zeros_like(reached), np.ones_like(reached)])
    if len(tied) > _FEW:
        found[1] = np.flatnonzero(sides.same_class(query, _falling(row)))[: len(own)] - found[0]
    else:
        for value in set(own[tied].tolist()):
            found[1, own == value] = np.flatnonzero(sides.same_class(query, np.flatnonzero(row == value)))
    found[2, tied] = reached[tied] - np.searchsorted(ordered, own[tied])
    return found


def _falling(row):
    """Columns by falling score and then by column, ten times as fast as by a stable argsort."""
    bits = (0 - row).view(np.int32)  # 0 - x is never the negative zero
    bits ^= (bits >> 31) & 0x7FFFFFFF
    keys = bits.astype(np.int64)
    keys <<= 32
    keys += np.arange(len(row))
    keys.sort()
    return keys & 0xFFFFFFFF


def _exclude(block, sides, rows):
    for i in range(len(block)):
        block[i, sides.excluded(rows.start + i)] = -np.inf
