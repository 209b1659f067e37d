"""N-pairs loss."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.pairwise.nt_xent import one_positive_among_negatives
from tfdml.pairs import Pairs, dot
from tfdml.pairs.base import Tensor


def n_pairs(pairs: Pairs, *, l2: float = 0.0) -> Tensor:
    """Values of `NPairsLoss`, one per anchor.

    mean_p -log(exp(s_ap) / (exp(s_ap) + sum_n exp(s_an))) + l2 * (|a|^2 + mean_r |r|^2) / 2
    """
    values = one_positive_among_negatives(dot(pairs), pairs)
    if l2 == 0:
        return values
    both = (ops.cast(x, values.dtype) for x in (pairs.anchors, pairs.reference_embeddings))
    anchor_norms, reference_norms = (ops.sum(ops.square(x), axis=-1) for x in both)
    return values + l2 * (anchor_norms + ops.mean(reference_norms)) / 2


@serializable
class NPairsLoss(PairLoss, in_blocks=True):
    """N-pair loss: cross-entropy of each positive among the negatives, on dot products.

    mean_p -log(exp(s_ap) / (exp(s_ap) + sum_n exp(s_an))) + l2 * (|a|^2 + mean_r |r|^2) / 2

    s is the dot product; embeddings are not normalized. An anchor without a positive or a negative gives the L2 term.

    Also called: multi-class N-pair loss, N-pair-mc.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.NPairsLoss()  # the mean of log(1 + exp(0 - 0.6)), log(1 + exp(0.8 - 0.6)) and 0
        >>> round(float(loss(labels, embeddings)), 4)
        0.4119

    See also: `NTXentLoss`, the same with a temperature: prefer it for embeddings of norm 1.

    Args:
        l2: weight of the mean squared norm of the embeddings, 0 or more; with 0, norms may grow without bound.

    Source: Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NIPS 2016; eq. 2 of Hong, Park,
    Kim, Deep Metric Learning via Weighted Contrastive Loss. With `pairs.even_against_odd` it is Sohn's loss.
    """

    def __init__(self, *, l2: float = 0.0, **options: Unpack[PairOptions]) -> None:
        require(l2 >= 0, f"l2={l2}", "a number of 0 or more")
        super().__init__(n_pairs, l2=l2, **options)
