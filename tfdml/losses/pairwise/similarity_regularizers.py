"""Regularizers of cosine similarities: variance within positives and within negatives, and threshold consistency."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import batch_means, count
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import batch_sum, num_anchors_of_batch, share_per_term


def intra_pair_variance(pairs: Pairs, *, positive_epsilon: float = 0.01, negative_epsilon: float = 0.01) -> Tensor:
    """Values of `IntraPairVarianceLoss`, one per anchor.

    mean_ap max(0, (1 - positive_epsilon) m_p - s_ap)^2 + mean_an max(0, s_an - (1 + negative_epsilon) m_n)^2
    """
    s = cosine(pairs)
    weights = (pairs.positive, pairs.negative)
    mean_p, mean_n = ops.unstack(batch_means((s, s), weights, pairs)[0], 2)
    pull = ops.maximum((1.0 - positive_epsilon) * mean_p - s, 0.0)
    push = ops.maximum(s - (1.0 + negative_epsilon) * mean_n, 0.0)
    return _sum_of_means((ops.square(pull), ops.square(push)), weights, pairs)


def threshold_consistency(
    pairs: Pairs,
    *,
    positive_threshold: float = 0.9,
    negative_threshold: float = 0.5,
    positive_weight: float = 1.0,
    negative_weight: float = 1.0,
) -> Tensor:
    """Values of `ThresholdConsistencyLoss`, one per anchor.

    positive_weight mean_ap (positive_threshold - s_ap) + negative_weight mean_an (s_an - negative_threshold)
    """
    s = cosine(pairs)
    hard = pairs.drop(positive=s > positive_threshold, negative=s < negative_threshold)
    pull, push = positive_weight * (positive_threshold - s), negative_weight * (s - negative_threshold)
    return _sum_of_means((pull, push), (hard.positive, hard.negative), pairs)


def _sum_of_means(values, weights, pairs):
    """Values of the anchors, whose mean is the sum of the means of `values` over the weighted pairs of the batch."""
    numbers = batch_sum(ops.stack([ops.sum(count(w, pairs.counts)) for w in weights]), pairs)
    shares = ops.unstack(share_per_term(numbers, num_anchors_of_batch(pairs)), len(weights))
    return sum(share * ops.sum(w * x, axis=1) for share, w, x in zip(shares, weights, values, strict=True))


@serializable
class IntraPairVarianceLoss(PairLoss, in_blocks=True):
    """Intra-pair variance loss: positives are not much less similar than their mean, negatives not much more.

    mean_ap max(0, (1 - positive_epsilon) m_p - s_ap)^2 + mean_an max(0, s_an - (1 + negative_epsilon) m_n)^2

    m_p and m_n are the mean similarities of the positive and of the negative pairs of the batch. s is the cosine
    similarity; embeddings need not be normalized. An anchor without pairs gives 0.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.IntraPairVarianceLoss()
        >>> round(float(loss(labels, embeddings)), 4)  # 2 / 3 of (0.8 - 1.01 * 0.4)^2 * 3 / 4
        0.0784

    See also: `TupletMarginLoss`, to which the paper adds this regularizer by a `WeightedSumLoss`.

    Args:
        positive_epsilon, negative_epsilon: how far from its mean a similarity may be, relative to the mean; 0 or more.

    Source: Yu, Tao, Deep Metric Learning with Tuplet Margin Loss, ICCV 2019.
    """

    def __init__(
        self, *, positive_epsilon: float = 0.01, negative_epsilon: float = 0.01, **options: Unpack[PairOptions]
    ) -> None:
        settings = {"positive_epsilon": positive_epsilon, "negative_epsilon": negative_epsilon}
        for name, epsilon in settings.items():
            require(epsilon >= 0, f"{name}={epsilon}", "0 or more")
        super().__init__(intra_pair_variance, **settings, **options)


@serializable
class ThresholdConsistencyLoss(PairLoss, in_blocks=True):
    """Threshold-consistent margin loss: positives above one threshold and negatives below another, for all classes.

    positive_weight mean_ap (positive_threshold - s_ap) + negative_weight mean_an (s_an - negative_threshold)

    over the pairs of the batch on the wrong side: s_ap <= positive_threshold, s_an >= negative_threshold.

    s is the cosine similarity; embeddings need not be normalized. An anchor without pairs on the wrong side gives 0.

    Also called: TCM.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.ThresholdConsistencyLoss()
        >>> round(float(loss(labels, embeddings)), 4)  # (0.9 - 0.6) + (0.8 - 0.5)
        0.6

    See also: `WeightedSumLoss`, to add it to a loss that orders. `ContrastiveLoss`, thresholds without another loss.

    Args:
        positive_threshold: positives more similar than this have zero loss, in [-1, 1].
        negative_threshold: negatives less similar than this have zero loss, in [-1, 1].
        positive_weight, negative_weight: weights of the two terms, 0 or more.

    Source: Zhang, Xu, Tang, Fang, Wu, Tighe, Xing, Threshold-Consistent Margin Loss for Open-World Deep Metric
    Learning, ICLR 2024.
    """

    def __init__(
        self,
        *,
        positive_threshold: float = 0.9,
        negative_threshold: float = 0.5,
        positive_weight: float = 1.0,
        negative_weight: float = 1.0,
        **options: Unpack[PairOptions],
    ) -> None:
        thresholds = {"positive_threshold": positive_threshold, "negative_threshold": negative_threshold}
        weights = {"positive_weight": positive_weight, "negative_weight": negative_weight}
        for name, threshold in thresholds.items():
            require(-1 <= threshold <= 1, f"{name}={threshold}", "a cosine similarity in [-1, 1]")
        for name, weight in weights.items():
            require(weight >= 0, f"{name}={weight}", "0 or more")
        super().__init__(threshold_consistency, **thresholds, **weights, **options)
