"""Logistic loss of scores of pairs, and of maps of scores."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.serialization import serializable
from tfdml.losses.base import LossOptions
from tfdml.losses.pair_scores.base import ScoreLoss, propagate_non_finite, signed_scores
from tfdml.pairs.base import Tensor


def pair_logistic(labels: Tensor, scores: Tensor) -> Tensor:
    """Values of `PairLogisticLoss`, one per score: log(1 + exp(-y o))."""
    signed = signed_scores(labels, scores)
    return propagate_non_finite(ops.softplus(-signed), signed)


@serializable
class PairLogisticLoss(ScoreLoss):
    """Logistic loss of the scores of pairs: log(1 + exp(-y o)).

    For `tfdml.models.PairModel`, whose score is then the log-odds that a pair matches, and for maps of scores. Weights
    of a map, such as equal weights for both labels, are `sample_weight` of the same shape;
    `reduction="mean_with_sample_weight"` divides by their sum, the default by the number of scores.

    The labels y are as in `PairHingeLoss`. A score that is not finite gives NaN.

    Also called: binary cross-entropy from logits, with labels 0 and 1; softplus loss.

    Example:

        >>> loss = tfdml.losses.PairLogisticLoss()
        >>> round(float(loss([1, -1], [2.0, 0.0])), 4)  # log(1 + exp(-2)) and log 2
        0.41

    See also: `PairHingeLoss`, 0 beyond a margin. `DistanceLogisticLoss`, of distances between embeddings.

    Source: Bertinetto, Valmadre, Henriques, Vedaldi, Torr, Fully-Convolutional Siamese Networks for Object Tracking,
    ECCV 2016 workshops, eq. 3.
    """

    def __init__(self, **options: Unpack[LossOptions]) -> None:
        super().__init__(pair_logistic, **options)
