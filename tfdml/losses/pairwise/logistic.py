"""Logistic losses: each pair is classified independently as positive or negative."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_positive
from tfdml._core.serialization import serializable
from tfdml.losses.base import IndependentPairLoss, IndependentPairOptions
from tfdml.losses.reductions import mean_over_pairs, over_pairs, softplus, weighted_mean
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Distance, Tensor
from tfdml.pairs.distances import distance_function


@over_pairs(mean_over_pairs)
def distance_logistic(pairs: Pairs, *, margin: float = 1.0, distance: Distance = "euclidean") -> Tensor:
    """Values of `DistanceLogisticLoss`, one per anchor.

    (1 / pairs) (sum_p -log P(d_ap) + sum_n -log(1 - P(d_an))),  P(d) = (1 + e^-margin) / (1 + e^(d - margin))
    """
    d = distance_function(distance)(pairs)
    is_positive = pairs.positive > 0
    at_0, log_share = ops.softplus(ops.cast(-margin, d.dtype)), ops.log(-ops.expm1(-ops.maximum(d, 1e-18)))
    return softplus(ops.where(is_positive, d - margin, margin - d)) - ops.where(is_positive, at_0, log_share)


def _mean_over_positives_plus_mean_over_negatives(losses, pairs):
    return sum(weighted_mean(losses, weights, pairs.counts) for weights in (pairs.positive, pairs.negative))


@over_pairs(_mean_over_positives_plus_mean_over_negatives)
def binomial_deviance(pairs: Pairs, *, alpha: float = 2.0, beta: float = 50.0, threshold: float = 0.5) -> Tensor:
    """Values of `BinomialDevianceLoss`, one per anchor.

    mean_p log(1 + exp(alpha (threshold - s_ap))) + mean_n log(1 + exp(beta (s_an - threshold)))
    """
    s = cosine(pairs)
    return softplus(ops.where(pairs.positive > 0, alpha * (threshold - s), beta * (s - threshold)))


@serializable
class DistanceLogisticLoss(IndependentPairLoss, in_blocks=True):
    """Distance-based logistic loss: cross-entropy of the probability that a pair is positive.

    (1 / pairs) (sum_p -log P(d_ap) + sum_n -log(1 - P(d_an))),  P(d) = (1 + e^-margin) / (1 + e^(d - margin))

    Embeddings are not normalized. An anchor without pairs gives 0. The loss of coincident negatives is infinite; it is
    capped at about 41, with gradient 0.

    Also called: DBL.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> loss = tfdml.losses.DistanceLogisticLoss(margin=1.0)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of 0.4437, 0.6563 and 0.9392; P(0.5) is 0.8515
        0.6797

    See also: `ContrastiveLoss`, with hinges at two distances.

    Args:
        margin: distance around which the probability of a match falls, above 0; P(0) = 1.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Source: Vo, Hays, Localizing and Orienting Street Views Using Overhead Imagery, ECCV 2016, eqs. 4 and 5.
    """

    def __init__(
        self, *, margin: float = 1.0, distance: Distance = "euclidean", **options: Unpack[IndependentPairOptions]
    ) -> None:
        require(margin > 0, f"margin={margin}", "a distance above 0")
        distance_function(distance)
        super().__init__(distance_logistic, margin=margin, distance=distance, **options)


@serializable
class BinomialDevianceLoss(IndependentPairLoss, in_blocks=True):
    """Binomial deviance loss.

    mean_p log(1 + exp(alpha (threshold - s_ap))) + mean_n log(1 + exp(beta (s_an - threshold)))

    s is the cosine similarity; embeddings need not be normalized. An anchor without pairs gives 0.

    Also called: deviance loss, logistic loss; the sigmoid loss of SigLIP has this form.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.BinomialDevianceLoss(alpha=2.0, beta=50.0, threshold=0.5)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of log(1 + exp(-0.2)), 15.5981 and 7.5
        7.8988

    See also: `MultiSimilarityLoss`, in which the weight of a pair also depends on the other pairs of its anchor.

    Args:
        alpha, beta: sharpness on positives and on negatives, above 0.
        threshold: cosine similarity that separates positives from negatives, in [-1, 1].

    Source: Yi, Lei, Li, Deep Metric Learning for Practical Person Re-Identification, 2014; with two sharpness
    parameters and means per anchor, A Unified View of Deep Metric Learning via Gradient Analysis, eq. 12.
    """

    def __init__(
        self,
        *,
        alpha: float = 2.0,
        beta: float = 50.0,
        threshold: float = 0.5,
        **options: Unpack[IndependentPairOptions],
    ) -> None:
        require_positive(alpha=alpha, beta=beta)
        require(-1 <= threshold <= 1, f"threshold={threshold}", "a cosine similarity in [-1, 1]")
        super().__init__(binomial_deviance, alpha=alpha, beta=beta, threshold=threshold, **options)
