"""Angular loss: bounds the angle at the negative in the triangle of anchor, positive and negative."""

import math
from typing import Unpack

from tfdml._core.backends import custom_gradient, ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import broadcast_to_anchors, count, log_sum_exp_and_softmax, require_same_rows
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import batch_sum
from tfdml.pairs.distances import normalized
from tfdml.pairs.positives import at, for_each_positive, put, with_gradient
from tfdml.pairs.products import product, row_products


def angular(pairs: Pairs, *, angle_degrees: float = 45.0) -> Tensor:
    """Values of `AngularLoss`, one per anchor.

    (1 / P) sum_a sum_p log(1 + sum_n exp(4 tan^2(angle) (s_an + s_pn) - 2 (1 + tan^2(angle)) s_ap))
    """
    require_same_rows(pairs, "the angular loss")
    tangent = math.tan(math.radians(angle_degrees)) ** 2
    to_negative, to_positive = 4 * tangent, 2 * (1 + tangent)
    if pairs.block is not None:
        sums = ops.stack([_sum_in_block(pairs, to_negative, to_positive), ops.sum(count(pairs.positive))])
        total, number = ops.unstack(batch_sum(sums, pairs, has_gradient=True), 2)
        return broadcast_to_anchors(total / ops.maximum(ops.stop_gradient(number), 1.0), pairs)
    s = cosine(pairs)
    fixed = ops.stop_gradient(s)
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
            gradient + by_anchor_to_negative + by_positive_to_negative - put(p, by_violation * to_positive, fixed),
        )

    value, gradient = for_each_positive(pairs, add, (ops.zeros_like(fixed[0, 0]), ops.zeros_like(fixed)))
    return broadcast_to_anchors(
        with_gradient(value, gradient, s) / ops.maximum(ops.sum(count(pairs.positive)), 1.0), pairs
    )


def _sum_in_block(pairs, to_negative, to_positive):
    """The sum over the positive pairs of these anchors, by products of x_a + x_p with all references for each."""

    @custom_gradient
    def total(anchors, references, positive, negative):
        weighted = pairs._replace(positive=positive, negative=negative)
        zero = ops.zeros_like(positive[0, 0])

        def terms(p, exists):
            x_p = ops.take(references, p, axis=0)
            scores = to_negative * product(anchors + x_p, ops.transpose(references))
            over_negatives, softmax = log_sum_exp_and_softmax(scores, negative)
            violation = over_negatives - to_positive * row_products(anchors, x_p)
            return x_p, exists[:, None] * at(p, positive), violation, softmax

        def add(p, exists, value):
            _, weight, violation, _ = terms(p, exists)
            return (value + ops.sum(weight * ops.softplus(violation)),)

        def grad(upstream):
            def add(p, exists, by_anchors, by_references):
                x_p, weight, violation, softmax = terms(p, exists)
                by_violation = upstream * weight * ops.sigmoid(violation)
                by_scores = by_violation * to_negative * softmax
                by_both, pull = product(by_scores, references), to_positive * by_violation
                by_positives = ops.segment_sum(by_both - pull * anchors, p, num_segments=ops.shape(references)[0])
                by_negatives = product(ops.transpose(by_scores), anchors + x_p)
                return by_anchors + by_both - pull * x_p, by_references + by_negatives + by_positives

            zeros = ops.zeros_like(anchors), ops.zeros_like(references)
            return *for_each_positive(weighted, add, zeros), None, None

        return for_each_positive(weighted, add, (zero,))[0], grad

    unit = normalized(pairs)
    return total(unit.anchors, unit.references, pairs.positive, pairs.negative)


@serializable
class AngularLoss(PairLoss, in_blocks=True):
    """Angular loss, over each positive pair and all negatives of its anchor.

    (1 / P) sum_a sum_p log(1 + sum_n exp(4 tan^2(angle) (s_an + s_pn) - 2 (1 + tan^2(angle)) s_ap))

    A batch is compared with itself. s is the cosine similarity; embeddings need not be normalized. The value is the
    same for every anchor, because it also depends on the similarities s_pn; it is 0 where no anchor has both a positive
    and a negative. Time grows with A R K for up to K positives per anchor, memory with A R. In blocks of anchors, each
    of the K takes four products: a block has no similarities of its positives to the negatives.

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
