"""Re-ranking of the first neighbors of a search by a model of pairs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, require, require_whole


def rerank(
    model: Any,
    queries: Any,
    gallery: Any,
    neighbors: npt.ArrayLike,
    *,
    k: int = 50,
    scores: npt.ArrayLike | None = None,
    weight: float = 1.0,
    batch_size: int = 256,
) -> tuple[np.ndarray, np.ndarray]:
    """The first k neighbors of each query in the order of the scores of a model of pairs.

    A search compares embeddings of single images. A model of pairs sees both images, which is better and slower, so it
    scores only the first neighbors: queries x k pairs.

    Also called: siamese re-ranker, cross-encoder, second stage of retrieve and re-rank.

    Example: the search puts item 0 first, the model of pairs item 2.

        >>> def closeness(a, b):
        ...     return -abs(a - b)[:, 0]
        >>> queries, gallery = np.array([[4.0]]), np.array([[1.0], [9.0], [5.0]])
        >>> neighbors, scores = tfdml.search.rerank(closeness, queries, gallery, [[0, 2, 1]], k=2)
        >>> neighbors.tolist(), scores.tolist()
        ([[2, 0, 1]], [[-1.0, -3.0]])

    Args:
        model: a `tfdml.models.PairModel` or another Keras model of two inputs; or a function of two batches that
            returns scores `(batch,)` or `(batch, 1)`. A large score is near.
        queries, gallery: the inputs of the model: arrays, read batch by batch, so that they may be memory maps; or
            functions of row numbers `(batch,)` that return a batch, for items that are not in memory.
        neighbors: `(queries, n)` row numbers of the gallery, nearest first, such as the ids of `Exact(...).search`. -1,
            at the end of a row, for none.
        k: number of neighbors to re-rank, 1 to n.
        scores: `(queries, n)` or `(queries, k)` scores of the search, larger for nearer ones, to add the scores of the
            model to; None: the model decides alone.
        weight: factor of the scores of the model beside the scores of the search.
        batch_size: number of pairs that the model takes at a time. Memory grows with it, and with queries x n numbers.

    Returns:
        neighbors: `(queries, n)` int64, the first k in the new order, the others as they were.
        scores: `(queries, k)` float32, the scores of the first k in the new order: of the model, or the sums. Equal
            ones stay in the order of the search; scores of missing neighbors are -inf.

    Raises:
        ValueError: neighbors that are no row numbers of the gallery, or -1 before a neighbor; a model that does not
            return one finite score per pair.

    Source: Nogueira, Cho, Passage Re-ranking with BERT, 2019, for texts.
    """
    rankings = _as_neighbors(neighbors, queries, gallery)
    require_whole("k", k, 1, rankings.shape[1])
    require_whole("batch_size", batch_size, 1)
    first = rankings[:, :k]
    values = np.full(first.shape, -np.inf, np.float32)
    rows, columns = np.nonzero(first >= 0)
    values[rows, columns] = _scores(model, _taker(queries), _taker(gallery), rows, first[rows, columns], batch_size)
    if scores is not None:
        values = _as_scores(scores, first, rankings.shape[1]) + np.float32(weight) * values
    order = np.argsort(-values, axis=1, kind="stable")
    reordered = np.concatenate([np.take_along_axis(first, order, axis=1), rankings[:, k:]], axis=1)
    return reordered, np.take_along_axis(values, order, axis=1)


def _as_neighbors(neighbors, queries, gallery):
    """Neighbors as int64 `(queries, n)`."""
    neighbors = np.asarray(neighbors)
    require(neighbors.ndim == 2 and neighbors.size > 0, f"neighbors of shape {neighbors.shape}", "(queries, n)")
    shape, rows = neighbors.shape, as_ids(neighbors.reshape(-1), "neighbors")
    if not callable(queries):
        require(len(queries) == shape[0], f"{len(queries)} queries and {shape[0]} rows of neighbors", "one row each")
    size = np.inf if callable(gallery) else len(gallery)
    expected = "row numbers of the gallery, 0 or more and below its length, or -1 for none"
    require(rows.min() >= -1 and rows.max() < size, f"neighbors from {rows.min()} to {rows.max()}", expected)
    neighbors = rows.reshape(shape)
    is_padded = (neighbors[:, :-1] < 0) & (neighbors[:, 1:] >= 0)
    require(not is_padded.any(), "neighbors with -1 before a row number", "-1 at the end of a row")
    return neighbors


def _taker(items: Any) -> Callable[[np.ndarray], Any]:
    return items if callable(items) else lambda rows: items[rows]


def _scores(model, queries, gallery, rows, columns, batch_size):
    """The scores of pairs of rows, `(pairs,)` float32, in batches of one size, to compile a model once."""
    size = min(batch_size, len(rows))
    blocks = [_block(model, queries, gallery, rows, columns, start, size) for start in range(0, len(rows), size or 1)]
    return np.concatenate([np.empty(0, np.float32), *blocks])


def _block(model, queries, gallery, rows, columns, start, size):
    pairs = np.minimum(np.arange(start, start + size), len(rows) - 1)
    a, b = queries(rows[pairs]), gallery(columns[pairs])
    values = model.predict_on_batch((a, b)) if hasattr(model, "predict_on_batch") else model(a, b)
    values = np.asarray(values, np.float32)
    received = f"scores of shape {values.shape} for {size} pairs"
    require(values.shape in ((size,), (size, 1)), received, "one score per pair, (batch,) or (batch, 1)")
    values = values.reshape(-1)[: len(rows) - start]
    require(bool(np.isfinite(values).all()), "scores of the model that are not finite", "finite numbers")
    return values


def _as_scores(scores, first, n):
    scores = np.asarray(scores, np.float32)
    expected = f"one per neighbor, {first.shape} or {(len(first), n)}"
    require(scores.shape in (first.shape, (len(first), n)), f"scores of shape {scores.shape}", expected)
    scores = scores[:, : first.shape[1]]
    finite = np.isfinite(scores) | (first < 0)
    require(bool(finite.all()), "scores of the search that are not finite", "finite numbers")
    return np.where(first < 0, -np.inf, scores)
