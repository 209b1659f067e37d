"""Groups of near-duplicates in a whole set."""

from threading import Lock

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require
from tfdml.search.blocks import MAX_BYTES, for_blocks
from tfdml.search.scores import Gallery


def near_duplicates(vectors: npt.ArrayLike, similarity: float) -> np.ndarray:
    """Groups of near-duplicates: the connected components of all pairs of at least this cosine similarity.

    Two members of a group need not be similar themselves: a chain of similar pairs connects them. It compares all
    pairs, as `Exact` does, so groups do not depend on memory or threads. Time grows with n^2 dim / 2; there is no
    matrix of all pairs.

    See also: `similar_pairs` for the pairs, also of two sets, or approximately; `tfdml.cleaning` for images.

    Example:

        >>> x = [[1.0, 0.0], [0.0, 1.0], [0.96, 0.28], [0.8, 0.6]]  # row 3 is similar to row 2 only
        >>> group = tfdml.search.near_duplicates(x, 0.9)
        >>> group.tolist()
        [0, 1, 0, 0]

    Args:
        vectors: `(n, dim)` floats, finite.
        similarity: least cosine similarity of a pair, in (-1, 1].

    Returns:
        `(n,)` int64: the first row of the group of each row; the row itself if no other row is similar.

    Source of the union of groups: Shiloach and Vishkin, An O(log n) Parallel Connectivity Algorithm, 1982.
    """
    scores = _scores(vectors, similarity)
    first = np.arange(len(scores))
    _for_pairs(scores, similarity, MAX_BYTES, lambda row, column, _: unite(first, row, column))
    return roots(first, np.arange(len(scores)))


def nearest_copies(
    vectors: npt.ArrayLike, similarity: float, splits: npt.ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups of near-duplicates, and of each row its most similar earlier row in its split and in the other splits.

    A thousand copies of an image are half a million pairs; here they are two pairs a row at most. `splits` is `(n,)`
    integers. Returns the groups `(n,)`; pairs `(m, 2)`, the smaller row first; and their similarities `(m,)`. Of rows
    that differ in similarity by less than 1e-6, the first one counts.
    """
    scores, splits = _scores(vectors, similarity), np.asarray(splits)
    count = len(scores)
    first, best = np.arange(count), np.full((2, count), -1, np.int64)

    def add(row, column, score):
        unite(first, row, column)
        steps = np.round((score + 2.0) * _STEPS).astype(np.int64)
        key = steps * count + (count - 1 - row)  # the most similar, and of equal ones the first
        np.maximum.at(best, ((splits[row] != splits[column]).astype(np.int64), column), key)

    _for_pairs(scores, similarity, MAX_BYTES // 2, add)  # keys take as much as the pairs
    column = np.nonzero(best >= 0)[1]
    row = count - 1 - best[best >= 0] % count
    return roots(first, np.arange(count)), np.stack([row, column], axis=1), scores.exact(row, column)


def _scores(vectors, similarity):
    require(-1 < similarity <= 1, f"similarity={similarity}", "a cosine similarity above -1 and up to 1")
    return Gallery(as_vectors(vectors, "vectors"), "cosine").scores()


def _for_pairs(scores, similarity, max_bytes, add):
    """Call `add(row, column, score)` with the similar pairs of each block, one block at a time."""
    count, lock = len(scores), Lock()

    def search(rows, block):
        row, column, score = _similar(scores, np.float32(similarity), rows, block)
        with lock:
            add(row, column, score)

    for _ in for_blocks(search, count, count, max_bytes=max_bytes, row_bytes=_PAIR_BYTES * count) if count else ():
        pass


_PAIR_BYTES = 40  # working memory per pair, if all pairs of a block are similar
_STEPS = 2**20  # of a similarity


def _similar(scores, least, rows, block):
    """Pairs of a query and a later vector that score at least this: row numbers, `(m,)` int64 each, and scores."""
    numbers = np.arange(rows.start, rows.stop)
    block = block.reshape(-1)[: len(block) * (len(scores) - rows.start)].reshape(len(block), -1)
    scores.approximate(rows, out=block, columns=slice(rows.start, None))
    low, high = scores.around(numbers, np.full(len(numbers), least))
    row, column = np.divmod(np.flatnonzero(block >= low[:, None]), block.shape[1])
    score = block[row, column]
    is_similar = score > high[row]
    row, column = rows.start + row, rows.start + column
    is_similar[~is_similar] = scores.exact(row[~is_similar], column[~is_similar]) >= least
    is_similar &= row < column
    return row[is_similar], column[is_similar], score[is_similar]


def unite(first, a, b):
    """Join the groups of the pairs `a[i], b[i]`; a group is a tree in `first` whose root is its first row.

    `scipy.sparse.csgraph.connected_components` needs all pairs at the same time, up to n^2 / 2. Here a block is enough.
    """
    while len(a):
        a, b = roots(first, a), roots(first, b)
        differ = a != b
        a, b = np.maximum(a, b)[differ], np.minimum(a, b)[differ]
        np.minimum.at(first, a, b)


def roots(first, rows):
    """The root of each row."""
    roots = first[rows]
    while not np.array_equal(roots, above := first[roots]):
        roots = above
    first[rows] = roots
    return roots
