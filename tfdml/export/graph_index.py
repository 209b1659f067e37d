"""An index inside a graph: ids, scores and payload of the neighbors of embeddings."""

import dataclasses
import json
import math
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml._core.optional import has_tensorflow, tf
from tfdml.datasets.readers.item_files import without_owner
from tfdml.export.graph_search.base import neighbor_count
from tfdml.export.graph_search.search_option import Search
from tfdml.metrics.calibration import ScoreCalibration
from tfdml.typing import VectorIndex

UNKNOWN, UNKNOWN_NUMBER = "unknown", -1


class GraphIndex(tf.Module if has_tensorflow() else object):  # type: ignore[misc]
    """An index in TensorFlow operations: from embeddings to their neighbors.

    Args:
        matches: whether the graph has `match`: it needs a second table of ids.
        texts: whether the graph may hold texts, and whole numbers beyond int32. Without them, -1 stands for "unknown",
            metadata are left out, and ids that are not int32 become rows: the outputs `rows` and `row` in place of
            `ids` and `id`.
        calibration: a `tfdml.metrics.ScoreCalibration` for the outputs `probabilities` and `probability`; None: none.
    """

    def __init__(
        self,
        index: VectorIndex,
        search: Search,
        dim: int,
        *,
        matches: bool = False,
        texts: bool = True,
        calibration: ScoreCalibration | None = None,
    ):
        super().__init__()
        self._calibration = calibration
        vectors = np.asarray(index.vectors, np.float32)
        require(vectors.shape[1] == dim, f"an index of dim {vectors.shape[1]}", f"{dim} as in the model's embeddings")
        items = _item_numbers(index, search)
        count = len(vectors) if items is None else len(np.unique(items))
        k = neighbor_count(search.k, count)
        noun = "vectors" if items is None else "items"
        require(k <= count, f"k={k} for an index of {count} {noun}", "at most its size")
        self._items: Any = None if items is None else tf.Variable(items, trainable=False)
        self._k = k
        if items is not None:  # so many vectors are of k items
            num_found = min(len(vectors), (k - 1) * int(np.bincount(items).max()) + 1)
            search = dataclasses.replace(search, k=num_found)
        self._searcher = search.searcher(vectors, index.metric)
        names, numbers = _as_names(index.ids, texts), _as_numbers(index.ids, texts)
        self._names: Any = tf.Variable(names, trainable=False) if matches or numbers is None else None
        self._outputs = ("ids", "id") if texts or are_kept(index.ids, texts) else ("rows", "row")
        self._ids = self._names if numbers is None else tf.Variable(numbers, trainable=False)
        metadata: Any = getattr(index, "metadata", None) if texts else None
        shown = [] if metadata is None else without_owner(metadata.column_names)
        rows = [json.dumps(row, default=str) for row in metadata.select(shown).to_pylist()] if shown else []
        self._payload = None if not shown else tf.Variable(tf.constant(rows), trainable=False)
        self.description = {
            "search": type(search).__name__,
            "vectors": len(vectors),
            "dim": dim,
            "metric": index.metric,
            "k": k,
            "dtype": getattr(search, "dtype", "float32"),
            **({} if items is None else {"items": count}),
            **self._searcher.settings,
        }

    def search(self, embeddings: Any) -> dict[str, Any]:
        """`ids` and `scores`, `(batch, k)`, and of an index with metadata `payload`, JSON objects."""
        return self._neighbors(*self._found(embeddings))

    def match(self, embeddings: Any, threshold: float) -> dict[str, Any]:
        """`id` `(batch,)` strings, the id of the nearest vector or "unknown", and its `score` `(batch,)` float32."""
        rows, scores = self._found(embeddings)
        return self._nearest(rows, scores, threshold)

    def search_and_match(self, embeddings: Any, threshold: float) -> dict[str, Any]:
        """The outputs of `search` and of `match`, from one search."""
        rows, scores = self._found(embeddings)
        return self._neighbors(rows, scores) | self._nearest(rows, scores, threshold)

    def _found(self, embeddings):
        """Rows and scores of the neighbors, `(batch, k)`; of vectors of one item, the nearest alone."""
        rows, scores = self._searcher(embeddings)
        if self._items is None:
            return rows, scores
        numbers, size = tf.cast(tf.gather(self._items, rows), tf.float32), rows.shape[1]
        is_same = (
            tf.nn.relu(1.0 - tf.abs(numbers[:, None] - numbers[:, :, None])) * np.tri(size, k=-1, dtype=np.float32).T
        )
        repeats = tf.reduce_max(is_same, axis=1)  # along the last axis, OpenVINO 2026.4 errs in batches of 100
        order = tf.math.top_k(np.arange(2 * size, size, -1, dtype=np.float32) - size * repeats, self._k).indices
        return tf.gather(rows, order, batch_dims=1), tf.gather(scores, order, batch_dims=1)

    def _neighbors(self, rows, scores):
        payload = {} if self._payload is None else {"payload": tf.gather(self._payload, rows)}
        return {
            self._outputs[0]: tf.gather(self._ids, rows),
            "scores": scores,
            **payload,
            **self._probabilities(scores),
        }

    def _nearest(self, rows, scores, threshold):
        similarity = -scores[:, 0] if self.description["metric"] == "euclidean" else scores[:, 0]
        # Texts are only gathered, never selected: other runtimes lack that.
        names = tf.where(similarity >= threshold, rows[:, 0], self.description["vectors"])
        first = {name: values[:, 0] for name, values in self._probabilities(scores, "probability").items()}
        return {self._outputs[1]: tf.gather(self._names, names), "score": scores[:, 0], **first}

    def _probabilities(self, scores, name="probabilities"):
        """The probabilities of scores `(batch, k)` by the name of the output; empty without a calibration."""
        calibration = self._calibration
        if calibration is None:
            return {}
        similarity = -scores if self.description["metric"] == "euclidean" else scores
        odds = math.log(calibration.prior / (1 - calibration.prior)) if calibration.prior < 1 else 100.0
        log_odds = odds + _piecewise(similarity, calibration.scores, calibration.ratio[0])
        return {name: tf.sigmoid(log_odds) * _piecewise(similarity, calibration.scores, calibration.rank_1[0])}

    def require_no_unknown(self) -> None:
        """Raise a ValueError if an id is the one of no match, the text "unknown" or the number -1."""
        *names, unknown = self._names.numpy().tolist()
        shown = unknown.decode() if isinstance(unknown, bytes) else unknown
        require(unknown not in names, f"the id {shown!r}, which match returns for no match", "another id")


