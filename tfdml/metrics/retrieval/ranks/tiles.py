"""Comparison of thresholds with the scores of a tile."""

import numpy as np

_SPARSE = 32  # Scores are listed where at most one in this many reaches a threshold, and else counted.


def compare_tile(tile, row, low, high, dense, scratch):
    """Counts the scores above each item's bounds, and finds those between them.

    Args:
        tile: `(m, n)` scores, in the order of rows or of columns.
        row: `(k,)` for each item its row of the tile, ascending.
        low, high: `(k,)` bounds, falling within a row.
        dense: `(m,)` whether many scores of a row are expected to reach the lowest bound.
        scratch: two arrays of at least m n booleans, overwritten. New arrays would be slower to fill.

    Returns:
        above: `(k,)` number of scores above `high`.
        item, column: `(c,)` the items with a score between their bounds, and the columns of these.
    """
    begin = np.searchsorted(row, np.arange(len(tile) + 1))
    listed = np.flatnonzero(~dense & (begin[1:] > begin[:-1]))
    lowest = np.full(len(tile), np.inf, np.float32)
    lowest[listed] = low[begin[1:][listed] - 1]
    reached, column = _places(np.greater_equal(tile, lowest[:, None], out=_like(tile, scratch[0])))
    if len(reached) > tile.size // _SPARSE:
        dense, reached, column = np.ones_like(dense), reached[:0], column[:0]
    above, item, columns = _compare_listed(tile[reached, column], reached, column, begin, low, high)
    for some in _portions(row, begin, dense, len(tile)):
        above[some], more, more_columns = _compare_rows(tile, row[some], low[some], high[some], scratch)
        item, columns = np.append(item, some[more]), np.append(columns, more_columns)
    return above, item, columns


def _portions(row, begin, dense, size):
    """The items of dense rows: the first of each row, the second, while most rows have one; then `size` at a time."""
    place = np.arange(len(row)) - begin[row]
    left, level = np.flatnonzero(dense[row]), 0
    while 2 * np.count_nonzero(place[left] == level) > size:
        yield left[place[left] == level]
        left, level = left[place[left] > level], level + 1
    yield from (left[start : start + size] for start in range(0, len(left), size))


def _compare_listed(value, row, column, begin, low, high):
    """`compare_tile` for a list of scores, each of which is compared with all items of its row."""
    numbers = (begin[1:] - begin[:-1])[row]
    ends = np.cumsum(numbers)
    item = np.arange(numbers.sum()) + np.repeat(begin[row] - ends + numbers, numbers)
    value, column = np.repeat(value, numbers), np.repeat(column, numbers)
    above = value > high[item]
    between = np.flatnonzero(above != (value >= low[item]))
    return np.bincount(item[above], minlength=len(low)), item[between], column[between]


def _compare_rows(tile, row, low, high, scratch):
    """`compare_tile` for all scores of the rows of some items."""
    if 2 * len(row) > len(tile) and (row[1:] > row[:-1]).all():
        values, place = tile, row
    else:
        values, place = _rows_of(tile, row), np.arange(len(row))
    above = np.greater(values, _spread(high, place, len(values)), out=_like(values, scratch[0]))
    reached = np.greater_equal(values, _spread(low, place, len(values)), out=_like(values, scratch[1]))
    counts = _counts(above)
    some = np.flatnonzero((counts != _counts(reached))[place])
    item, column = np.nonzero(above[place[some]] != reached[place[some]])
    return counts[place], some[item], column


def _spread(bounds, rows, size):
    """A column `(size, 1)` with the bounds at some rows, and infinity elsewhere."""
    column = np.full((size, 1), np.inf, np.float32)
    column[rows, 0] = bounds
    return column


def _places(mask):
    """Rows and columns of the True."""
    flat = np.flatnonzero(mask if mask.flags.c_contiguous else mask.T)
    return np.divmod(flat, mask.shape[1]) if mask.flags.c_contiguous else np.divmod(flat, mask.shape[0])[::-1]


def _rows_of(tile, rows):
    """Some rows of a tile, in the order of its memory."""
    return tile[rows] if tile.flags.c_contiguous else np.take(tile.T, rows, axis=1).T


def _like(tile, scratch):
    """Scratch of the shape of a tile, in the same order of memory."""
    if tile.flags.c_contiguous:
        return scratch[: tile.size].reshape(tile.shape)
    return _like(tile.T, scratch).T


def _counts(mask):
    """Number of True in each row, `(m,)` int64: bytes are added as bytes, up to 255, and eight at a time in a row."""
    if mask.flags.c_contiguous and mask.shape[1] % 8 == 0:
        return _sums(mask.view(np.uint64)).view(np.uint8).reshape(len(mask), -1, 8).sum(axis=(1, 2), dtype=np.int64)
    return _sums(mask.view(np.uint8)).sum(axis=1, dtype=np.int64)


def _sums(numbers):
    """Sums of up to 255 numbers of each row, `(m, parts)`."""
    starts = range(0, numbers.shape[1], 255)
    parts = [np.add.reduce(numbers[:, start : start + 255], axis=1, dtype=numbers.dtype) for start in starts]
    return np.stack(parts, axis=1)
