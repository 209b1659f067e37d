"""Groups of near-duplicates in a whole set."""

from threading import Lock

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require
from tfdml.search.blocks import MEMORY, for_blocks
from tfdml.search.scores import Gallery


def near_duplicates(vectors: npt.ArrayLike, similarity: float, *, memory: int = MEMORY) -> np.ndarray:
    """Groups of near-duplicates: the connected components of all pairs of at least this cosine similarity.

    Two members of a group need not be similar themselves: each is connected to the other by a chain of similar pairs.
    All pairs are compared, as `Exact` does, so groups do not depend on memory or threads. Time grows with n^2 dim / 2;
    there is no matrix of all pairs.

    See also: `similar_pairs` for the pairs, also of two sets, or approximately; `tfdml.cleaning` for images.

    Example:

        >>> x = [[1.0, 0.0], [0.0, 1.0], [0.96, 0.28], [0.8, 0.6]]  # row 3 is similar to row 2 only
        >>> group = tfdml.search.near_duplicates(x, 0.9)
        >>> group.tolist()
        [0, 1, 0, 0]
        >>> np.unique(group).tolist()  # one row of every group
        [0, 1]

    Args:
        vectors: `(n, dim)` floats, finite.
        similarity: least cosine similarity of a pair, in (-1, 1].
        memory: bytes for the search, in addition to the vectors and their normalized copy.

    Returns:
        `(n,)` int64: the first row of the group of each row; the row itself if no other row is similar.

    Raises:
        ValueError: vectors that are not `(n, dim)` or not finite; a similarity out of range; too little memory.

    Source of the union of groups: Shiloach and Vishkin, An O(log n) Parallel Connectivity Algorithm, 1982.
    """
    require(-1 < similarity <= 1, f"similarity={similarity}", "a cosine similarity above -1 and up to 1")
    gallery = Gallery(as_vectors(vectors, "vectors"), "cosine")
    scores, first, lock = gallery.scores(), np.arange(len(gallery)), Lock()

    def search(rows, block):
        pairs = _similar(scores, np.float32(similarity), rows, block)
        with lock:
            unite(first, *pairs)

    for _ in for_blocks(search, len(gallery), len(gallery), memory=memory, row_bytes=_PAIR_BYTES * len(gallery)):
        pass
    return roots(first, np.arange(len(gallery)))


_PAIR_BYTES = 40  # working memory per pair, if all pairs of a block are similar


def _similar(scores, least, rows, block):
    """Pairs of a query and a later vector that score at least this: two `(m,)` int64 arrays of row numbers."""
    numbers = np.arange(rows.start, rows.stop)
    block = block.reshape(-1)[: len(block) * (len(scores) - rows.start)].reshape(len(block), -1)
    scores.approximate(rows, out=block, columns=slice(rows.start, None))
    low, high = scores.around(numbers, np.full(len(numbers), least))
    row, column = np.divmod(np.flatnonzero(block >= low[:, None]), block.shape[1])
    is_similar = block[row, column] > high[row]
    row, column = rows.start + row, rows.start + column
    is_similar[~is_similar] = scores.exact(row[~is_similar], column[~is_similar]) >= least
    is_similar &= row < column
    return row[is_similar], column[is_similar]


def unite(first, a, b):
    """Join the groups of the pairs `a[i], b[i]`; a group is a tree in `first` whose root is its first row.

    `scipy.sparse.csgraph.connected_components` needs all pairs at the same time, up to n^2 / 2. Here a block is enough,
    and SciPy is no requirement of `tfdml.search`.
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
