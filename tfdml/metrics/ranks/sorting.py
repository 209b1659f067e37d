"""Ranks by sorting the highest approximate scores of each query."""

from typing import NamedTuple

import numpy as np

from tfdml.metrics.ranks.base import Ranks, joined, order_of
from tfdml.search.nearest import reached_by


class _Ranking(NamedTuple):
    """The items with the highest approximate scores of some queries, by query and then by descending score.

    Attributes:
        begin: `(queries,)` place where the ranking of each query begins.
        query, column, value: `(m,)` for each place, the query within the block, the item and its approximate score.
        relevant: `(m,)` booleans.
    """

    begin: np.ndarray
    query: np.ndarray
    column: np.ndarray
    value: np.ndarray
    relevant: np.ndarray


def sort(scores, sides, depth, rows, block):
    """`Ranks` by sorting; None where approximate scores leave the order of too many items undecided.

    Adjacent items whose approximate scores differ by more than the gap of their query are in the correct order. Other
    adjacent items form chains. The order within a chain matters only if it holds both relevant and other items.
    """
    gaps = scores.gaps(rows)
    ranking = _ranking(sides, depth, rows, block, gaps)
    chain, place = _open_chains(ranking, gaps)
    if len(place) > block.size // 64:
        return None
    exact = scores.exact(rows[ranking.query[place]], ranking.column[place])
    return _settled(ranking, chain[place], place, exact)


def _ranking(sides, depth, rows, block, gaps):
    """`_Ranking` of the items that may be among the first `depth`, or share the best relevant score."""
    columns, values = [], []
    for query, row, gap in zip(rows, block, gaps, strict=True):
        column = np.flatnonzero(row >= _floor(row, sides.classmates(query), depth[query]) - gap)
        value = row[column]
        order = np.argsort(-value)
        columns.append(column[order])
        values.append(value[order])
    query, column = joined(columns)
    value = np.concatenate(values)
    relevant = sides.same_class(rows[query], column) & (value > -np.inf)
    return _Ranking(np.searchsorted(query, np.arange(len(block))), query, column, value, relevant)


def _floor(row, classmates, depth):
    """A score reached by the first `depth` items of a row and by the best relevant item."""
    return min(row[classmates].max(initial=-np.inf), reached_by(row, depth, spare=2))


def _open_chains(ranking, gaps):
    """Number of the chain at each place, and the places of the chains that hold relevant and other items."""
    begin, query, _, value, relevant = ranking
    linked = value[:-1] - value[1:] <= gaps[query[1:]]
    linked[begin[1:] - 1] = False
    chain = np.zeros(len(value), np.int32)
    np.cumsum(~linked, out=chain[1:])
    is_open = np.zeros(chain[-1] + 1, bool)
    is_open[chain[1:][linked & (relevant[1:] != relevant[:-1])]] = True
    return chain, np.flatnonzero(is_open[chain])


def _settled(ranking, chain, place, exact):
    """`Ranks` of the relevant items of a ranking, whose open chains are sorted by exact scores.

    Args:
        ranking: `_Ranking`.
        chain, place, exact: `(m,)` for each item of an open chain its chain, place and exact score.
    """
    order, first, length = order_of(chain, exact, ranking.column[place])
    final = np.flatnonzero(ranking.relevant)
    moved = np.searchsorted(final, place[ranking.relevant[place]])
    hits = np.flatnonzero(ranking.relevant[place[order]])
    query, above, equal = ranking.query[final], final.copy(), np.ones_like(final)
    final[moved], above[moved], equal[moved] = place[hits], place[first[hits]], length[hits]
    return Ranks(query, above - ranking.begin[query], final - above, equal)
