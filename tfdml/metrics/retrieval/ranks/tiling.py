"""Ranks by comparison of each relevant item with the approximate scores of the whole gallery, tile by tile.

A tile holds the approximate scores of some queries with some items. It leaves out the scores of relevant items, and
compares each relevant item with the others. An approximate score decides, unless it lies between the bounds `low` and
`high` around the score of the relevant item; then the two are compared by their exact scores.

In leave-one-out, scores are symmetric. A tile then serves its rows and its columns, and half of the product is enough.
"""

from dataclasses import dataclass
from threading import Lock

import numpy as np

from tfdml._core.terminal import show_progress
from tfdml.metrics.retrieval.ranks.base import Ranks
from tfdml.metrics.retrieval.ranks.tiles import compare_tile
from tfdml.search.blocks import for_blocks, in_threads, thread_count

_ROWS, _COLUMNS = 512, 2048  # The matrix product is fast, and a tile stays in the cache while it is compared.
_CLOSE = 32  # Number of items of a tile close to a relevant one, above which its query is left to exact scores.
_SPARSE = 64  # A query whose last item has at most one in this many items above it is compared in lists.
_ITEM_BYTES = 160  # of each relevant item
_TILE_BYTES = 12  # of each score, for selected rows and for comparisons


def tile(measure, scores, relevance, depth, *, max_bytes, row_bytes, verbose):
    """Yield `(queries, measure(queries, ranks))` as `measure_ranks` does; return queries with too many close items."""
    unresolved, num_compared = [], 0
    step = min(4 * _ROWS, max_bytes // (2 * thread_count() * (row_bytes + 1)))
    for queries in _chunks_of_queries(relevance.counts, max_bytes // 4):
        tiling = _Tiling(scores, relevance, depth[queries], queries)
        for count in tiling.run(max_bytes // 2):
            num_compared += count
            if verbose:
                show_progress("queries compared", num_compared, len(scores))
        rows = _slices(0, len(tiling.counts.is_unresolved), step)
        yield from in_threads(lambda rows, tiling=tiling: tiling.measure_rows(measure, rows), rows)
        unresolved.append(queries.start + np.flatnonzero(tiling.counts.is_unresolved))
    return np.concatenate(unresolved)


def _chunks_of_queries(counts, max_bytes):
    """Slices of the queries whose relevant items fit into memory."""
    chunk = np.cumsum(counts) * _ITEM_BYTES // max_bytes
    starts = np.flatnonzero(np.diff(chunk, prepend=-1))
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], len(counts)], strict=True)]


@dataclass(frozen=True)
class RelevantItems:
    """The relevant items `(P,)` of a slice of the queries, by query and then by descending score.

    `query` counts from the first query, `start`. `low` and `high` bound the approximate scores of items that score
    about the same. The items of query i begin at `offsets[i]`; `is_best` marks those with the best relevant score of a
    query.
    """

    start: int
    query: np.ndarray
    column: np.ndarray
    score: np.ndarray
    low: np.ndarray
    high: np.ndarray
    offsets: np.ndarray
    is_best: np.ndarray

    @classmethod
    def of_queries(cls, queries, scores, relevance):
        """The relevant items of a slice of the queries."""
        query, column = relevance.relevant(np.arange(queries.start, queries.stop))
        chunks = list(_slices(0, len(query), 2**14))
        score = in_threads(lambda rows: scores.exact(queries.start + query[rows], column[rows]), chunks)
        score = np.concatenate([np.empty(0, np.float32), *score])
        order = np.lexsort((column, -score, query))
        query, column, score = query[order], column[order], score[order]
        low, high = scores.around(queries.start + query, score)
        offsets = np.searchsorted(query, np.arange(queries.stop - queries.start + 1))
        return cls(queries.start, query, column, score, low, high, offsets, score == score[offsets[query]])

    def slice_of(self, queries):
        """The slice of the items of a slice of the queries."""
        return slice(self.offsets[queries.start], self.offsets[queries.stop])


class Counts:
    """Numbers of other items above each relevant item so far. Threads update them while they hold the lock.

    `above`, `equal`, `earlier`, `(P,)`, count items that are not relevant with a higher score, the same score, and the
    same score and an earlier row. `is_active` says whether an item may still be within the depth of its query,
    `last_active` which is the last such item of a query, `num_compared` with how many items a query was compared.
    """

    def __init__(self, items, depth):
        self._items, self._depth, self.lock = items, depth, Lock()
        self.above, self.equal, self.earlier = np.zeros((3, len(items.query)), np.int64)
        self.is_active = np.ones(len(items.query), bool)
        self.last_active = np.minimum(items.offsets[1:], len(items.query)) - 1
        self.num_compared = np.zeros(len(depth), np.int64)
        self.is_unresolved = np.zeros(len(depth), bool)

    def active(self, queries):
        """The active items of a slice of the queries."""
        items = self._items.slice_of(queries)
        return items.start + np.flatnonzero(self.is_active[items].copy())  # Other threads write meanwhile.

    def expects_many(self, queries):
        """Whether many scores of a slice of the queries reach their last active item, by the tiles so far."""
        return self.above[self.last_active[queries]] * _SPARSE >= self.num_compared[queries]

    def add(self, items, num_above, above, equal, earlier):
        """Add numbers of items clearly above `items`, and 1 for each item of the lists `above`, `equal`, `earlier`."""
        self.above[items] += num_above
        for total, listed in ((self.above, above), (self.equal, equal), (self.earlier, earlier)):
            np.add.at(total, listed, 1)

    def give_up(self, queries):
        """Leave queries to exact scores."""
        self.is_unresolved[queries] = True
        for query in queries:
            self.is_active[self._items.offsets[query] : self._items.offsets[query + 1]] = False

    def drop_beyond_depth(self, items):
        """Drop the items that are beyond the depth of their query."""
        query = self._items.query
        is_beyond = ~self._items.is_best[items] & (self.above[items] >= self._depth[query[items]])
        self.is_active[items[is_beyond]] = False
        remaining = items[~is_beyond]
        self.last_active[query[remaining]] = remaining


