"""Circle loss."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_positive
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import log_sum_exp
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor


def circle(pairs: Pairs, *, margin: float = 0.4, scale: float = 80.0) -> Tensor:
    """Values of `CircleLoss`, one per anchor.

    log(1 + sum_n exp(scale w_an (s_an - margin)) * sum_p exp(-scale w_ap (s_ap - 1 + margin)))
    w_ap = max(0, 1 + margin - s_ap),  w_an = max(0, s_an + margin), constants in the gradient
    """
    s = cosine(pairs)
    fixed = ops.stop_gradient(s)
    pull = -scale * ops.maximum(1 + margin - fixed, 0.0) * (s - (1 - margin))
    push = scale * ops.maximum(fixed + margin, 0.0) * (s - margin)
    return ops.softplus(log_sum_exp(pull, pairs.positive) + log_sum_exp(push, pairs.negative))


@serializable
class CircleLoss(PairLoss, in_blocks=True):
    """Circle loss: similarities weighted by their distance from the optimum.

    log(1 + sum_n exp(scale w_an (s_an - margin)) * sum_p exp(-scale w_ap (s_ap - 1 + margin)))
    w_ap = max(0, 1 + margin - s_ap),  w_an = max(0, s_an + margin), constants in the gradient

    s is the cosine similarity; embeddings need not be normalized. An anchor without a positive or a negative gives 0.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.CircleLoss(margin=0.4, scale=8.0)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of 0.2453, log(1 + exp(8 * 1.2 * 0.4)) and 0
        1.3689

    See also: `MultiSimilarityLoss`, with fixed sharpness instead of weights that vanish at the optimum.

    Args:
        margin: relaxation m, in [0, 1]: positives aim at 1 - m, negatives at m.
        scale: gamma, above 0.

    Source: Sun et al., Circle Loss: A Unified Perspective of Pair Similarity Optimization, CVPR 2020, eqs. 6 and 8; the
    defaults are its fine-grained retrieval setting (0.25 and 256 for faces, 0.25 and 128 for re-identification).
    """

    def __init__(self, *, margin: float = 0.4, scale: float = 80.0, **options: Unpack[PairOptions]) -> None:
        require(0 <= margin <= 1, f"margin={margin}", "a number in [0, 1]")
        require_positive(scale=scale)
        super().__init__(circle, margin=margin, scale=scale, **options)
