"""Hinge loss of scores of pairs."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.serialization import serializable
from tfdml.losses.base import LossOptions
from tfdml.losses.pair_scores.base import ScoreLoss, propagate_non_finite, signed_scores
from tfdml.pairs.base import Tensor


def pair_hinge(labels: Tensor, scores: Tensor) -> Tensor:
    """Values of `PairHingeLoss`, one per score: max(0, 1 - y o)."""
    signed = signed_scores(labels, scores)
    return propagate_non_finite(ops.relu(1.0 - signed), signed)


@serializable
class PairHingeLoss(ScoreLoss):
    """Hinge loss of the scores of a model of pairs: max(0, 1 - y o).

    For `tfdml.models.PairModel`. The squared L2 penalty of the paper, (lambda / 2) ||w||^2, is
    `kernel_regularizer=keras.regularizers.L2(lambda / 2)` in the layers of the network; `fit` adds it to the loss.

    The labels y, in the shape of the scores o, are 1 for a pair that matches and -1 (or 0) for one that does not. Any
    number above 0 counts as 1, any other as -1. A score that is not finite gives NaN.

    Also called: max-margin loss, SVM loss.

    Example:

        >>> loss = tfdml.losses.PairHingeLoss()
        >>> round(float(loss([1, -1, -1], [0.25, -2.0, 0.5])), 4)  # 0.75, 0 and 1.5
        0.75

    See also: `PairLogisticLoss`, its smooth form. `ContrastiveLoss`, of embeddings in place of scores.

    Source: Zagoruyko, Komodakis, Learning to Compare Image Patches via Convolutional Neural Networks, CVPR 2015, eq. 1.
    The paper sums over pairs, Keras takes the mean.
    """

    def __init__(self, **options: Unpack[LossOptions]) -> None:
        super().__init__(pair_hinge, **options)
