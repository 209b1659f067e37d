"""Ranks by sorting the highest approximate scores of each query."""

from typing import NamedTuple

import numpy as np

from tfdml.metrics.retrieval.ranks.base import Ranks, descending_keys, scores_of_keys
from tfdml.search.nearest import top_k_threshold

_LOWEST = np.finfo(np.float32).min


class _Ranking(NamedTuple):
    """Items `(m,)` with the highest scores, by query and then by descending score; `offsets`: where a query begins."""

    offsets: np.ndarray
    query: np.ndarray
    column: np.ndarray
    score: np.ndarray
    is_relevant: np.ndarray


def sort(scores, relevance, depth, rows, block):
    """`Ranks` by sorting; None where approximate scores leave the order of too many items undecided.

    Adjacent items whose approximate scores differ by more than the gap of their query are in the correct order. Other
    adjacent items form chains. The order within a chain matters only if it holds both relevant and other items.
    """
    gaps = scores.gaps(rows)
    ranking = _ranking(relevance, depth, rows, block, gaps)
    chain, index = _mixed_chains(ranking, gaps)
    if len(index) > block.size // 64:
        return None
    exact = scores.exact(rows[ranking.query[index]], ranking.column[index])
    return _ranks(ranking, chain, index, exact)


def _ranking(relevance, depth, rows, block, gaps):
    """`_Ranking` of the items that may be among the first `depth`, or share the best relevant score."""
    threshold = top_k_threshold(block, depth[rows], spare=2)
    ranking = _items_above(threshold - gaps, relevance, rows, block)
    missed = np.flatnonzero((_best_relevant(ranking) < threshold) & (relevance.counts[rows] > 0))
    if not len(missed):
        return ranking
    threshold[missed] = [block[i, relevance.classmates(rows[i])].max() for i in missed]
    return _items_above(threshold - gaps, relevance, rows, block)


def _items_above(low, relevance, rows, block):
    """`_Ranking` of the items whose approximate scores are at least `low`, `(queries,)`."""
    column = np.flatnonzero(block >= np.maximum(low, _LOWEST)[:, None])  # Excluded items have -inf.
    offsets = np.searchsorted(column, np.arange(len(block)) * block.shape[1])
    query = np.repeat(np.arange(len(block)), np.diff(offsets, append=len(column)))
    score = block.reshape(-1)[column]
    column -= query * block.shape[1]
    score, column = _by_score(query, score, column)
    return _Ranking(offsets, query, column, score, relevance.same_class(rows[query], column))


def _best_relevant(ranking):
    """Highest approximate score of a relevant item in the ranking of each query, -inf for none: `(queries,)`."""
    hits = np.flatnonzero(ranking.is_relevant)
    starts = np.searchsorted(hits, np.append(ranking.offsets, len(ranking.score)))
    best = np.full(len(ranking.offsets), -np.inf, np.float32)
    has_hit = starts[1:] > starts[:-1]
    best[has_hit] = ranking.score[hits[starts[:-1][has_hit]]]
    return best


def _by_score(query, score, column):
    """Scores and columns by query and descending score, by a sort of integers that hold all three."""
    bits = int(column.max(initial=0)).bit_length()  # a step has fewer than 2^31 scores, so that 31 bits are enough
    keys = descending_keys(score)
    keys <<= bits
    keys |= column
    keys |= query << (32 + bits)
    keys.sort()
    column = keys & ((1 << bits) - 1)
    keys >>= bits
    keys &= 0xFFFFFFFF
    return scores_of_keys(keys), column


def _mixed_chains(ranking, gaps):
    """The chains that hold relevant and other items: for each of their items, its chain and its index in `ranking`."""
    _, query, _, score, is_relevant = ranking
    is_linked = (score[:-1] - score[1:] <= gaps[query[1:]]) & (query[:-1] == query[1:])
    starts = np.append(0, np.flatnonzero(~is_linked) + 1)
    is_mixed = np.flatnonzero(is_linked & (is_relevant[1:] != is_relevant[:-1]))
    chains = np.searchsorted(starts, is_mixed, "right") - 1
    chains = chains[np.diff(chains, prepend=-1) > 0]
    lengths = np.append(starts, len(score))[chains + 1] - starts[chains]
    chain = np.repeat(chains, lengths)
    return chain, np.arange(len(chain)) + np.repeat(starts[chains] - np.cumsum(lengths) + lengths, lengths)


def _ranks(ranking, chain, index, exact):
    """`Ranks` of the relevant items; mixed chains, `chain` and `index` in `ranking`, are sorted by `exact` scores."""
    order, first, length = _order_within(chain, exact, ranking.column[index])
    position = np.flatnonzero(ranking.is_relevant)
    moved = np.searchsorted(position, index[ranking.is_relevant[index]])
    hits = np.flatnonzero(ranking.is_relevant[index[order]])
    query, above, equal = ranking.query[position], position.copy(), np.ones_like(position)
    position[moved], above[moved], equal[moved] = index[hits], index[first[hits]], length[hits]
    return Ranks(query, above - ranking.offsets[query], position - above, equal)


def _order_within(group, exact, column):
    """Sort items by group, descending score and column.

    Returns the order, and for each position the first position with its group and score, and their number: `(m,)` each.
    """
    keys = group << 32 | descending_keys(exact)
    order = np.argsort(keys)
    keys = keys[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    lengths = np.diff(starts, append=len(keys))
    first, equal = np.repeat(starts, lengths), np.repeat(lengths, lengths)
    tied = np.flatnonzero(equal > 1)
    order[tied] = order[tied][np.lexsort((column[order[tied]], keys[tied]))]
    return order, first, equal
