"""Search that compares a query with every vector."""

import dataclasses
from typing import Any

import numpy as np

from tfdml._core.checks import require_one_of
from tfdml._core.optional import has_tensorflow, tf
from tfdml.export.graph_search.base import LOWEST, Space, neighbor_count, require_counts, rescored
from tfdml.export.graph_search.quantized import DTYPES, StoredVectors

_GROUP = 32  # scores whose maximum is taken first
_BLOCK = 2**17  # vectors that are compared at the same time
_SPARE = 6  # candidates beside the k nearest: copies at their end, whose products may be rounded differently


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactSearch:
    """Search of a SavedModel that compares a query with every vector, in operations of TensorFlow alone.

    With `dtype="float32"` it returns what `tfdml.search.Exact` returns, except that scores are summed in float32: two
    vectors whose scores differ in the last bits may change places. `"bfloat16"` and `"int8"` take half and a quarter of
    the space; scores come from the rounded vectors. An int8 vector is 127 steps of its largest entry.

    See also: `PartitionedSearch` for indexes of a million vectors, `ScannSearch` for a server with its operations.

    Example: two neighbors of each query.

        >>> vectors = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], "float32")
        >>> index = tfdml.search.Exact(vectors)
        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> folder = tfdml.export.saved_model(model, "export", index=index, search=tfdml.export.ExactSearch(k=2))
        >>> answer = tfdml.export.load(folder).signatures["search"](images=np.array([[[[3], [4]]]], "uint8"))
        >>> answer["ids"].numpy(), answer["scores"].numpy().round(4)
        (array([[1, 0]]), array([[0.8, 0.6]], dtype=float32))

    Args:
        k: number of neighbors of each image; None: 10, or all vectors of a smaller index. A request cannot change it,
            so that servers can batch requests.
        dtype: type of the stored vectors.
        items: column of the index's metadata with the item of each vector: each item is found once, by its nearest
            vector, and `k` counts items, as in `tfdml.search`. The graph compares the (k - 1) m + 1 nearest vectors of
            a query, where an item has at most m.
    """

    k: int | None = None
    dtype: str = "float32"
    items: str | None = None

    def __post_init__(self) -> None:
        require_counts(k=self.k)
        require_one_of(DTYPES, dtype=self.dtype)

    def searcher(self, vectors: np.ndarray, metric: str) -> "tf.Module":
        """The module that searches `(n, dim)` float32 vectors."""
        return _Searcher(Space(vectors, metric), neighbor_count(self.k, len(vectors)), self.dtype)


class _Searcher(tf.Module if has_tensorflow() else object):  # type: ignore[misc]
    """The best of each block of the vectors, then the best of all blocks together."""

    def __init__(self, space, k, dtype):
        super().__init__()
        self.space, self.k, self.settings = space, k, {}
        blocks = np.array_split(space.vectors, -(-len(space.vectors) // _BLOCK))
        starts = np.cumsum([0, *map(len, blocks)])
        self._blocks = [_Block(space, block, start, k, dtype) for block, start in zip(blocks, starts, strict=False)]

    def __call__(self, embeddings: Any) -> tuple[Any, Any]:
        """Search one block after the other, since each needs much memory."""
        queries = self.space.queries(embeddings)
        best: list[tuple[Any, Any]] = []
        for block in self._blocks:
            with tf.control_dependencies(best[-1] if best else []):
                best.append(block(queries))
        scores, rows = (tf.concat(tensors, axis=1) for tensors in zip(*best, strict=True))
        scores, columns = tf.math.top_k(scores, self.k)
        return tf.gather(rows, columns, batch_dims=1), self.space.as_returned(scores)


class _Block(tf.Module if has_tensorflow() else object):  # type: ignore[misc]
    """Products with a block of vectors, in separate variables, since slicing a variable copies it."""

    def __init__(self, space, vectors, start, k, dtype):
        super().__init__()
        self.space, self._start, self._k = space, int(start), min(k + _SPARE, len(vectors))
        padding = -len(vectors) % _GROUP
        self._width = len(vectors) + padding
        self._stored = StoredVectors(np.pad(vectors, ((0, padding), (0, 0))) if padding else vectors, dtype)
        offsets = np.pad(space.offsets(vectors), (0, padding), constant_values=LOWEST)
        self._offsets = tf.Variable(offsets, trainable=False)

    def __call__(self, queries: Any) -> tuple[Any, Any]:
        """Scores and rows of the best, `(batch, k + _SPARE or all)` each."""
        products = tf.nn.bias_add(self._stored.products(queries), self._offsets)
        columns = tf.sort(_largest(products, self._k, self._width), axis=1)  # the order of equal scores
        scores, columns = rescored(self.space, self._stored, queries, columns)
        return scores, self._start + columns


def _largest(scores, k, width):
    """Columns of the `k` largest scores of each row, largest first, equal ones in order.

    They lie in the k groups with the largest maxima, and selecting these is much faster.
    """
    if k * _GROUP >= width:
        return tf.math.top_k(scores, k).indices
    grouped = tf.reshape(scores, (-1, width // _GROUP, _GROUP))
    groups = tf.sort(tf.math.top_k(tf.reduce_max(grouped, axis=2), k, sorted=False).indices, axis=1)
    members = tf.reshape(tf.gather(grouped, groups, batch_dims=1), (-1, k * _GROUP))
    columns = tf.math.top_k(members, k).indices
    return tf.gather(groups, columns // _GROUP, batch_dims=1) * _GROUP + columns % _GROUP
