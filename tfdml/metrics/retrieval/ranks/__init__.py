"""Ranks of the relevant items of queries, from the scores of `tfdml.search.scores`.

Three methods find the same ranks; `results/ranks.csv` has their times:

* `tiling` is the fastest for few relevant items. Each is compared with the approximate scores, tile by tile.
* `sorting` of the highest approximate scores is the fastest for many relevant items and the first ranks.
* `counting` by exact scores is the fastest for many relevant items and all ranks, and takes what the other two leave.

The first two score exactly only the items that are too close to a relevant one for approximate scores to decide.
Queries with too many such items are counted.
"""

from queue import SimpleQueue

import numpy as np

from tfdml.metrics.retrieval.ranks.base import Ranks
from tfdml.metrics.retrieval.ranks.counting import count
from tfdml.metrics.retrieval.ranks.sorting import sort
from tfdml.metrics.retrieval.ranks.tiling import tile
from tfdml.search.blocks import for_blocks

__all__ = ["Ranks", "map_blocks", "measure_ranks"]

_QUERIES_PER_STEP = 64  # Queries ranked at the same time, so that their data stays in the cache.
_SCORES_PER_STEP = 2**19  # Scores searched for those to sort at the same time.
_SORTED_PER_STEP = 2**16  # Items sorted at the same time, about.


def measure_ranks(measure, scores, relevance, depth, *, max_bytes, row_bytes, thread_bytes, verbose=0):
    """Yield `(queries, measure(queries, ranks))`, each query once; threads call `measure`.

    `ranks` are the `Ranks` of the relevant items among the first `depth`, `(queries,)`, and of those that share the
    best relevant score; some may be beyond `depth`. `max_bytes` bounds scores and the working memory of `measure`,
    `row_bytes` per query and `thread_bytes` per thread. `verbose` shows a bar during the comparison, before the first
    result.
    """
    method, queries = _fastest_method(scores, relevance, depth), np.arange(len(scores))
    if method is tile:
        queries = yield from tile(
            measure, scores, relevance, depth, max_bytes=max_bytes, row_bytes=row_bytes, verbose=verbose
        )
        method = count

    def measure_block(rows, block):
        ranked = _ranks_of_rows(method, scores, relevance, depth, queries[rows], block)
        return [(some_queries, measure(some_queries, ranks)) for some_queries, ranks in ranked]

    needs = {"max_bytes": max_bytes, "row_bytes": row_bytes, "thread_bytes": thread_bytes}
    for results in map_blocks(measure_block, len(queries), len(scores.gallery), **needs):
        yield from results


def map_blocks(function, queries, columns, **needs):
    """Yield the results of `for_blocks`, as threads finish the blocks."""
    results = SimpleQueue()
    for _ in for_blocks(lambda rows, block: results.put(function(rows, block)), queries, columns, **needs):
        yield results.get()


def _fastest_method(scores, relevance, depth):
    num_relevant, dim = relevance.counts.mean(), scores.queries.shape[1]
    if depth.max(initial=1) > len(scores.gallery) // 4:
        return tile if num_relevant <= dim / 8 else count
    return tile if num_relevant <= 16 + dim / 8 else sort


def _ranks_of_rows(method, scores, relevance, depth, queries, block):
    """Yield some of the queries and their `Ranks`, each query once; It overwrites `block` `(queries, n)`."""
    start = 0
    if method is sort:
        for rows, ranks in _sorted_ranks(scores, relevance, depth, queries, block):
            yield rows, ranks
            start += len(rows)
    if start < len(queries):
        yield from _counted_ranks(scores, relevance, queries[start:], block[start:])


def _sorted_ranks(scores, relevance, depth, queries, block):
    """Yield queries and `Ranks` from approximate scores, up to the first queries where too many are too close."""
    scores.approximate(queries, out=block)
    _exclude(block, relevance, queries)
    size = min(_QUERIES_PER_STEP, _SCORES_PER_STEP // block.shape[1], _SORTED_PER_STEP // depth[queries].max())
    for rows, scores_of_rows in _steps(queries, block, max(1, size)):
        ranks = sort(scores, relevance, depth, rows, scores_of_rows)
        if ranks is None:  # The remaining queries most likely have too many as well.
            return
        yield rows, ranks


def _counted_ranks(scores, relevance, queries, block):
    """Yield queries and `Ranks` from exact scores."""
    scores.exact_block(queries, out=block)
    _exclude(block, relevance, queries)
    for rows, scores_of_rows in _steps(queries, block, _QUERIES_PER_STEP):
        yield rows, count(relevance, rows, scores_of_rows)


def _steps(queries, block, size):
    """`size` queries at a time, and their rows of a block."""
    for start in range(0, len(queries), size):
        yield queries[start : start + size], block[start : start + size]


def _exclude(block, relevance, queries):
    """Set the scores of items that are not candidates to -inf."""
    for query, row in zip(queries, block, strict=True):
        row[relevance.excluded(query)] = -np.inf
