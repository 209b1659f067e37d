"""Ranks by comparison of each relevant item with the approximate scores of the whole gallery, tile by tile.

A tile holds the approximate scores of some queries with some items. Those of the relevant items are left out, and each
relevant item is compared with the others. An approximate score decides, unless it lies between the bounds `low` and
`high` around the score of the relevant item; then the two are compared by their exact scores.

In leave-one-out, scores are symmetric. A tile then serves its rows and its columns, and half of the product is enough.
"""

from threading import Lock

import numpy as np

from tfdml.metrics.retrieval.ranks.base import ranks_of_counts
from tfdml.metrics.retrieval.ranks.tiles import compare_tile
from tfdml.search.blocks import for_blocks, in_threads, thread_count

_ROWS, _COLUMNS = 512, 1024  # The matrix product is fast, and a tile stays in the cache while it is compared.
_CLOSE = 32  # Number of items of a tile close to a relevant one, above which its query is left to exact scores.
_SPARSE = 64  # A query whose last item has at most one in this many items above it is compared in lists.
_ITEM_BYTES = 160  # of each relevant item
_TILE_BYTES = 12  # of each score, for selected rows and for comparisons


def tile(use, scores, sides, depth, memory, row_bytes):
    """Calls `use(queries, ranks)` with the numbers `(m,)` of some queries, ascending, and their `Ranks`.

    Args:
        use, scores, sides, depth, memory, row_bytes: as in `tfdml.metrics.retrieval.ranks.for_ranks`.

    Yields:
        the number of queries of each finished part.

    Returns:
        `(m,)` the queries that have too many close items, for which nothing was called.
    """
    left, step = [], min(4 * _ROWS, memory // (2 * thread_count() * (row_bytes + 1)))
    for part in _parts(sides.counts, memory // 4):
        tiling = _Tiling(scores, sides, depth, part)
        yield from tiling.run(memory // 2)
        for _ in in_threads(lambda some, tiling=tiling: use(*tiling.ranks(some)), _slices(0, len(tiling.open), step)):
            pass
        left.append(part.start + np.flatnonzero(tiling.open))
    return np.concatenate(left)


def _parts(counts, memory):
    """Slices of the queries whose relevant items fit into memory."""
    share = np.cumsum(counts) * _ITEM_BYTES // memory
    starts = np.flatnonzero(np.diff(share, prepend=-1))
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], len(counts)], strict=True)]


