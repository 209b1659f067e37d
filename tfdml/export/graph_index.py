"""An index inside a graph: ids, scores and payload of the neighbors of embeddings."""

import json
from typing import Any

import numpy as np
import tensorflow as tf

from tfdml._core.checks import require
from tfdml.export.graph_search.base import neighbor_count
from tfdml.export.graph_search.search import Search
from tfdml.typing import VectorIndex

UNKNOWN = "unknown"


class GraphIndex(tf.Module):
    """An index in TensorFlow operations: from embeddings to their neighbors.

    Args:
        index: an index of `tfdml.search`.
        search: how the graph searches.
        dim: dimension of the embeddings.

    Attributes:
        description: JSON-serializable facts about the search, shown by the server.

    Raises:
        ValueError: an index of another dimension, or of fewer vectors than `search.k`.
    """

    def __init__(self, index: VectorIndex, search: Search, dim: int):
        super().__init__()
        vectors = np.asarray(index.vectors, np.float32)
        require(vectors.shape[1] == dim, f"an index of dim {vectors.shape[1]}", f"{dim} as in the model's embeddings")
        k = neighbor_count(search.k, len(vectors))
        require(k <= len(vectors), f"k={k} for an index of {len(vectors)} vectors", "at most its size")
        self._searcher = search.searcher(vectors, index.metric)
        self._ids = tf.Variable(_as_ids(index.ids), trainable=False)
        metadata = getattr(index, "metadata", None)
        self._payload = None if metadata is None else tf.Variable(_as_payload(metadata), trainable=False)
        self.description = {
            "search": type(search).__name__,
            "vectors": len(vectors),
            "dim": dim,
            "metric": index.metric,
            "k": k,
            "dtype": getattr(search, "dtype", "float32"),
            **self._searcher.settings,
        }

    def search(self, embeddings: Any) -> dict[str, Any]:
        """`ids` and `scores`, `(batch, k)`, and of an index with metadata `payload`, JSON objects."""
        rows, scores = self._searcher(embeddings)
        payload = {} if self._payload is None else {"payload": tf.gather(self._payload, rows)}
        return {"ids": tf.gather(self._ids, rows), "scores": scores, **payload}

    def match(self, embeddings: Any, threshold: float) -> dict[str, Any]:
        """`id` `(batch,)` strings, the id of the nearest vector or "unknown", and its `score` `(batch,)` float32."""
        rows, scores = self._searcher(embeddings)
        similarity = -scores[:, 0] if self.description["metric"] == "euclidean" else scores[:, 0]
        nearest = tf.gather(self._ids, rows[:, 0])
        text = nearest if nearest.dtype == tf.string else tf.strings.as_string(nearest)
        return {"id": tf.where(similarity >= threshold, text, UNKNOWN), "score": scores[:, 0]}

    def require_no_unknown(self) -> None:
        """Raise a ValueError if an id is the text "unknown"."""
        is_used = self._ids.dtype == tf.string and UNKNOWN.encode() in self._ids.numpy()
        require(not is_used, f"the id {UNKNOWN!r}, which match returns for no match", "another id")


def _as_ids(ids):
    """Ids as a tensor: int64, or strings."""
    ids = np.asarray(ids)
    return tf.constant(ids, tf.int64) if ids.dtype.kind in "iu" else tf.constant([str(name) for name in ids])


def _as_payload(metadata):
    """Rows of a table as JSON objects."""
    return tf.constant([json.dumps(row, default=str) for row in metadata.to_pylist()])
