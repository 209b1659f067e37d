"""Distributionally robust losses: worst-case pair weights over an uncertainty set."""

from collections.abc import Callable
from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import LossOptions, PairLoss
from tfdml.losses.wrappers.base import LossOverBase, require_sum_over_pairs
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import num_anchors_of_batch


def robust(pairs: Pairs, *, base: PairLoss, uncertainty: Callable[[Tensor, Pairs], Tensor]) -> Tensor:
    """Values of `RobustLoss`, one per anchor.

    A sum_r p*_ar l_ar,  p* = argmax_{p in U} sum_ij p_ij l_ij
    """
    losses = (pairs.positive + pairs.negative) * base.pair_losses(pairs)
    p = ops.stop_gradient(uncertainty(ops.stop_gradient(losses), pairs))
    return ops.cast(num_anchors_of_batch(pairs), losses.dtype) * ops.sum(p * losses, axis=1)


@serializable
class RobustLoss(LossOverBase, in_blocks=True):
    """Distributionally robust loss.

    A sum_r p*_ar l_ar,  p* = argmax_{p in U} sum_ij p_ij l_ij

    l_ij is the loss of a pair under the base loss, times its weight. The uncertainty set U bounds how far p may be from
    uniform weights. p* is constant in the gradient, which equals the gradient of the maximum. The mean over anchors is
    sum_ij p*_ij l_ij. Pairs whose loss is not above 0 are left out. A batch without such pairs gives 0.

    Also called: distributionally robust optimization, DRO (DRO-TopK, DRO-KL).

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> base = tfdml.losses.ContrastiveLoss(negative_margin=2.0)  # losses 1, 1, and four of 0.25
        >>> loss = tfdml.losses.RobustLoss(base, uncertainty=tfdml.losses.uncertainty.TopK(4))
        >>> round(float(loss(labels, embeddings)), 4)  # (1 + 1 + 2 * 0.25) / 4
        0.625

    See also: `tfdml.losses.uncertainty`, the sets. `tfdml.miners`, which select pairs by rules.

    Args:
        base: a loss with `pair_losses(pairs)`, such as `ContrastiveLoss`, `MarginLoss` or `BinomialDevianceLoss`. Its
            normalization is ignored. Its `pairing`, `miner`, `importance` and `match` are used.
        uncertainty: `TopK`, `TopKBalanced`, `KL`, `GroupedKL`, `Variance`, `Maximal`, or your own function of the
            losses `(A, R)` and of `pairs` that returns p*, `(A, R)`.

    Source: A Simple and Effective Framework for Pairwise Deep Metric Learning, eq. 1 and lemma 1. Pairs of an example
    with itself are left out here.
    """

    def __init__(
        self, base: PairLoss, *, uncertainty: Callable[[Tensor, Pairs], Tensor], **options: Unpack[LossOptions]
    ) -> None:
        require_sum_over_pairs(base)
        require(
            callable(uncertainty),
            f"uncertainty={uncertainty!r}",
            "a function, such as tfdml.losses.uncertainty.TopK(160)",
        )
        nu = base.settings.get("nu", 0.0)
        require(nu == 0, f"a base loss with nu={nu}", "nu=0: the regularization of boundaries is not a loss of pairs")
        super().__init__(robust, base, {"uncertainty": uncertainty}, dict(options))