class _Tiling:
    """The relevant items of a slice of the queries, and the numbers of other items that rank above them.

    Attributes:
        start: number of the first query; all queries below are counted from here.
        query, column, exact, low, high: `(P,)` for each relevant item its query, gallery row, score and bounds, by
            query and then by descending score.
        ends: `(queries + 1,)` place where the items of each query begin.
        best: `(P,)` whether an item has the best relevant score of its query.
        above, before, equal: `(P,)` counts so far, as in `ranks_of_counts`.
        active: `(P,)` whether an item may still be within the depth of its query.
        last: `(queries,)` the last active item of each query.
        seen: `(queries,)` number of items that each query was compared with.
        open: `(queries,)` whether a query has too many close items.
    """

    def __init__(self, scores, sides, depth, part):
        self.scores, self.sides, self.depth, self.start = scores, sides, depth[part], part.start
        self.mirrored = sides.leave_one_out and part.stop - part.start == len(scores)
        self._take_items(*sides.relevant(np.arange(part.start, part.stop)))
        self.low, self.high = scores.around(self.start + self.query, self.exact)
        self.ends = np.searchsorted(self.query, np.arange(part.stop - part.start + 1))
        self.best = self.exact == self.exact[self.ends[self.query]]
        self.above, self.before, self.equal = np.zeros((3, len(self.query)), np.int64)
        self.active = np.ones(len(self.query), bool)
        self.last = np.minimum(self.ends[1:], len(self.query)) - 1
        self.seen = np.zeros(part.stop - part.start, np.int64)
        self.open = np.zeros(part.stop - part.start, bool)
        self._lock = Lock()

    def _take_items(self, query, column):
        pieces = [slice(start, start + 2**14) for start in range(0, len(query), 2**14)]
        exact = in_threads(lambda some: self.scores.exact(self.start + query[some], column[some]), pieces)
        exact = np.concatenate([np.empty(0, np.float32), *exact])
        order = np.lexsort((column, -exact, query))
        self.query, self.column, self.exact = query[order], column[order], exact[order]

    def run(self, memory):
        """Counts the items above all relevant ones; yields the number of queries of each finished part."""
        columns = min(_COLUMNS, len(self.scores.gallery))
        needs = {"memory": memory, "row_bytes": _TILE_BYTES * columns, "rows": _ROWS}
        yield from for_blocks(self._count, len(self.open), columns, **needs)

    def _count(self, rows, buffer):
        """Counts for a slice of the queries; in leave-one-out also for the items of their tiles as queries."""
        scratch = np.empty((2, buffer.size), bool)
        for columns in self._tiles(rows, buffer.shape[1]):
            others = columns if self.mirrored and columns.start >= rows.stop else slice(0, 0)
            if not (self._active(rows).size or self._active(others).size):
                continue
            values = self._tile(rows, columns, buffer.reshape(-1))
            self._count_rows(values, rows, columns, scratch)
            self._count_rows(values.T, others, rows, scratch)

    def _tiles(self, rows, width):
        """Slices of the gallery. In leave-one-out, the tiles below the diagonal are those above it."""
        start = 0
        if self.mirrored:
            yield from _slices(rows.start, rows.stop, width)
            start = rows.stop
        yield from _slices(start, len(self.scores.gallery), width)

    def _active(self, queries):
        """Places of the active items of a slice of the queries."""
        start, stop = self.ends[queries.start], self.ends[queries.stop]
        return start + np.flatnonzero(self.active[start:stop].copy())  # Other threads write to the array meanwhile.

    def _tile(self, rows, columns, buffer):
        """Approximate scores; -inf where an item is relevant or no candidate."""
        shape = rows.stop - rows.start, columns.stop - columns.start
        tile = buffer[: shape[0] * shape[1]].reshape(shape)
        queries = slice(self.start + rows.start, self.start + rows.stop)
        self.scores.approximate(queries, out=tile, columns=columns)
        items = slice(self.ends[rows.start], self.ends[rows.stop])
        inside = np.flatnonzero((self.column[items] >= columns.start) & (self.column[items] < columns.stop))
        tile[self.query[items][inside] - rows.start, self.column[items][inside] - columns.start] = -np.inf
        self.sides.exclude(tile, queries, columns)
        return tile

    def _count_rows(self, tile, queries, columns, scratch):
        """Counts the items of a tile `(queries, columns)` above the active relevant items of its queries."""
        items = self._active(queries)
        if not len(items):
            return
        dense = self.above[self.last[queries]] * _SPARSE >= self.seen[queries]
        rows = self.query[items] - queries.start
        above, place, column = compare_tile(tile, rows, self.low[items], self.high[items], dense, scratch)
        numbers = np.bincount(place, minlength=len(items))
        kept = numbers[place] <= _CLOSE
        found = self._compare_exact(items[place[kept]], columns.start + column[kept])
        with self._lock:
            self._add(items, above, *found)
            self._open(np.unique(self.query[items[numbers > _CLOSE]]))
            self._drop(queries, items)
            self.seen[queries] += tile.shape[1]

    def _compare_exact(self, item, column):
        """Those of the items `(m,)` whose close item has a higher score, the same, and the same and an earlier row."""
        exact = self.scores.exact(self.start + self.query[item], column)
        equal = exact == self.exact[item]
        return item[exact > self.exact[item]], item[equal], item[equal & (column < self.column[item])]

    def _add(self, items, counts, above, equal, before):
        self.above[items] += counts
        for total, found in ((self.above, above), (self.equal, equal), (self.before, before)):
            np.add.at(total, found, 1)

    def _open(self, queries):
        """Leaves queries to exact scores."""
        self.open[queries] = True
        for query in queries:
            self.active[self.ends[query] : self.ends[query + 1]] = False

    def _drop(self, queries, items):
        """Drops the items beyond the depth of their query."""
        beyond = ~self.best[items] & (self.above[items] >= self.depth[self.query[items]])
        self.active[items[beyond]] = False
        kept = items[~beyond]
        self.last[self.query[kept]] = kept

    def ranks(self, some):
        """The queries of a slice that are not open, and their `Ranks`."""
        queries = some.start + np.flatnonzero(~self.open[some])
        items = self._active(some)
        query = np.searchsorted(queries, self.query[items])
        return self.start + queries, ranks_of_counts(
            query, *(field[items] for field in (self.column, self.above, self.before, self.equal))
        )


def _slices(start, stop, size):
    return (slice(begin, min(begin + size, stop)) for begin in range(start, stop, max(1, size)))
