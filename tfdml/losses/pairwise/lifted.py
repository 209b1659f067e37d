"""Lifted structure loss, and its generalized form."""

from typing import Unpack

from tfdml._core.backends import custom_gradient, ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import (
    count,
    log_sum_exp,
    log_sum_exp_of_references,
    max_of_references,
    over_batch,
    require_shared_references,
)
from tfdml.pairs import Pairs
from tfdml.pairs.base import Distance, Tensor
from tfdml.pairs.batch_reductions import BatchMean
from tfdml.pairs.distances import distance_function

_LOWEST = -1e30  # in place of the logarithm of 0, whose differences are not numbers


@over_batch
def lifted_structure(
    pairs: Pairs, *, margin: float = 1.0, hard: bool = False, squared: bool = True, distance: Distance = "euclidean"
) -> Tensor:
    """Values of `LiftedStructureLoss`, one per anchor.

    J_ap = d_ap + log(sum_n exp(margin - d_an) + sum_n exp(margin - d_pn))
    (A / (2 P)) sum_p max(0, J_ap)^2
    """
    require_shared_references(pairs, "the lifted structured loss")
    d = distance_function(distance)(pairs)
    if hard:
        nearness = ops.where(pairs.negative > 0, margin - d, -float("inf"))
        from_anchor, from_positive = ops.amax(nearness, axis=1), max_of_references(nearness, pairs)
        push = ops.maximum(from_anchor[:, None], from_positive)
    else:
        from_anchor = log_sum_exp(margin - d, pairs.negative)
        from_positive = log_sum_exp_of_references(margin - d, pairs.negative, pairs)
        push = _log_add_exp(from_anchor, from_positive)
    if squared:
        sums = _sums_of_squares(push + d, pairs.positive)
    else:
        sums = ops.sum(pairs.positive * ops.maximum(push + d, 0.0), axis=1)
    return BatchMean(sums, count(pairs.positive))


@custom_gradient
def _sums_of_squares(violations, weights):
    """sum(weights * max(0, violations)^2) / 2 of each row; its gradient takes one pass over the matrix."""
    hinges = ops.maximum(violations, 0.0)
    weighted = weights * hinges

    def grad(upstream):
        return upstream[:, None] * weighted, lambda: upstream[:, None] * ops.square(hinges) / 2

    return ops.sum(weighted * hinges, axis=1) / 2, grad


@custom_gradient
def _log_add_exp(rows, columns):
    """log(e^row + e^column) of two vectors, `(rows, columns)`; below any finite one where both are -inf."""
    rows, columns = (ops.where(x == -float("inf"), _LOWEST, x) for x in (rows[:, None], columns[None]))
    exp = ops.exp(-ops.abs(rows - columns))  # 1 + exp is in [1, 2], so that its logarithm is exact to a rounding of 1

    def grad(upstream):
        by_rows = upstream * ops.where(rows < columns, exp, 1.0) / (1.0 + exp)
        return ops.sum(by_rows, axis=1), ops.sum(upstream, axis=0) - ops.sum(by_rows, axis=0)

    return ops.maximum(rows, columns) + ops.log(1.0 + exp), grad


def generalized_lifted(pairs: Pairs, *, margin: float = 1.0, distance: Distance = "euclidean") -> Tensor:
    """Values of `GeneralizedLiftedLoss`, one per anchor.

    max(0, log sum_p exp(d_ap) + log sum_n exp(margin - d_an))
    """
    d = distance_function(distance)(pairs)
    return ops.maximum(log_sum_exp(d, pairs.positive) + log_sum_exp(margin - d, pairs.negative), 0.0)


@serializable
class LiftedStructureLoss(PairLoss, in_blocks=True):
    """Lifted structured loss: each positive pair against all negatives of both of its ends.

    J_ap = d_ap + log(sum_n exp(margin - d_an) + sum_n exp(margin - d_pn))
    (A / (2 P)) sum_p max(0, J_ap)^2

    With `hard`, the largest of all margin - d_an and margin - d_pn replaces the logarithm. Without `squared`, the loss
    is (A / P) sum_p max(0, J_ap). P is the number of (ordered) positive pairs in the batch, so that the mean over the A
    anchors is the paper's loss. Embeddings are not normalized. Negatives of p are the anchors that have p as a
    negative. A positive pair without negatives at either end has zero loss.

    Also called: lifted structured embedding, LiftedStruct.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> loss = tfdml.losses.LiftedStructureLoss(margin=1.0)
        >>> round(float(loss(labels, embeddings)), 4)  # J is 0.9741: the mean of 3 / 4 J^2, 3 / 4 J^2 and 0
        0.4744

    See also: `MultiSimilarityLoss`, usually the better first choice.

    Args:
        margin: distance up to which negatives count, with a soft threshold; above 0.
        hard: use the nested maximum instead of its smooth upper bound.
        squared: square the hinge, as in the paper.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Source: Oh Song, Xiang, Jegelka, Savarese, Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016,
    eqs. 3 (hard) and 4; without the square, Hermans, Beyer, Leibe, In Defense of the Triplet Loss, 2017, eq. 7.
    """

    def __init__(
        self,
        *,
        margin: float = 1.0,
        hard: bool = False,
        squared: bool = True,
        distance: Distance = "euclidean",
        **options: Unpack[PairOptions],
    ) -> None:
        require(margin > 0, f"margin={margin}", "a distance above 0")
        distance_function(distance)
        super().__init__(lifted_structure, margin=margin, hard=hard, squared=squared, distance=distance, **options)


@serializable
class GeneralizedLiftedLoss(PairLoss, in_blocks=True):
    """Generalized lifted loss: all positives of an anchor against all of its negatives.

    max(0, log sum_p exp(d_ap) + log sum_n exp(margin - d_an))

    With `distance="cosine"` this is the form on similarities, max(0, log sum_p exp(-s) + log sum_n exp(margin + s)).
    Embeddings are not normalized. An anchor without a positive or a negative gives 0.

    Also called: LG loss.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> loss = tfdml.losses.GeneralizedLiftedLoss(margin=1.0)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of 0, 0.5 + 1 - 1 and 0
        0.1667

    See also: `MultiSimilarityLoss` and `CircleLoss`, smooth losses of similarities.

    Args:
        margin: how much farther negatives must be, 0 or more.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Source: Hermans, Beyer, Leibe, In Defense of the Triplet Loss, 2017, eq. 8; on similarities, A Unified View of Deep
    Metric Learning via Gradient Analysis, eq. 9. Its printed signs contradict the weights of eqs. 10 and 11; the signs
    here agree with them.
    """

    def __init__(
        self, *, margin: float = 1.0, distance: Distance = "euclidean", **options: Unpack[PairOptions]
    ) -> None:
        require(margin >= 0, f"margin={margin}", "a distance of 0 or more")
        distance_function(distance)
        super().__init__(generalized_lifted, margin=margin, distance=distance, **options)