def _piecewise(x, knots, values):
    """The curve of straight lines between knots, constant beyond them: a sum of ramps, which all runtimes have."""
    rise, knots = np.diff(values), np.array(knots)
    low, high = knots[:-1][rise > 0], knots[1:][rise > 0]
    first = tf.zeros_like(x) + np.float32(values[0])
    if not len(low):
        return first
    ramps = tf.minimum(tf.maximum(x[..., None], np.float32(low)), np.float32(high)) - np.float32(low)
    return first + tf.reduce_sum(ramps * np.float32(rise[rise > 0] / (high - low)), axis=-1)


def _item_numbers(index, search):
    column = getattr(search, "items", None)
    if column is None:
        return None
    expected = "an index of tfdml.search with metadata"
    require(hasattr(index, "item_numbers"), f"items={column!r} for an index without columns", expected)
    return index.item_numbers(column).astype(np.int32)


def are_kept(ids: Any, texts: bool) -> bool:
    """Whether ids are whole numbers that a graph holds unchanged: int64 with texts, int32 without."""
    ids = np.asarray(ids)
    limits = np.iinfo(np.int64 if texts else np.int32)
    return ids.dtype.kind in "iu" and bool(((ids >= limits.min) & (ids <= limits.max)).all())


def _as_numbers(ids, texts):
    """Whole numbers as int64. Of other ids the rows, or None where they can be texts."""
    if are_kept(ids, texts):
        return tf.constant(np.asarray(ids), tf.int64)
    return None if texts else tf.range(len(ids), dtype=tf.int64)


def _as_names(ids, texts):
    """The ids that `match` returns, and after them the one of no match."""
    if not texts:
        return tf.concat([_as_numbers(ids, texts), tf.constant([UNKNOWN_NUMBER], tf.int64)], axis=0)
    return tf.constant([*map(str, np.asarray(ids)), UNKNOWN])
