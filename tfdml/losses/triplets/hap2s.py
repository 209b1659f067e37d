"""Point-to-set loss: weighted means of each anchor's distances to positives and to negatives."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_one_of, require_positive
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count, log_sum_exp
from tfdml.pairs import Pairs
from tfdml.pairs.base import Distance, Tensor
from tfdml.pairs.distances import distance_function


def hap2s(
    pairs: Pairs,
    *,
    margin: float = 0.2,
    temperature: float = 0.5,
    weighting: str = "exponential",
    alpha: float = 10.0,
    distance: Distance = "cosine",
) -> Tensor:
    """Values of `HAP2SLoss`, one per anchor.

    max(0, D_p - D_n + margin),  D_p = sum_p q_p d_ap / sum_p q_p,  D_n = sum_n q_n d_an / sum_n q_n
    exponential: q_p = exp(d_ap / temperature),  q_n = exp(-d_an / temperature)
    polynomial: q_p = (1 + d_ap)^alpha,  q_n = (1 + d_an)^(-2 alpha)
    """
    d = distance_function(distance)(pairs)
    if weighting == "polynomial":
        hardness = alpha * ops.log1p(ops.maximum(d, 0.0))
        to_positives, to_negatives = hardness, -2.0 * hardness
    else:
        to_positives, to_negatives = d / temperature, -d / temperature
    violation = _soft_mean(d, to_positives, pairs.positive) - _soft_mean(d, to_negatives, pairs.negative)
    exists = (count(pairs.positive) > 0) & (count(pairs.negative) > 0)
    return ops.where(exists, ops.maximum(violation + margin, 0.0), 0.0)


def _soft_mean(values, logits, weights):
    """Mean of each row with weights w exp(logit), constant in the gradient; 0 where all weights are 0."""
    logits = ops.stop_gradient(logits)
    total = log_sum_exp(logits, weights)[:, None]
    share = weights * ops.exp(ops.where(weights > 0, logits - total, -float("inf")))
    return ops.sum(share * values, axis=1)


@serializable
class HAP2SLoss(PairLoss, in_blocks=True):
    """Hard-aware point-to-set loss.

    max(0, D_p - D_n + margin),  D_p = sum_p q_p d_ap / sum_p q_p,  D_n = sum_n q_n d_an / sum_n q_n
    exponential: q_p = exp(d_ap / temperature),  q_n = exp(-d_an / temperature)
    polynomial: q_p = (1 + d_ap)^alpha,  q_n = (1 + d_an)^(-2 alpha)

    The weights q are constants in the gradient. The cosine distance scales embeddings to norm 1; other distances use
    them as they are. An anchor without a positive or a negative gives 0.

    Also called: HAP2S_E, with exponential weights; HAP2S_P, with polynomial weights.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.HAP2SLoss(margin=0.2, temperature=0.5)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of 0, 0.8 - 0.6 + 0.2 and 0
        0.1333

    See also: `BatchHardTripletLoss`, its limit for a small temperature.

    Args:
        margin: how much nearer the positives must be, 0 or more.
        temperature: of exponential weights, above 0: small values emphasize the hardest pairs.
        weighting: "exponential" or "polynomial".
        alpha: degree of polynomial weights, above 0: large values emphasize the hardest pairs.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Source: Yu et al., Hard-Aware Point-to-Set Deep Metric for Person Re-Identification, ECCV 2018, with euclidean
    distances; on similarities, A Simple and Effective Framework for Pairwise Deep Metric Learning, eqs. 30 to 32.
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        temperature: float = 0.5,
        weighting: str = "exponential",
        alpha: float = 10.0,
        distance: Distance = "cosine",
        **options: Unpack[PairOptions],
    ) -> None:
        require(margin >= 0, f"margin={margin}", "a distance of 0 or more")
        require_positive(temperature=temperature, alpha=alpha)
        require_one_of(("exponential", "polynomial"), weighting=weighting)
        distance_function(distance)
        settings = {"margin": margin, "temperature": temperature, "weighting": weighting, "alpha": alpha}
        super().__init__(hap2s, distance=distance, **settings, **options)
