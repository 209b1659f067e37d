"""Base class of the losses of scores of pairs, and checks of their labels."""

from collections.abc import Callable
from typing import Any

import keras

from tfdml._core.backends import ops
from tfdml._core.checks import as_unmasked, require
from tfdml.losses.base import FunctionLoss
from tfdml.pairs.base import Tensor


class ScoreLoss(FunctionLoss):
    """Base class: a Keras loss over a function `(labels, scores)` that returns one value per score."""

    def __init__(
        self,
        function: Callable[[Tensor, Tensor], Tensor],
        *,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
    ) -> None:
        super().__init__(function, {}, name=name or function.__name__, reduction=reduction, dtype=dtype)

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The reduced loss of labels and scores, with optional weights per score or per example."""
        values = self.call(y_true, y_pred)
        return self.reduce(values, None if sample_weight is None else _per_score(sample_weight, values))

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """One value per score, in the shape of the scores."""
        return self.function(y_true, y_pred)


def signed_scores(labels: Tensor, scores: Tensor) -> Tensor:
    """y o: the scores in float32 (or their float64), with the sign of their labels, above 0 for pairs that match.

    Labels `(batch, 1)` fit scores `(batch,)`, and the other way around.
    """
    scores = ops.convert_to_tensor(as_unmasked(scores, "scores"))
    scores = scores if _is(scores, "float64") else ops.cast(scores, "float32")
    labels = _in_shape_of(scores, ops.convert_to_tensor(as_unmasked(labels, "labels")))
    matches = labels if _is(labels, "bool") else labels > 0
    return ops.where(matches, scores, -scores)


def propagate_non_finite(values: Tensor, scores: Tensor) -> Tensor:
    """Make values and gradients NaN wherever a score is not finite: on some backends max(NaN, 0) is 0."""
    undefined = ops.where(ops.isfinite(scores), 0.0, float("nan"))
    return values + scores * ops.cast(undefined, scores.dtype)


def _is(x, dtype):
    return keras.backend.standardize_dtype(x.dtype) == dtype


def _in_shape_of(scores, labels):
    """Labels with a last axis of 1 more or less, as Keras passes them, in the shape of the scores."""
    if len(labels.shape) == len(scores.shape) + 1 and labels.shape[-1] == 1:
        labels = ops.squeeze(labels, axis=-1)
    if len(labels.shape) == len(scores.shape) - 1 and scores.shape[-1] == 1:
        labels = ops.expand_dims(labels, axis=-1)
    received, expected = tuple(labels.shape), tuple(scores.shape)
    fits = len(received) == len(expected) and all(
        None in sizes or sizes[0] == sizes[1] for sizes in zip(received, expected, strict=True)
    )
    require(
        fits,
        f"labels of shape {received} and scores of shape {expected}",
        "one label per score: 1 where a pair matches, and -1 or 0 where it does not. A loss of class ids and "
        "embeddings, such as tfdml.losses.ContrastiveLoss, needs no model of pairs",
    )
    return labels


def _per_score(weights, values):
    """Weights per example `(batch,)` or `(batch, 1)` as weights of all scores of the example."""
    weights = ops.convert_to_tensor(weights)
    if len(weights.shape) == len(values.shape):
        return weights
    if len(weights.shape) == 1:
        return ops.reshape(weights, (-1, *[1] * (len(values.shape) - 1)))
    return ops.squeeze(weights, axis=-1) if weights.shape[-1] == 1 else weights
