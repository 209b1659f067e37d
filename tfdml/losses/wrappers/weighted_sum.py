"""Weighted sums of losses."""

from collections.abc import Sequence

import keras

from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.layers.base import require_owner
from tfdml.losses.base import FunctionLoss
from tfdml.pairs.base import Tensor


@serializable
class WeightedSumLoss(FunctionLoss):
    """The weighted sum of several losses of one output, one value per anchor.

    sum_k weight_k loss_k

    Each loss keeps its own pairing, miner, importance weights and layers. All must have the same anchors, such as all
    rows of the batch. Their reductions are not used: their values are added for each anchor, and the sum is reduced.

    Also called: multi-loss.

    See also: `compile(loss=[...], loss_weights=[...])` of Keras for losses of several outputs.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> losses = [tfdml.losses.ContrastiveLoss(negative_margin=2.0), tfdml.losses.TripletLoss(margin=1.0)]
        >>> loss = tfdml.losses.WeightedSumLoss(losses, weights=[1.0, 2.0])  # 0.5 + 2 * 0.125
        >>> round(float(loss(labels, embeddings)), 4)
        0.75

    Args:
        losses: losses of tfdml, one or more.
        weights: the weight of each loss, 0 or more; None for 1.
        name, reduction, dtype: as in `keras.losses.Loss`.
    """

    def __init__(
        self,
        losses: Sequence[FunctionLoss],
        weights: Sequence[float] | None = None,
        *,
        name: str | None = "weighted_sum",
        reduction: str | None = "sum_over_batch_size",
        dtype: object = None,
    ) -> None:
        losses = _require_losses(losses)
        weights = [1.0] * len(losses) if weights is None else list(weights)
        require(
            len(weights) == len(losses) and min(weights) >= 0,
            f"weights={weights} for {len(losses)} losses",
            "a weight of 0 or more for each loss",
        )
        settings = {"losses": losses, "weights": weights}
        super().__init__(_weighted_sum, settings, name=name, reduction=reduction, dtype=dtype)

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The reduced loss of labels and embeddings `(batch, dim)`."""
        require_owner(self)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """One value per anchor, `(anchors,)`, of labels and embeddings."""
        values = [loss.call(y_true, y_pred) for loss in self.settings["losses"]]
        return self.function(values, self.settings["weights"])

    def update(self, labels: Tensor, embeddings: Tensor) -> None:
        """Update the state of all losses, each once."""
        for loss in dict.fromkeys(self.settings["losses"]):
            loss.update(labels, embeddings)

    @property
    def layers(self) -> list[keras.Layer]:
        """The Keras layers of all losses, each once."""
        layers = [layer for loss in self.settings["losses"] for layer in loss.layers]
        return list({id(layer): layer for layer in layers}.values())


def _require_losses(losses):
    """The losses as a list, or the ValueError of something else."""
    losses = list(losses) if isinstance(losses, list | tuple) else losses
    require(
        isinstance(losses, list) and bool(losses) and all(isinstance(loss, FunctionLoss) for loss in losses),
        f"losses={losses!r}",
        "a list of losses of tfdml",
    )
    return losses


def _weighted_sum(values, weights):
    anchors = [value.shape[0] for value in values]
    require(
        len(set(anchors)) == 1,
        f"losses of {' and '.join(map(str, anchors))} anchors in a weighted sum",
        "the same anchors in each, such as all rows of the batch",
    )
    return sum(weight * value for weight, value in zip(weights, values, strict=True))
