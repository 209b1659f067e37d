"""Tuplet margin loss."""

import math
from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_positive
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.pairwise.nt_xent import positives_among_negatives
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor


def tuplet_margin(pairs: Pairs, *, margin_degrees: float = 5.73, scale: float = 64.0) -> Tensor:
    """Values of `TupletMarginLoss`, one per anchor.

    mean_p log(1 + sum_n exp(scale (cos t_an - cos(t_ap - margin))))
    """
    s = cosine(pairs)
    sine = ops.sqrt(ops.maximum(1.0 - ops.square(s), 1e-12))
    slack = math.radians(margin_degrees)
    relaxed = ops.where(pairs.positive > 0, s * math.cos(slack) + sine * math.sin(slack), s)
    return positives_among_negatives(scale * relaxed, pairs)


@serializable
class TupletMarginLoss(PairLoss, in_blocks=True):
    """Tuplet margin loss: each positive, with an angular margin, among the negatives.

    mean_p log(1 + sum_n exp(scale (cos t_an - cos(t_ap - margin))))

    t is the angle between embeddings, which need not be normalized. An anchor without a positive or a negative gives 0.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.TupletMarginLoss(margin_degrees=5.73, scale=64.0)
        >>> round(float(loss(labels, embeddings)), 4)  # log(1 + exp(64 (0.8 - cos(acos(0.6) - 0.1)))) / 3
        2.6268

    See also: `NTXentLoss`, without margin. `IntraPairVarianceLoss`, the regularizer of the same paper.

    Args:
        margin_degrees: angular margin between the positive and the negatives, in [0, 180) degrees.
        scale: sharpness, above 0.

    Source: Yu, Tao, Deep Metric Learning with Tuplet Margin Loss, ICCV 2019, eq. 6.
    """

    def __init__(self, *, margin_degrees: float = 5.73, scale: float = 64.0, **options: Unpack[PairOptions]) -> None:
        require(0 <= margin_degrees < 180, f"margin_degrees={margin_degrees}", "degrees in [0, 180)")
        require_positive(scale=scale)
        super().__init__(tuplet_margin, margin_degrees=margin_degrees, scale=scale, **options)
