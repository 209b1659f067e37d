"""An index inside a graph: ids, scores and payload of the neighbors of embeddings."""

import json
from typing import Any

import numpy as np
import tensorflow as tf

from tfdml._core.checks import require
from tfdml.export.graph_search.base import neighbor_count
from tfdml.export.graph_search.search import Search
from tfdml.typing import VectorIndex

UNKNOWN, UNKNOWN_NUMBER = "unknown", -1


class GraphIndex(tf.Module):
    """An index in TensorFlow operations: from embeddings to their neighbors.

    Args:
        index: an index of `tfdml.search`.
        search: how the graph searches.
        dim: dimension of the embeddings.
        texts: whether the graph may hold texts. Without them, text ids are the rows of the index, no metadata are
            returned, and the id of `match` is a number, -1 for no match.

    Attributes:
        description: JSON-serializable facts about the search, shown by the server.

    Raises:
        ValueError: an index of another dimension, or of fewer vectors than `search.k`.
    """

    def __init__(self, index: VectorIndex, search: Search, dim: int, *, texts: bool = True):
        super().__init__()
        vectors = np.asarray(index.vectors, np.float32)
        require(vectors.shape[1] == dim, f"an index of dim {vectors.shape[1]}", f"{dim} as in the model's embeddings")
        k = neighbor_count(search.k, len(vectors))
        require(k <= len(vectors), f"k={k} for an index of {len(vectors)} vectors", "at most its size")
        self._searcher = search.searcher(vectors, index.metric)
        self._texts = texts
        self._ids = tf.Variable(_as_ids(index.ids, texts), trainable=False)
        metadata = getattr(index, "metadata", None) if texts else None
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
        nearest = tf.gather(self._ids, rows[:, 0])
        if self._texts and nearest.dtype != tf.string:
            nearest = tf.strings.as_string(nearest)
        unknown = tf.constant(UNKNOWN if self._texts else UNKNOWN_NUMBER, nearest.dtype)
        return {"id": tf.where(similarity >= threshold, nearest, unknown), "score": scores[:, 0]}

    def require_no_unknown(self) -> None:
        """Raise a ValueError if an id is the one of no match, the text "unknown" or the number -1."""
        unknown = UNKNOWN if self._texts else UNKNOWN_NUMBER
        stored = unknown.encode() if isinstance(unknown, str) else unknown
        is_used = stored in self._ids.numpy().tolist()
        require(not is_used, f"the id {unknown!r}, which match returns for no match", "another id")


def are_numbers(ids: Any) -> bool:
    """Whether ids are whole numbers, or texts."""
    return np.asarray(ids).dtype.kind in "iu"


def _as_ids(ids, texts):
    """Ids as a tensor: int64, or strings; where there are no texts, the rows of the index."""
    if are_numbers(ids):
        return tf.constant(np.asarray(ids), tf.int64)
    return tf.constant([str(name) for name in ids]) if texts else tf.range(len(ids), dtype=tf.int64)


def _as_payload(metadata):
    """Rows of a table as JSON objects."""
    return tf.constant([json.dumps(row, default=str) for row in metadata.to_pylist()])
