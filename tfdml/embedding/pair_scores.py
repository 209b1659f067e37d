"""Scores of pairs of rows of a set, by a model of pairs."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, is_labeled_set, require, require_whole
from tfdml.typing import Examples

_BATCHES_PER_BLOCK = 8


def score_pairs(
    model: Any, data: Examples, first: npt.ArrayLike, second: npt.ArrayLike, *, batch_size: int = 256
) -> np.ndarray:
    """Scores of pairs of rows of a set, by a model of pairs.

    See also: `embed` and `tfdml.metrics.pair_scores` for embeddings, `tfdml.search.rerank` for neighbors.

    Example: a model whose score is the dot product of its two inputs.

        >>> first, second = keras.Input((2,)), keras.Input((2,))
        >>> model = keras.Model([first, second], keras.layers.Dot(axes=1)([first, second])[:, 0])
        >>> x = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> tfdml.models.score_pairs(model, x, first=[0, 1], second=[1, 2]).round(4)
        array([0.6, 0.8], dtype=float32)

    Args:
        model: a `tfdml.models.PairModel`, or another Keras model of two inputs and one score `(batch,)`.
        data: a labeled set of `tfdml.datasets`, or an array `(examples, ...)`.
        first, second: `(pairs,)` row numbers.
        batch_size: pairs that the model takes at a time; eight batches of examples are in memory.
    """
    require_whole("batch_size", batch_size, 1)
    rows = [as_ids(side, name) for side, name in ((first, "first"), (second, "second"))]
    received = f"{len(rows[0])} first and {len(rows[1])} second rows"
    require(len(rows[0]) == len(rows[1]), received, "two rows per pair")
    limits = [int(np.min(rows)), int(np.max(rows))]
    require(limits[0] >= 0 and limits[1] < len(data), f"rows from {limits[0]} to {limits[1]}", f"0 to {len(data) - 1}")
    size = batch_size * _BATCHES_PER_BLOCK
    blocks = (tuple(_taken(data, side[i : i + size]) for side in rows) for i in range(0, len(rows[0]), size))
    return np.concatenate([np.asarray(model.predict(block, batch_size=batch_size, verbose=0)) for block in blocks])


def _taken(data, rows):
    return data.take(rows).examples() if is_labeled_set(data) else data[rows]
