"""Ranks by sorting the highest approximate scores of each query."""

from typing import NamedTuple

import numpy as np

from tfdml.metrics.retrieval.ranks.base import Ranks, descending, from_descending, order_of
from tfdml.search.nearest import top_k_threshold

_LOWEST = np.finfo(np.float32).min


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
    return _settled(ranking, chain, place, exact)


def _ranking(sides, depth, rows, block, gaps):
    """`_Ranking` of the items that may be among the first `depth`, or share the best relevant score."""
    floor = top_k_threshold(block, depth[rows], spare=2)
    ranking = _items_above(floor - gaps, sides, rows, block)
    later = np.flatnonzero((_best_relevant(ranking) < floor) & (sides.counts[rows] > 0))
    if not len(later):
        return ranking
    floor[later] = [block[i, sides.classmates(rows[i])].max() for i in later]
    return _items_above(floor - gaps, sides, rows, block)


def _items_above(low, sides, rows, block):
    """`_Ranking` of the items whose approximate scores are at least `low`, `(queries,)`."""
    column = np.flatnonzero(block >= np.maximum(low, _LOWEST)[:, None])  # Excluded items have -inf.
    begin = np.searchsorted(column, np.arange(len(block)) * block.shape[1])
    query = np.repeat(np.arange(len(block)), np.diff(begin, append=len(column)))
    value = block.reshape(-1)[column]
    column -= query * block.shape[1]
    value, column = _by_value(query, value, column)
    return _Ranking(begin, query, column, value, sides.same_class(rows[query], column))


def _best_relevant(ranking):
    """Highest approximate score of a relevant item in the ranking of each query, -inf for none: `(queries,)`."""
    places = np.flatnonzero(ranking.relevant)
    found = np.searchsorted(places, np.append(ranking.begin, len(ranking.value)))
    best = np.full(len(ranking.begin), -np.inf, np.float32)
    has_one = found[1:] > found[:-1]
    best[has_one] = ranking.value[places[found[:-1][has_one]]]
    return best


def _by_value(query, value, column):
    """Values and columns by query and descending value, by a sort of integers that hold all three.

    A step has fewer than 2^31 scores, so that query and column need at most 31 bits.
    """
    bits = int(column.max(initial=0)).bit_length()
    keys = descending(value)
    keys <<= bits
    keys |= column
    keys |= query << (32 + bits)
    keys.sort()
    column = keys & ((1 << bits) - 1)
    keys >>= bits
    keys &= 0xFFFFFFFF
    return from_descending(keys), column


def _open_chains(ranking, gaps):
    """Number of the chain at each place of the chains that hold relevant and other items, and these places."""
    _, query, _, value, relevant = ranking
    linked = (value[:-1] - value[1:] <= gaps[query[1:]]) & (query[:-1] == query[1:])
    starts = np.append(0, np.flatnonzero(~linked) + 1)
    mixed = np.flatnonzero(linked & (relevant[1:] != relevant[:-1]))
    chains = np.searchsorted(starts, mixed, "right") - 1
    chains = chains[np.diff(chains, prepend=-1) > 0]
    lengths = np.append(starts, len(value))[chains + 1] - starts[chains]
    chain = np.repeat(chains, lengths)
    return chain, np.arange(len(chain)) + np.repeat(starts[chains] - np.cumsum(lengths) + lengths, lengths)


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