class _Tiling:
    """The comparison of the relevant items of a slice of the queries with all others, tile by tile."""

    def __init__(self, scores, relevance, depth, queries):
        self.scores, self.relevance = scores, relevance
        self.is_symmetric = relevance.leave_one_out and queries.stop - queries.start == len(scores)
        self.items = RelevantItems.of_queries(queries, scores, relevance)
        self.counts = Counts(self.items, depth)

    def run(self, max_bytes):
        """Count the items above all relevant ones; yields the number of queries of each finished block."""
        columns = min(_COLUMNS, len(self.scores.gallery))
        needs = {"max_bytes": max_bytes, "row_bytes": _TILE_BYTES * columns, "rows": _ROWS}
        yield from for_blocks(self._count_block, len(self.counts.is_unresolved), columns, **needs)

    def measure_rows(self, measure, rows):
        """The queries of a slice that are resolved, and `measure` of their `Ranks`."""
        queries = rows.start + np.flatnonzero(~self.counts.is_unresolved[rows])
        items, counts = self.counts.active(rows), self.counts
        query = np.searchsorted(queries, self.items.query[items])
        ranks = ranks_of_counts(
            query, self.items.column[items], counts.above[items], counts.earlier[items], counts.equal[items]
        )
        return self.items.start + queries, measure(self.items.start + queries, ranks)

    def _count_block(self, rows, buffer):
        """Count for a slice of the queries; in leave-one-out also for the items of their tiles as queries."""
        scratch = np.empty((2, buffer.size), bool)
        for columns in self._tiles(rows, buffer.shape[1]):
            mirrored = columns if self.is_symmetric and columns.start >= rows.stop else slice(0, 0)
            if self.counts.active(rows).size or self.counts.active(mirrored).size:
                tile = self._tile(rows, columns, buffer.reshape(-1))
                self._count_tile(tile, rows, columns, scratch)
                self._count_tile(tile.T, mirrored, rows, scratch)

    def _tiles(self, rows, width):
        """Slices of the gallery. In leave-one-out, the tiles below the diagonal mirror those above it."""
        start = 0
        if self.is_symmetric:
            yield from _slices(rows.start, rows.stop, width)
            start = rows.stop
        yield from _slices(start, len(self.scores.gallery), width)

    def _tile(self, rows, columns, buffer):
        """Approximate scores; -inf where an item is relevant or no candidate."""
        shape = rows.stop - rows.start, columns.stop - columns.start
        tile = buffer[: shape[0] * shape[1]].reshape(shape)
        queries = slice(self.items.start + rows.start, self.items.start + rows.stop)
        self.scores.approximate(queries, out=tile, columns=columns)
        items = self.items.slice_of(rows)
        query, column = self.items.query[items] - rows.start, self.items.column[items] - columns.start
        is_in_tile = np.flatnonzero((column >= 0) & (column < shape[1]))
        tile[query[is_in_tile], column[is_in_tile]] = -np.inf
        self.relevance.exclude(tile, queries, columns)
        return tile

    def _count_tile(self, tile, queries, columns, scratch):
        """Count the items of a tile `(queries, columns)` above the active relevant items of its queries."""
        items, counts = self.counts.active(queries), self.counts
        if not len(items):
            return
        rows, is_dense = self.items.query[items] - queries.start, counts.expects_many(queries)
        above, index, column = compare_tile(
            tile, rows, self.items.low[items], self.items.high[items], is_dense, scratch
        )
        num_close = np.bincount(index, minlength=len(items))
        is_few = num_close[index] <= _CLOSE
        compared = self._compare_exact(items[index[is_few]], columns.start + column[is_few])
        with counts.lock:
            counts.add(items, above, *compared)
            counts.give_up(np.unique(self.items.query[items[num_close > _CLOSE]]))
            counts.drop_beyond_depth(items)
            counts.num_compared[queries] += tile.shape[1]

    def _compare_exact(self, item, column):
        """The items `(m,)` whose close item has a higher score, the same, and the same and an earlier row."""
        exact = self.scores.exact(self.items.start + self.items.query[item], column)
        is_equal = exact == self.items.score[item]
        is_earlier = is_equal & (column < self.items.column[item])
        return item[exact > self.items.score[item]], item[is_equal], item[is_earlier]


def ranks_of_counts(query, column, above, earlier, equal):
    """`Ranks` of relevant items, `(P,)` in any order, from the numbers of other items above them, as in `Counts`.

    The more of these have a higher score, the lower is a relevant item. Relevant items with the same number above have
    no other item between them; those that tie with one share its score and follow the rest.
    """
    tied = equal > 0
    order = np.lexsort((column, tied, above, query))
    query, above, earlier, equal, tied = (field[order] for field in (query, above, earlier, equal, tied))
    position = np.arange(len(query)) - np.searchsorted(query, query)
    is_first = ~tied
    is_first[:1] = True
    is_first[1:] |= ~tied[:-1] | (query[1:] != query[:-1]) | (above[1:] != above[:-1])
    starts = np.flatnonzero(is_first)
    lengths = np.diff(np.append(starts, len(query)))
    first, num_tied = np.repeat(position[starts], lengths), np.repeat(lengths, lengths)
    return Ranks(query, above + first, earlier + position - first, equal + num_tied)


def _slices(start, stop, size):
    return (slice(begin, min(begin + size, stop)) for begin in range(start, stop, max(1, size)))
