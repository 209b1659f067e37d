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
        matches: whether `match` is called, which holds whole numbers as texts, too.

    Attributes:
        description: JSON-serializable facts about the search, shown by the server.

    Raises:
        ValueError: an index of another dimension, or of fewer vectors than `search.k`.
    """

    def __init__(self, index: VectorIndex, search: Search, dim: int, *, matches: bool = False):
        super().__init__()
        vectors = np.asarray(index.vectors, np.float32)
        require(vectors.shape[1] == dim, f"an index of dim {vectors.shape[1]}", f"{dim} as in the model's embeddings")
        k = neighbor_count(search.k, len(vectors))
        require(k <= len(vectors), f"k={k} for an index of {len(vectors)} vectors", "at most its size")
        self._searcher = search.searcher(vectors, index.metric)
        ids = np.asarray(index.ids)
        are_numbers = ids.dtype.kind in "iu"
        self._names = tf.Variable(_as_names(ids), trainable=False) if matches or not are_numbers else None
        self._ids = tf.Variable(tf.constant(ids, tf.int64), trainable=False) if are_numbers else self._names
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
        return self._neighbors(*self._searcher(embeddings))

    def match(self, embeddings: Any, threshold: float) -> dict[str, Any]:
        """`id` `(batch,)` strings, the id of the nearest vector or "unknown", and its `score` `(batch,)` float32."""
        return self._nearest(*self._searcher(embeddings), threshold)

    def search_and_match(self, embeddings: Any, threshold: float) -> dict[str, Any]:
        """The outputs of `search` and of `match`, from one search."""
        rows, scores = self._searcher(embeddings)
        return self._neighbors(rows, scores) | self._nearest(rows, scores, threshold)

    def _neighbors(self, rows, scores):
        payload = {} if self._payload is None else {"payload": tf.gather(self._payload, rows)}
        return {"ids": tf.gather(self._ids, rows), "scores": scores, **payload}

    def _nearest(self, rows, scores, threshold):
        similarity = -scores[:, 0] if self.description["metric"] == "euclidean" else scores[:, 0]
        # Only a gather returns texts: it is the one operation of texts that all runtimes have.
        names = tf.where(similarity >= threshold, rows[:, 0], self.description["vectors"])
        return {"id": tf.gather(self._names, names), "score": scores[:, 0]}

    def require_no_unknown(self) -> None:
        """Raise a ValueError if an id is the text "unknown"."""
        is_used = self._ids.dtype == tf.string and UNKNOWN.encode() in self._ids.numpy()[:-1]
        require(not is_used, f"the id {UNKNOWN!r}, which match returns for no match", "another id")


def _as_names(ids):
    """Ids as texts, and after them the text of no match."""
    return tf.constant([*map(str, ids), UNKNOWN])


def _as_payload(metadata):
    """Rows of a table as JSON objects."""
    return tf.constant([json.dumps(row, default=str) for row in metadata.to_pylist()])
