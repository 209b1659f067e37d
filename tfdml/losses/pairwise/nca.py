"""Neighborhood component analysis (NCA)."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import log_ratio
from tfdml.pairs import Pairs, squared
from tfdml.pairs.base import Tensor


def nca(pairs: Pairs, *, log: bool = False) -> Tensor:
    """Values of `NCALoss`, one per anchor.

    p_ar = exp(-d_ar^2) / sum_r exp(-d_ar^2), r != a;   1 - sum_p p_ap, or -log sum_p p_ap with `log`
    """
    gap = log_ratio(-squared(pairs), pairs.negative, pairs.positive)
    return ops.softplus(gap) if log else ops.sigmoid(gap)


@serializable
class NCALoss(PairLoss, in_blocks=True):
    """Neighborhood components analysis: the probability that a random neighbor has another class.

    p_ar = exp(-d_ar^2) / sum_r exp(-d_ar^2), r != a;   1 - sum_p p_ap, or -log sum_p p_ap with `log`

    Embeddings are not normalized. Embeddings of norm 1 give a nearly flat softmax, because their squared distances are
    at most 4: scale them. An anchor without positives gives 0.

    Also called: with `log=True`, soft nearest neighbor loss.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> loss = tfdml.losses.NCALoss(log=False)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of 1 - 1 / (1 + exp(0.25 - 2.25)), 0.3208 and 0
        0.1467

    See also: `SupConLoss`, which pulls all positives instead of the nearest. `ProxyNCALoss`, against class centers.

    Args:
        log: use the negative log-likelihood, whose gradient does not vanish for anchors far from their class.

    Source: Goldberger, Roweis, Hinton, Salakhutdinov, Neighborhood Components Analysis, NIPS 2004, eqs. 2 to 4 and 6.
    Serrat's slides print k != j under the sum; the correct condition is k != i.
    """

    def __init__(self, *, log: bool = False, **options: Unpack[PairOptions]) -> None:
        super().__init__(nca, log=log, **options)
