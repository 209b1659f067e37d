"""Ranks of the relevant items of queries, from the scores of `tfdml.search.scores`.

Three methods find the same ranks. Each is the fastest in some cases, by a factor of 1.3 to 2.6 or more:

* `comparing`: each relevant item is compared with the approximate scores of the whole gallery. For few relevant items.
* `sorting`: the highest approximate scores are sorted. For many relevant items and the first ranks.
* `counting`: all scores are exact. For many relevant items and all ranks.

The first two score exactly only the items that are too close to a relevant one for approximate scores to decide. Where
there are too many such items, they return None and the remaining queries are counted.
"""

import numpy as np

from tfdml.metrics.ranks.base import Ranks
from tfdml.metrics.ranks.comparing import compare
from tfdml.metrics.ranks.counting import count
from tfdml.metrics.ranks.sorting import sort

__all__ = ["Ranks", "ranks_of_relevant"]

_QUERIES_PER_STEP = 64  # Queries ranked at the same time, so that their data stays in the cache.
_SORTED_PER_STEP = 2**19  # Scores sorted at the same time, at about 40 bytes each.


def ranks_of_relevant(scores, sides, depth, rows, block):
    """Ranks of the relevant items among the first `depth`, and of those that share the best relevant score.

    Args:
        scores: `Scores` of all queries.
        sides: relevance and exclusion rules, see `tfdml.metrics.relevance`.
        depth: `(queries,)` integers, at least 1.
        rows: slice of the queries.
        block: `(rows, n)` float32, overwritten.

    Yields:
        slice of some of the queries, and their `Ranks`, some of which may be beyond `depth`.
    """
    method, start = _method(scores, sides, depth, rows, block.shape[1]), rows.start
    if method is not count:
        for some, found in _approximate_ranks(method, scores, sides, depth, rows, block):
            yield some, found
            start = some.stop
    if start < rows.stop:
        yield from _exact_ranks(scores, sides, depth, slice(start, rows.stop), block[start - rows.start :])


def _method(scores, sides, depth, rows, n):
    """The fastest way to rank these queries."""
    if sides.counts[rows].mean() <= 16 + scores.queries.shape[1] / 8:
        return compare
    return sort if depth[rows].max() <= n // 4 else count


def _approximate_ranks(method, scores, sides, depth, rows, block):
    """Slices of the queries and `Ranks` from approximate scores, up to the first slice where too many are too close."""
    scores.approximate(rows, out=block)
    _exclude(block, sides, rows)
    sortable = max(1, _SORTED_PER_STEP // block.shape[1])
    for part, some in _steps(rows, block, min(_QUERIES_PER_STEP, sortable) if method is sort else _QUERIES_PER_STEP):
        found = method(scores, sides, depth, some, part)
        if found is None:  # The remaining queries most likely have too many as well.
            return
        yield some, found


def _exact_ranks(scores, sides, depth, rows, block):
    """Slices of the queries and `Ranks` from exact scores."""
    scores.exact_block(rows, out=block)
    _exclude(block, sides, rows)
    for part, some in _steps(rows, block, _QUERIES_PER_STEP):
        yield some, count(scores, sides, depth, some, part)


def _steps(rows, block, size):
    """`size` rows of a block at a time, and the slice of their queries."""
    for start in range(rows.start, rows.stop, size):
        some = slice(start, min(start + size, rows.stop))
        yield block[start - rows.start : some.stop - rows.start], some


def _exclude(block, sides, rows):
    """Set the scores of items that are not candidates to -inf."""
    for query, row in enumerate(block, rows.start):
        row[sides.excluded(query)] = -np.inf
