"""Search by the operations of ScaNN."""

import dataclasses
from typing import Any

import numpy as np

from tfdml._core.checks import require, require_whole
from tfdml._core.optional import has_tensorflow, scann_module, tf
from tfdml.export.graph_search.base import Space, require_counts

_STATE = (
    "dataset",
    "scann_config",
    "serialized_partitioner",
    "datapoint_to_token",
    "ah_codebook",
    "hashed_dataset",
    "int8_dataset",
    "int8_multipliers",
    "dp_norms",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScannSearch:
    """Search of a SavedModel by the operations of ScaNN: cells, 4-bit codes, and rescoring in float32.

    Programs that load the model need these operations: Python with `import scann` before loading, or a server that was
    built with them. Stock TensorFlow Serving does not have them.

    See also: `PartitionedSearch`, for any server of TensorFlow.

    Example:

        >>> vectors = np.random.default_rng(0).normal(size=(1000, 2)).astype("float32")
        >>> index = tfdml.search.Exact(vectors)
        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> folder = tfdml.export.saved_model(model, "export", index=index, search=tfdml.export.ScannSearch(k=2))
        >>> ids = tfdml.export.load(folder).signatures["search"](images=np.array([[[[9], [1]]]], "uint8"))["ids"]
        >>> bool((ids.numpy() == index.search(np.array([[9.0, 1.0]], "float32"), 2)[0]).all())
        True

    Args:
        k: number of neighbors of each image.
        leaves: number of cells; None: the square root of the number of vectors.
        leaves_to_search: number of cells that a query visits; None: a quarter of them. A query whose cells hold fewer
            than k vectors visits all.
        rescore: number of candidates to score in float32 at the end; None: 10 k + 200.

    Source: Guo et al., Accelerating Large-Scale Inference with Anisotropic Vector Quantization, ICML 2020.
    """

    k: int = 10
    leaves: int | None = None
    leaves_to_search: int | None = None
    rescore: int | None = None

    def __post_init__(self) -> None:
        require_whole("k", self.k, 1)
        require_counts(leaves=self.leaves, leaves_to_search=self.leaves_to_search, rescore=self.rescore)

    def searcher(self, vectors: np.ndarray, metric: str) -> "tf.Module":
        """The module that searches `(n, dim)` float32 vectors; at least 1,000 of them, and no fewer than `leaves`."""
        count = len(vectors)
        require(count >= 1000, f"{count} vectors for ScannSearch", "at least 1,000. Use ExactSearch")
        leaves = self.leaves or round(count**0.5)
        visited = self.leaves_to_search or -(-leaves // 4)
        require(visited <= leaves <= count, f"leaves={leaves}, leaves_to_search={visited}", "no more than vectors")
        rescore = min(count, max(self.k, self.rescore or 10 * self.k + 200))
        return _Searcher(Space(vectors, metric), self.k, leaves, visited, rescore)


class _Searcher(tf.Module if has_tensorflow() else object):  # type: ignore[misc]
    """ScaNN's searcher: each process builds it from its state at the first request."""

    def __init__(self, space, k, leaves, visited, rescore):
        super().__init__()
        self.space, self.k = space, k
        self._operations = scann_module("scann_ops", feature="ScannSearch", other="PartitionedSearch")
        self.settings = {"leaves": leaves, "leaves_to_search": visited, "rescore": rescore}
        distance = "squared_l2" if space.metric == "euclidean" else "dot_product"
        builder = self._operations.builder(space.vectors, k, distance).tree(leaves, visited)
        builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(rescore)
        self._state = builder.build().serialize_to_module()

    def __call__(self, embeddings: Any) -> tuple[Any, Any]:
        """Search the nearest leaves, and all leaves for queries that got fewer than k neighbors."""
        queries = self.space.queries(embeddings)
        handle = self._operations.tensors_to_scann(*(getattr(self._state, name) for name in _STATE))
        searcher = self._operations.ScannSearcher(handle)
        rows, scores = self._search(searcher, queries, self.settings["leaves_to_search"])
        incomplete = tf.reduce_any(tf.math.is_nan(scores), axis=1, keepdims=True)
        search_all = lambda: self._search(searcher, queries, self.settings["leaves"])  # noqa: E731
        all_rows, all_scores = tf.cond(tf.reduce_any(incomplete), search_all, lambda: (rows, scores))
        rows, scores = tf.where(incomplete, all_rows, rows), tf.where(incomplete, all_scores, scores)
        return rows, tf.sqrt(tf.maximum(scores, 0.0)) if self.space.metric == "euclidean" else scores

    def _search(self, searcher, queries, leaves):
        """Rows and scores `(batch, k)`; NaN scores if the leaves hold fewer than k vectors."""
        rows, scores = searcher.search_batched(queries, self.k, self.settings["rescore"], leaves)
        missing = [[0, 0], [0, self.k - tf.shape(scores)[1]]]
        rows = tf.pad(tf.cast(rows, tf.int32), missing)
        scores = tf.pad(scores, missing, constant_values=float("nan"))
        return tf.ensure_shape(rows, (None, self.k)), tf.ensure_shape(scores, (None, self.k))
