"""Point-to-set loss: weighted means of each anchor's similarities to positives and to negatives."""

from typing import Unpack

from keras import ops

from tfdml._core.checks import require, require_positive
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count, log_sum_exp
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor


def hap2s(pairs: Pairs, *, margin: float = 0.2, temperature: float = 0.5) -> Tensor:
    """Hard-aware point-to-set loss with exponential weights, one value per anchor.

    max(0, S_n - S_p + margin),  S_p = sum_p q_p s_ap / sum_p q_p,  S_n = sum_n q_n s_an / sum_n q_n
    q_p = exp(-s_ap / temperature),  q_n = exp(s_an / temperature), constants in the gradient

    Args:
        pairs: `Pairs` of A anchors and R references; cosine similarity, so embeddings need not be normalized.
        margin: how much more similar the positives must be.
        temperature: small values emphasize the hardest pairs.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Yu et al., Hard-Aware Point-to-Set Deep Metric for Person Re-Identification, ECCV 2018; on similarities, A
    Simple and Effective Framework for Pairwise Deep Metric Learning, eqs. 30 to 32.
    """
    s = cosine(pairs)
    to_positives = _soft_mean(s, -s / temperature, pairs.positive)
    to_negatives = _soft_mean(s, s / temperature, pairs.negative)
    exists = (count(pairs.positive) > 0) & (count(pairs.negative) > 0)
    return ops.where(exists, ops.maximum(to_negatives - to_positives + margin, 0.0), 0.0)


def _soft_mean(values, logits, weights):
    """Mean of each row with weights w exp(logit), constant in the gradient; 0 where all weights are 0."""
    logits = ops.stop_gradient(logits)
    total = log_sum_exp(logits, weights)[:, None]
    share = weights * ops.exp(ops.where(weights > 0, logits - total, -float("inf")))
    return ops.sum(share * values, axis=1)


@serializable
class HAP2SLoss(PairLoss):
    """Hard-aware point-to-set loss: see `tfdml.losses.hap2s` for the formula and its source.

    Also called: HAP2S_E.

    See also: `BatchHardTripletLoss`, its limit for a small temperature. `RobustLoss` with `GroupedKL`, the same weights
    on other losses.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.HAP2SLoss(margin=0.2, temperature=0.5)
        >>> round(float(loss(labels, embeddings)), 4)
        0.1333

    Args:
        margin: how much more similar the positives must be, 0 or more.
        temperature: above 0.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, *, margin: float = 0.2, temperature: float = 0.5, **options: Unpack[PairOptions]) -> None:
        require(margin >= 0, f"margin={margin}", "a difference of similarities of 0 or more")
        require_positive(temperature=temperature)
        super().__init__(hap2s, margin=margin, temperature=temperature, **options)
