"""Comparison of the scores of a tile with the bounds around the scores of relevant items."""

import numpy as np

_SPARSE = 32  # Scores are listed where at most one in this many reaches a bound, and else counted.


def compare_tile(tile, row, low, high, is_dense, scratch):
    """Count the scores above each item's bounds, `(k,)`, and find those between them: their items and columns, `(c,)`.

    A dense row compares every score with every item of the row. The other rows list and compare only the scores that
    reach the lowest bound. `row` is the row of each item in the tile, ascending; `low` and `high` descend within a row.
    `scratch`, two arrays of at least `tile.size` booleans, is overwritten: new arrays are slower to fill.
    """
    offsets = np.searchsorted(row, np.arange(len(tile) + 1))
    reached, column = _list_scores(tile, offsets, low, is_dense, scratch)
    if len(reached) > tile.size // _SPARSE:
        is_dense, reached, column = np.ones_like(is_dense), reached[:0], column[:0]
    above, item, column = _compare_list(tile[reached, column], reached, column, offsets, low, high)
    for items in _groups_of_items(row, offsets, is_dense, len(tile)):
        above[items], index, columns = _compare_rows(tile, row[items], low[items], high[items], scratch)
        item, column = np.append(item, items[index]), np.append(column, columns)
    return above, item, column


def _list_scores(tile, offsets, low, is_dense, scratch):
    """Rows and columns of the scores that reach the lowest bound of their row, without dense rows."""
    rows = np.flatnonzero(~is_dense & (offsets[1:] > offsets[:-1]))
    lowest = np.full(len(tile), np.inf, np.float32)
    lowest[rows] = low[offsets[1:][rows] - 1]
    return _indices(np.greater_equal(tile, lowest[:, None], out=_like(tile, scratch[0])))


def _compare_list(score, row, column, offsets, low, high):
    """`compare_tile` for listed scores, each against all items of its row."""
    num_items = (offsets[1:] - offsets[:-1])[row]
    ends = np.cumsum(num_items)
    item = np.arange(num_items.sum()) + np.repeat(offsets[row] - ends + num_items, num_items)
    score, column = np.repeat(score, num_items), np.repeat(column, num_items)
    above = score > high[item]
    is_between = np.flatnonzero(above != (score >= low[item]))
    return np.bincount(item[above], minlength=len(low)), item[is_between], column[is_between]


def _groups_of_items(row, offsets, is_dense, size):
    """Items of dense rows: one of each row, then the next, while half of the rows have one; then `size` at a time."""
    level_of = np.arange(len(row)) - offsets[row]
    items, level = np.flatnonzero(is_dense[row]), 0
    while 2 * np.count_nonzero(level_of[items] == level) > size:
        yield items[level_of[items] == level]
        items, level = items[level_of[items] > level], level + 1
    yield from (items[start : start + size] for start in range(0, len(items), size))


def _compare_rows(tile, row, low, high, scratch):
    """`compare_tile` for all scores of the rows of a group of items."""
    if 2 * len(row) > len(tile) and (row[1:] > row[:-1]).all():
        rows, index = tile, row
    else:
        rows = tile[row] if tile.flags.c_contiguous else np.take(tile.T, row, axis=1).T  # in the order of memory
        index = np.arange(len(row))
    above = np.greater(rows, _as_column(high, index, len(rows)), out=_like(rows, scratch[0]))
    reached = np.greater_equal(rows, _as_column(low, index, len(rows)), out=_like(rows, scratch[1]))
    counts = _count_true(above)
    has_close = np.flatnonzero((counts != _count_true(reached))[index])
    item, column = np.nonzero(above[index[has_close]] != reached[index[has_close]])
    return counts[index], has_close[item], column


def _as_column(bounds, rows, size):
    """A column `(size, 1)` with the bounds at some rows, and infinity elsewhere."""
    column = np.full((size, 1), np.inf, np.float32)
    column[rows, 0] = bounds
    return column


def _indices(mask):
    """Rows and columns of the True, in the order of memory."""
    if mask.flags.c_contiguous:
        return np.divmod(np.flatnonzero(mask), mask.shape[1])
    return np.divmod(np.flatnonzero(mask.T), mask.shape[0])[::-1]


def _like(tile, scratch):
    """Scratch of the shape of a tile, in the same order of memory."""
    if tile.flags.c_contiguous:
        return scratch[: tile.size].reshape(tile.shape)
    return _like(tile.T, scratch).T


def _count_true(mask):
    """Number of True in each row, `(m,)` int64: bytes are added as bytes, up to 255, and eight at a time in a row."""
    if mask.flags.c_contiguous and mask.shape[1] % 8 == 0:
        return (
            _byte_sums(mask.view(np.uint64)).view(np.uint8).reshape(len(mask), -1, 8).sum(axis=(1, 2), dtype=np.int64)
        )
    return _byte_sums(mask.view(np.uint8)).sum(axis=1, dtype=np.int64)


def _byte_sums(numbers):
    """Sums of up to 255 numbers of each row, `(m, chunks)`."""
    starts = range(0, numbers.shape[1], 255)
    sums = [np.add.reduce(numbers[:, start : start + 255], axis=1, dtype=numbers.dtype) for start in starts]
    return np.stack(sums, axis=1)
