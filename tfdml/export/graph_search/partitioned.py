"""Search that visits the cells nearest to a query."""

import dataclasses
from typing import Any

import numpy as np

from tfdml._core.checks import require, require_one_of
from tfdml._core.optional import has_tensorflow, tf
from tfdml.export.graph_search.base import LOWEST, Space, neighbor_count, require_counts, rescored
from tfdml.export.graph_search.cells import center_ranks, k_means
from tfdml.export.graph_search.quantized import DTYPES, StoredVectors

_CANDIDATE_BYTES = 2**26  # bytes of the candidates that are compared at the same time
_PER_CELL = 64  # vectors that train one cell
_SAMPLE = 1000  # vectors that are the queries when the number of probes is chosen


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionedSearch:
    """Search of a SavedModel that visits the cells nearest to a query, in operations of TensorFlow alone.

    k-means divides the vectors into cells. It compares a query with the centers of all cells, and with the vectors of
    the `probes` nearest cells, scored as in `ExactSearch`. Every query gets k neighbors: there are never fewer probes
    than the smallest cells need to hold k vectors.

    Example: 16 points on a circle in four cells; a query visits two of them.

        >>> angles = np.arange(16) * np.pi / 8
        >>> index = tfdml.search.Exact(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32"))
        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> search = tfdml.export.PartitionedSearch(k=2, cells=4, probes=2)
        >>> loaded = tfdml.export.load(tfdml.export.saved_model(model, "export", index=index, search=search))
        >>> loaded.signatures["search"](images=np.array([[[[9], [1]]]], "uint8"))["ids"].numpy()
        array([[0, 1]])

    Args:
        k: number of neighbors of each image; None: 10, or all vectors of a smaller index.
        dtype: type of the stored vectors, as in `ExactSearch`.
        cells: number of cells; None: four times the square root of the number of vectors, at most a 16th of them.
        probes: number of cells that a query visits; None: as many as `recall` needs.
        recall: share of the k exact neighbors that a query must get, measured with up to 1,000 vectors of the index as
            queries that did not train the cells. Queries that differ from the vectors have a lower recall: measure with
            your own, and raise `probes`.
        seed: of k-means and of the sample.
    """

    k: int | None = None
    dtype: str = "float32"
    cells: int | None = None
    probes: int | None = None
    recall: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        require_counts(k=self.k, cells=self.cells, probes=self.probes)
        require_one_of(DTYPES, dtype=self.dtype)
        require(0 < self.recall <= 1, f"recall={self.recall!r}", "a share above 0 and up to 1")

    def searcher(self, vectors: np.ndarray, metric: str) -> "tf.Module":
        """The module that searches `(n, dim)` float32 vectors."""
        space = Space(vectors, metric)
        count = max(1, min(round(4 * len(vectors) ** 0.5), len(vectors) // 16)) if self.cells is None else self.cells
        require(count <= len(vectors), f"cells={count} for {len(vectors)} vectors", "at most one cell per vector")
        require(self.probes is None or self.probes <= count, f"probes={self.probes} of {count} cells", "fewer probes")
        rows = np.random.default_rng(self.seed).permutation(len(vectors))
        train, sample = np.split(rows, [max(count, len(rows) - min(_SAMPLE, len(rows) // 10))])
        cells = k_means(space.vectors, space.vectors[train[: _PER_CELL * count]], count)
        k = neighbor_count(self.k, len(vectors))
        probes = _probes_for(space, cells, sample, k, self.recall) if self.probes is None else self.probes
        while cells.fewest(probes) < k:
            probes += 1
        return _Searcher(space, cells, probes, k, self.dtype)


class _Searcher(tf.Module if has_tensorflow() else object):  # type: ignore[misc]
    """Products with the centers, then with the vectors of the nearest cells."""

    def __init__(self, space, cells, probes, k, dtype):
        super().__init__()
        self.space, self.k, self._probes = space, k, probes
        self.settings = {"cells": len(cells.centers), "probes": probes}
        ordered = np.pad(space.vectors[cells.order], ((0, 1), (0, 0)))  # the last row is padding
        self._stored = StoredVectors(ordered, dtype)
        self._padding_row = len(cells.order)
        self._offsets = tf.Variable(np.append(space.offsets(ordered[:-1]), np.float32(LOWEST)), trainable=False)
        self._order = tf.Variable(cells.order.astype(np.int32), trainable=False)
        self._centers = tf.Variable(cells.centers, trainable=False)
        self._center_offsets = tf.Variable(space.offsets(cells.centers), trainable=False)
        self._starts = tf.Variable(cells.starts.astype(np.int32), trainable=False)
        mean = probes * len(cells.order) / len(cells.centers)
        self._batch_size = max(1, int(_CANDIDATE_BYTES / (4 * mean * ordered.shape[1])))

    def __call__(self, embeddings: Any) -> tuple[Any, Any]:
        """Search in batches that fit into memory."""
        queries = self.space.queries(embeddings)
        count = tf.shape(queries)[0]
        batch_size = tf.minimum(self._batch_size, count)
        num_batches = -(-count // batch_size)
        padded = tf.pad(queries, [[0, num_batches * batch_size - count], [0, 0]])
        batches = tf.reshape(padded, (num_batches, batch_size, queries.shape[1]))
        types = (tf.float32, tf.int32)
        scores, rows = tf.map_fn(self._search, batches, fn_output_signature=types, parallel_iterations=1)
        scores, rows = (tf.reshape(tensor, (-1, self.k))[:count] for tensor in (scores, rows))
        return rows, self.space.as_returned(scores)

    def _search(self, queries):
        candidates = self._candidates(queries)
        products = tf.linalg.matvec(self._stored.take(candidates), queries) + tf.gather(self._offsets, candidates)
        _, columns = tf.math.top_k(products, self.k)
        best = tf.gather(candidates, columns, batch_dims=1)
        scores, best = rescored(self.space, self._stored, queries, best)
        return scores, tf.gather(self._order, best)

    def _candidates(self, queries):
        """Rows of the stored vectors in the nearest cells of each query, `(batch, most)`, then `_padding_row`."""
        products = tf.matmul(queries, self._centers, transpose_b=True) + self._center_offsets
        _, cells = tf.math.top_k(products, self._probes, sorted=False)
        ends = tf.reshape(tf.gather(self._starts, cells + 1), [-1])
        rows = tf.ragged.range(tf.reshape(tf.gather(self._starts, cells), [-1]), ends)
        query_splits = rows.row_splits[:: self._probes]
        return tf.RaggedTensor.from_row_splits(rows.values, query_splits, validate=False).to_tensor(self._padding_row)


def _probes_for(space, cells, sample, k, recall):
    """The fewest probes that reach the recall of the neighbors of a sample of the vectors, as queries.

    `sample` is `(q,)` rows of the vectors. Without any, it visits all cells.
    """
    if not len(sample):
        return len(cells.centers)
    queries = space.vectors[sample]
    neighbors = _nearest_rows(space, queries, k + 1)
    ranks = center_ranks(queries, cells, neighbors, space.offsets(cells.centers))[neighbors != sample[:, None]]
    return int(np.sort(ranks)[int(np.ceil(recall * len(ranks))) - 1]) + 1


def _nearest_rows(space, queries, k):
    """Rows of the nearest vectors, `(q, k)`, in blocks of queries."""
    offsets, step = space.offsets(space.vectors), max(1, 2**25 // len(space.vectors))
    kth = len(space.vectors) - min(k, len(space.vectors))
    blocks = [queries[start : start + step] for start in range(0, len(queries), step)]
    return np.concatenate([np.argpartition(b @ space.vectors.T + offsets, kth, axis=1)[:, kth:] for b in blocks])
