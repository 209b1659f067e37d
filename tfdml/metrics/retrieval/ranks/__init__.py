"""Ranks of the relevant items of queries, from the scores of `tfdml.search.scores`.

Four methods find the same ranks. Each is the fastest in some cases:

* `tiling`: each relevant item is compared with the approximate scores of the gallery, tile by tile; in leave-one-out a
  tile serves its rows and its columns. For few relevant items and the first ranks.
* `comparing`: each relevant item is compared with a whole row of approximate scores. For few relevant items and all
  ranks.
* `sorting`: the highest approximate scores are sorted. For many relevant items and the first ranks.
* `counting`: all scores are exact. For many relevant items and all ranks.

The first three score exactly only the items that are too close to a relevant one for approximate scores to decide.
Queries with too many such items are counted.
"""

import numpy as np

from tfdml.metrics.retrieval.ranks.base import Ranks
from tfdml.metrics.retrieval.ranks.comparing import compare
from tfdml.metrics.retrieval.ranks.counting import count
from tfdml.metrics.retrieval.ranks.sorting import sort
from tfdml.metrics.retrieval.ranks.tiling import tile
from tfdml.search.blocks import for_blocks

__all__ = ["Ranks", "for_ranks"]

_QUERIES_PER_STEP = 64  # Queries ranked at the same time, so that their data stays in the cache.
_SCORES_PER_STEP = 2**19  # Scores searched for those to sort at the same time.
_SORTED_PER_STEP = 2**16  # Items sorted at the same time, about.


def for_ranks(use, scores, sides, depth, *, memory, row_bytes, thread_bytes):
    """Calls `use(queries, ranks)` once for every query, in threads.

    `queries` are the numbers `(m,)` of some queries, ascending. `ranks` are the `Ranks` of their relevant items among
    the first `depth`, and of those that share the best relevant score; some may be beyond `depth`.

    Args:
        use: the function.
        scores: `Scores` of all queries.
        sides: relevance and exclusion rules, see `tfdml.metrics.relevance`.
        depth: `(queries,)` integers, at least 1.
        memory: bytes for scores and the working memory of `use`.
        row_bytes, thread_bytes: working memory of `use` per query and per thread.

    Yields:
        the number of queries of each finished part.
    """
    method, left = _method(scores, sides, depth), np.arange(len(scores))
    if method is tile:
        left, method = (yield from tile(use, scores, sides, depth, memory, row_bytes)), count

    def rank(rows, block):
        for queries, ranks in _ranks_of_rows(method, scores, sides, depth, left[rows], block):
            use(queries, ranks)

    needs = {"memory": memory, "row_bytes": row_bytes, "thread_bytes": thread_bytes}
    yield from for_blocks(rank, len(left), len(scores.gallery), **needs)


def _method(scores, sides, depth):
    """The fastest way to rank the queries."""
    first = depth.max(initial=1) <= len(scores.gallery) // 4
    if sides.counts.mean() <= 16 + scores.queries.shape[1] / 8:
        return tile if first else compare
    return sort if first else count


def _ranks_of_rows(method, scores, sides, depth, queries, block):
    """Some of the queries and their `Ranks`, until all have been found; `block` `(queries, n)` is overwritten."""
    start = 0
    if method is not count:
        for some, found in _approximate_ranks(method, scores, sides, depth, queries, block):
            yield some, found
            start += len(some)
    if start < len(queries):
        yield from _exact_ranks(scores, sides, queries[start:], block[start:])


def _approximate_ranks(method, scores, sides, depth, queries, block):
    """Queries and `Ranks` from approximate scores, up to the first queries where too many are too close."""
    scores.approximate(queries, out=block)
    _exclude(block, sides, queries)
    size = _QUERIES_PER_STEP
    if method is sort:
        size = max(1, min(size, _SCORES_PER_STEP // block.shape[1], _SORTED_PER_STEP // depth[queries].max()))
    for some, part in _steps(queries, block, size):
        found = method(scores, sides, depth, some, part)
        if found is None:  # The remaining queries most likely have too many as well.
            return
        yield some, found


def _exact_ranks(scores, sides, queries, block):
    """Queries and `Ranks` from exact scores."""
    scores.exact_block(queries, out=block)
    _exclude(block, sides, queries)
    for some, part in _steps(queries, block, _QUERIES_PER_STEP):
        yield some, count(sides, some, part)


def _steps(queries, block, size):
    """`size` queries at a time, and their rows of a block."""
    for start in range(0, len(queries), size):
        yield queries[start : start + size], block[start : start + size]


def _exclude(block, sides, queries):
    """Set the scores of items that are not candidates to -inf."""
    for query, row in zip(queries, block, strict=True):
        row[sides.excluded(query)] = -np.inf
