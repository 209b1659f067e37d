"""Angular loss: bounds the angle at the negative in the triangle of anchor, positive and negative."""

import math
from typing import Unpack

from tfdml._core.backends import add_at, ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import broadcast_to_anchors, count, log_sum_exp_and_softmax, require_same_rows
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import require_whole_batch
from tfdml.pairs.positives import at, for_each_positive, with_gradient


def angular(pairs: Pairs, *, angle_degrees: float = 45.0) -> Tensor:
    """Values of `AngularLoss`, one per anchor.

    (1 / P) sum_a sum_p log(1 + sum_n exp(4 tan^2(angle) (s_an + s_pn) - 2 (1 + tan^2(angle)) s_ap))
    """
    require_same_rows(pairs, "the angular loss")
    require_whole_batch(
        pairs, "the angular loss", "it needs the similarities of the positives of an anchor to all others"
    )
    s = cosine(pairs)
    fixed = ops.stop_gradient(s)
    tangent = math.tan(math.radians(angle_degrees)) ** 2
    to_negative, to_positive = 4 * tangent, 2 * (1 + tangent)
    scaled = to_negative * fixed

    def add(p, exists, value, gradient):
        over_negatives, softmax = log_sum_exp_and_softmax(scaled + ops.take(scaled, p, axis=0), pairs.negative)
        violation = over_negatives - to_positive * at(p, fixed)
        weight = exists[:, None] * at(p, pairs.positive)
        by_violation = weight * ops.sigmoid(violation)
        by_anchor_to_negative = by_violation * to_negative * softmax
        by_positive_to_negative = ops.segment_sum(by_anchor_to_negative, p, num_segments=ops.shape(fixed)[0])
        return (
            value + ops.sum(weight * ops.softplus(violation)),
            add_at(gradient + by_anchor_to_negative + by_positive_to_negative, p, -to_positive * by_violation),
        )

    value, gradient = for_each_positive(pairs, add, (ops.zeros_like(fixed[0, 0]), ops.zeros_like(fixed)))
    return broadcast_to_anchors(
        with_gradient(value, gradient, s) / ops.maximum(ops.sum(count(pairs.positive)), 1.0), pairs
    )


@serializable
class AngularLoss(PairLoss):
    """Angular loss, over each positive pair and all negatives of its anchor.

    (1 / P) sum_a sum_p log(1 + sum_n exp(4 tan^2(angle) (s_an + s_pn) - 2 (1 + tan^2(angle)) s_ap))

    A batch is compared with itself. s is the cosine similarity; embeddings need not be normalized. The value is the
    same for every anchor, because it also depends on the similarities s_pn; it is 0 where no anchor has both a positive
    and a negative. Time grows with A R K for up to K positives per anchor, memory with A R. `anchors_per_block` is an
    error, because each positive in a block would need products of its own with all references.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.AngularLoss(angle_degrees=45.0)
        >>> round(float(loss(labels, embeddings)), 4)  # log(1 + exp(4 (0 + 0.8) - 4 * 0.6))
        1.1711

    See also: `NPairsLoss`, to which the paper adds this loss by a `WeightedSumLoss`.

    Args:
        angle_degrees: upper bound of the angle at the negative, in degrees, in (0, 90).

    Source: Wang, Zhou, Wen, Liu, Lin, Deep Metric Learning with Angular Loss, ICCV 2017, eqs. 5 and 8.
    """

    def __init__(self, *, angle_degrees: float = 45.0, **options: Unpack[PairOptions]) -> None:
        require(0 < angle_degrees < 90, f"angle_degrees={angle_degrees}", "degrees in (0, 90)")
        super().__init__(angular, angle_degrees=angle_degrees, **options)
