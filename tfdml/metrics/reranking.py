"""Re-ranking by k-reciprocal nearest neighbors."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require, require_whole
from tfdml.search import Exact
from tfdml.search.blocks import MAX_BYTES, for_blocks, slices
from tfdml.search.nearest import nearest
from tfdml.search.scores import Gallery, l2_normalize

_ROWS = 1024  # Rows of sparse matrices that are expanded at the same time.
_BYTES_PER_DISTANCE = 64  # Float64 matrices of a block: overlaps, Jaccard distances, distances, and their sums.


@dataclass(frozen=True, kw_only=True)
class KReciprocalReranking:
    """Distances re-ranked by k-reciprocal encoding: items are near if their neighbors are the same.

    N(i, k) holds i and its k nearest items among all queries and gallery items. With d(i, j) the squared Euclidean
    distance divided by the largest one of i,

        R(i, k) = {j in N(i, k) : i in N(j, k)}
        R*(i) = R(i, k1) and each R(j, k1 / 2) with j in R(i, k1) and |R(j, k1 / 2) & R(i, k1)| > 2/3 |R(j, k1 / 2)|
        v(i, j) = exp(-d(i, j)) for j in R*(i), else 0; divided by the sum over j
        V(i) = mean of v(j) over the k2 nearest items j of i, i included
        d_J(i, j) = 1 - sum min(V(i), V(j)) / sum max(V(i), V(j))
        distance = (1 - weight) d_J + weight d

    It needs no labels. But each distance depends on all queries and all gallery items, so report the result as another
    protocol, "with re-ranking".

    See also: `tfdml.search.rerank` for neighbors of an index; option `rerank=` of `reidentification`.

    Example:

        >>> query, gallery = np.array([[0.0]]), np.array([[-1.15], [1.1], [1.2], [1.3]])
        >>> reranking = tfdml.metrics.KReciprocalReranking(k1=2, k2=1)
        >>> ((rows, distances),) = reranking.distances(query, gallery, metric="euclidean")
        >>> gallery[distances[0].argsort(), 0].tolist()  # 1.1 is nearer, but its two nearest neighbors are 1.2 and 1.3
        [-1.15, 1.1, 1.2, 1.3]

    Args:
        k1: number of neighbors, at least 1; k1 / 2 rounds to the nearest integer, halves to the even one.
        k2: number of items in the mean, from 1 to k1 + 1.
        weight: weight of the original distance, from 0 to 1.

    Source: Zhong, Zheng, Cao, Li, Re-ranking Person Re-identification with k-reciprocal Encoding, CVPR 2017. Square,
    division by the largest distance, and > in place of >= follow the authors' code, whose numbers others compare with.
    """

    k1: int = 20
    k2: int = 6
    weight: float = 0.3

    def __post_init__(self) -> None:
        """Raise a ValueError for settings out of range."""
        require_whole("k1", self.k1, 1)
        require_whole("k2", self.k2, 1, self.k1 + 1)
        require(0 <= self.weight <= 1, f"weight={self.weight!r}", "a number from 0 to 1")

    def distances(
        self,
        queries: npt.ArrayLike,
        gallery: npt.ArrayLike | None = None,
        *,
        metric: str = "cosine",
        max_bytes: int = MAX_BYTES,
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Re-ranked distances, one block of queries at a time.

        Time grows with (queries + items)^2, memory with (queries + items) * k1^2.

        Args:
            queries: `(queries, dim)` floats.
            gallery: `(items, dim)` floats; None: the queries are the gallery.
            metric: "cosine" (normalizes the vectors) or "euclidean".
            max_bytes: about the bytes of the blocks, in addition to the sparse encodings.

        Yields:
            slice of some of the queries, and their distances to the gallery, `(rows, items)` float64.

        Raises:
            ValueError: fewer than k1 + 1 vectors in all.
        """
        x, start = _joined(queries, gallery, metric)
        require(self.k1 < len(x), f"k1={self.k1} with {len(x)} vectors", "fewer neighbors than vectors. Lower k1")
        neighbors, _ = Exact(x, metric="euclidean", max_bytes=max_bytes).search(x, self.k1 + 1)
        largest = _largest_distances(x, max_bytes)
        averaged = _members(neighbors[:, : self.k2]) @ _encoded(x, neighbors, largest, self.k1)
        encoded = (averaged / self.k2).tocsr()  # V
        items = encoded[start:].tocsc()
        original = Gallery(x[start:], "euclidean").scores(x)
        step = max(1, max_bytes // (_BYTES_PER_DISTANCE * items.shape[0]))
        for rows in slices(start or len(x), step):
            d = original.exact_block(rows, np.empty((rows.stop - rows.start, items.shape[0]), np.float32))
            d = np.square(d, dtype=np.float64) / largest[rows, None]
            yield rows, (1 - self.weight) * _jaccard(encoded[rows], items) + self.weight * d


def _joined(queries, gallery, metric):
    """Queries and gallery as one matrix, and the row where the gallery starts."""
    require(metric in ("cosine", "euclidean"), f"metric={metric!r}", "'cosine' or 'euclidean' for re-ranking")
    x, start = as_vectors(queries, "queries"), 0
    if gallery is not None:
        items, start = as_vectors(gallery, "gallery"), len(x)
        require(x.shape[1] == items.shape[1], f"queries of dim {x.shape[1]}, gallery of {items.shape[1]}", "one dim")
        x = np.concatenate([x, items])
    return (l2_normalize(x) if metric == "cosine" else x), start


def _largest_distances(x, max_bytes):
    """The largest squared distance of each row to any other: `(n,)` float64."""
    scores, largest = Gallery(x, "euclidean").scores(farthest=True), np.empty(len(x))

    def search(rows, block):
        largest[rows] = nearest(scores, 1, rows, block)[1][:, 0]

    for _ in for_blocks(search, len(x), len(x), max_bytes=max_bytes, row_bytes=8 * len(x), thread_bytes=20 * len(x)):
        pass
    require(largest.max() > 0, "embeddings that are all the same", "embeddings that differ")
    return largest**2


def _encoded(x, neighbors, largest, k1):
    """v, the k-reciprocal encodings: a sparse matrix `(n, n)` whose rows sum to 1."""
    from scipy import sparse

    near, half = _reciprocal(neighbors, k1), _reciprocal(neighbors, round(k1 / 2))
    scores = Gallery(x, "euclidean").scores()
    blocks = []
    for rows in slices(len(x), _ROWS):
        row, column = _expanded(near[rows], half).nonzero()
        d = np.square(scores.exact(rows.start + row, column), dtype=np.float64) / largest[rows.start + row]
        values = np.exp(-d)
        values /= np.bincount(row, values)[row]
        blocks.append(sparse.csr_array((values, (row, column)), shape=(rows.stop - rows.start, len(x))))
    return sparse.vstack(blocks).tocsr()


def _reciprocal(neighbors, k):
    """R(i, k) for all i, as a sparse matrix of ones."""
    near = _members(neighbors[:, : k + 1])
    return near.multiply(near.T).tocsr()


def _expanded(near, half):
    """R*(i) of some rows, as a sparse matrix, from their R(i, k1) and all R(j, k1 / 2)."""
    overlap = near.multiply(near @ half.T).tocsr()
    overlap.data = (3 * overlap.data > 2 * half.sum(axis=1)[overlap.indices]).astype(np.float64)
    return near + overlap @ half


def _members(neighbors):
    """Lists of neighbors as a sparse matrix `(n, n)` of ones."""
    from scipy import sparse

    starts = np.arange(0, neighbors.size + 1, neighbors.shape[1])
    ones, shape = np.ones(neighbors.size), (len(neighbors), len(neighbors))
    return sparse.csr_array((ones, neighbors.reshape(-1), starts), shape=shape)


def _jaccard(encoded, items):
    """Jaccard distances of some encodings to all items, dense. Rows sum to 1, so sum max = 2 - sum min."""
    rows = np.repeat(np.arange(encoded.shape[0]), np.diff(encoded.indptr))
    starts = items.indptr[encoded.indices]
    lengths = items.indptr[encoded.indices + 1] - starts
    index = np.arange(lengths.sum()) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    smaller = np.minimum(np.repeat(encoded.data, lengths), items.data[index])
    cell = np.repeat(rows, lengths) * items.shape[0] + items.indices[index]
    shared = np.bincount(cell, smaller, minlength=encoded.shape[0] * items.shape[0])
    return 1 - (shared / (2 - shared)).reshape(encoded.shape[0], -1)
