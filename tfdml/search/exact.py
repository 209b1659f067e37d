"""Exact nearest neighbors."""

from typing import ClassVar

import numpy as np

from tfdml.search.blocks import for_blocks
from tfdml.search.index.base import Index
from tfdml.search.index.items import Items
from tfdml.search.index.segments import joined
from tfdml.search.nearest import nearest

_FEW = 4  # A copy of a quarter of the vectors is made faster than the others are scored.


class Exact(Index):
    """Exact nearest neighbors: it compares every query with every vector.

    The score of a pair depends only on its two vectors, to the last bit, not on memory, threads, other queries or
    the position of a vector. Time grows with queries x vectors x dim, memory with vectors x dim.

    See also: `Faiss` and `Scann` for more vectors than can be compared with each query; `search_on_disk` for more than
    memory holds.

    Example:

        >>> index = tfdml.search.Exact([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], ids=[10, 11, 12])
        >>> ids, scores = index.search([[0.0, 2.0]], k=2)
        >>> ids.tolist(), scores.astype(float).round(4).tolist()
        ([[12, 11]], [[1.0, 0.8]])

    Args:
        vectors: `(n, dim)` floats, finite. The index copies them.
        ids: `(n,)` distinct ids, any int64, or text of up to 1,024 characters; row numbers by default.
        metric: "cosine" (the index normalizes vectors; a zero vector has cosine 0 with everything), "dot" or
            "euclidean".
        metadata: columns with one row per vector: a `pyarrow.Table`, a `pandas.DataFrame` or a dict of lists.
        max_bytes: bytes that a search may use in addition to the index and the results.
        model: the model of the vectors: a Keras model, a model of `tfdml.export.load`, the result of
            `tfdml.models.read_embeddings`, or a `tfdml.models.fingerprint`; None: that of vectors which know it, as
            results of `tfdml.models.embed`, else unknown. An index of a model refuses vectors and queries of others.
    """

    kind: ClassVar[str] = "exact"

    def rebuild(self) -> None:
        """Join added vectors and drop removed ones, in one segment: it is faster to search than many."""
        self._items = Items((joined(self._items.segments),))

    def _neighbors(self, segment, allowed, queries, k):
        return exact_neighbors(segment.gallery, allowed, queries, k, self.max_bytes)


def exact_neighbors(gallery, allowed, queries, k, max_bytes):
    """Rows `(q, k)` int64 and values `(q, k)` float32 of the exact neighbors; larger values are nearer.

    `allowed` is `(n,)` bool, the vectors to choose from, None for all; `k` is at most their number.
    """
    gallery, gallery_rows, allowed, max_bytes = _narrowed(gallery, allowed, max_bytes)
    scores = gallery.scores(queries)
    rows, values = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)

    def search(block_rows, block):
        rows[block_rows], values[block_rows] = nearest(scores, k, block_rows, block, allowed)

    needs = {"max_bytes": max_bytes, "row_bytes": 2 * len(gallery) + 48 * k, "thread_bytes": 20 * len(gallery)}
    for _ in for_blocks(search, len(queries), len(gallery), **needs):
        pass
    return (rows if gallery_rows is None else gallery_rows[rows]), values


def _narrowed(gallery, allowed, max_bytes):
    """A gallery of the allowed vectors alone, if they are few and their copy fits into half of `max_bytes`.

    Returns the gallery; its rows, None for all; the mask of allowed rows in it, None for all; the bytes that remain.
    """
    if allowed is None:
        return gallery, None, None, max_bytes
    rows = np.flatnonzero(allowed)
    size = len(rows) * gallery.augmented.itemsize * gallery.augmented.shape[1]
    if len(rows) * _FEW > len(allowed) or 2 * size > max_bytes:
        return gallery, None, allowed, max_bytes
    return gallery.take(rows), rows, None, max_bytes - size
