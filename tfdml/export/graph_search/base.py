"""Vectors, queries and scores of a metric, in TensorFlow operations, and checks of settings."""

from typing import Any

import numpy as np

from tfdml._core.checks import require_whole
from tfdml._core.optional import has_tensorflow, tf
from tfdml.export.graph_search.quantized import StoredVectors

LOWEST = float(np.finfo(np.float32).min)
_ROUNDING = 2e-6  # of lengths of normalized vectors


class Space(tf.Module if has_tensorflow() else object):  # type: ignore[misc]
    """Vectors and queries, transformed so that products rank as the metric does.

    cosine: g / |g|; dot: g; euclidean: g - c with the mean c, and the offset -|g - c|^2 / 2. A product plus its offset
    ranks as the score: for euclidean it is |q - c|^2 / 2 - |q - g|^2 / 2.
    """

    def __init__(self, vectors: np.ndarray, metric: str):
        super().__init__()
        self.metric = metric
        self.center = tf.Variable(vectors.mean(axis=0, dtype=np.float64).astype(np.float32), trainable=False)
        self.vectors = vectors
        if metric == "cosine":
            length = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
            if np.abs(length - 1).max(initial=0) > _ROUNDING:  # else a copy as large as the index is saved
                self.vectors = vectors / np.where(length > 0, length, 1)
        if metric == "euclidean":
            self.vectors = vectors - self.center.numpy()

    def offsets(self, vectors: np.ndarray) -> np.ndarray:
        """Terms to add to the products with vectors of this space: `(n,)` float32."""
        if self.metric == "euclidean":
            return -0.5 * np.einsum("nd,nd->n", vectors, vectors)
        return np.zeros(len(vectors), np.float32)

    def queries(self, embeddings: Any) -> Any:
        """`(batch, dim)` embeddings in this space."""
        if self.metric == "cosine":
            length = tf.norm(embeddings, axis=1, keepdims=True)
            return tf.math.divide_no_nan(embeddings, length)
        return embeddings - self.center if self.metric == "euclidean" else embeddings

    def scores(self, queries: Any, vectors: Any) -> Any:
        """`(batch, k)` scores of queries with `(batch, k, dim)` vectors: larger is nearer."""
        if self.metric == "euclidean":
            return -tf.sqrt(_sums(tf.square(queries[:, None] - vectors)))
        return _sums(queries[:, None] * vectors)

    def as_returned(self, scores: Any) -> Any:
        """Scores as `tfdml.search` returns them: distances are positive."""
        return -scores if self.metric == "euclidean" else scores


def _sums(terms):
    """Sums along the last axis, `(batch, k)`, rounded equally for equal rows in every runtime.

    ONNX Runtime adds in an order that depends on the alignment of a row; multiples of 16 align all rows. Its products
    depend on the place of a row even then.
    """
    padding = -terms.shape[2] % 16
    return tf.reduce_sum(tf.pad(terms, [[0, 0], [0, 0], [0, padding]]) if padding else terms, axis=2)


def rescored(space: Space, stored: StoredVectors, queries: Any, rows: Any) -> tuple[Any, Any]:
    """Scores of the stored vectors at `rows` `(batch, k)`, largest first, and the rows in this order.

    A Euclidean distance from products is inaccurate near 0.
    """
    scores, order = tf.math.top_k(space.scores(queries, stored.take(rows)), rows.shape[1])
    return scores, tf.gather(rows, order, batch_dims=1)


def neighbor_count(k: int | None, count: int) -> int:
    """The number of neighbors in an index of `count` vectors."""
    return min(10, count) if k is None else k


def require_counts(**values: int | None) -> None:
    """Raise a ValueError unless every argument is None or a whole number of at least 1."""
    for name, value in values.items():
        if value is not None:
            require_whole(name, value, 1)
