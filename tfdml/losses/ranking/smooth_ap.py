"""Smooth AP: average precision with a sigmoid in place of each step."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor
from tfdml.pairs.positives import at, for_each_positive, put, with_gradient


def smooth_ap(pairs: Pairs, *, temperature: float = 0.01) -> Tensor:
    """Values of `SmoothAPLoss`, one per anchor.

    1 - mean_p (1 + sum_{q != p} g(s_aq - s_ap)) / (1 + sum_{q != p} g(s_aq - s_ap) + sum_n g(s_an - s_ap))
    g(x) = 1 / (1 + exp(-x / temperature)), q and p positives, n negatives
    """
    s = cosine(pairs)
    fixed = ops.stop_gradient(s)

    def add(p, exists, sums, gradient):
        weight = exists[:, None] * at(p, pairs.positive)
        above = ops.sigmoid((fixed - at(p, fixed)) / temperature)  # 1/2 of p itself, which is not above itself
        rank_p = 1.0 + ops.sum(pairs.positive * above, axis=1, keepdims=True) - at(p, pairs.positive) / 2
        rank = rank_p + ops.sum(pairs.negative * above, axis=1, keepdims=True)
        scale = weight / (temperature * ops.square(rank))
        by_above = scale * (rank - rank_p) * pairs.positive - scale * rank_p * pairs.negative
        by_score = by_above * (above * (1.0 - above))
        by_own_score = -ops.sum(by_score, axis=1, keepdims=True)
        return sums + (weight * rank_p / rank)[:, 0], gradient + by_score + put(p, by_own_score, fixed)

    sums, gradient = for_each_positive(pairs, add, (ops.zeros_like(fixed[:, 0]), ops.zeros_like(fixed)))
    positives = count(pairs.positive)
    precision = with_gradient(sums, gradient, s) / ops.maximum(positives, 1.0)
    return ops.where(positives > 0, 1.0 - precision, 0.0)


@serializable
class SmoothAPLoss(PairLoss, in_blocks=True):
    """Smooth average precision: 1 minus average precision, with sigmoids for comparisons.

    1 - mean_p (1 + sum_{q != p} g(s_aq - s_ap)) / (1 + sum_{q != p} g(s_aq - s_ap) + sum_n g(s_an - s_ap))
    g(x) = 1 / (1 + exp(-x / temperature)), q and p positives, n negatives

    s is the cosine similarity; embeddings need not be normalized. An anchor without positives gives 0. Time grows with
    A R K for up to K positives per anchor, memory with A R.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.SmoothAPLoss(temperature=0.1)
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)  # the mean of 1 - 1 / rank, for ranks of 1.1195 and 1.9512
        0.2971

    See also: `PNPLoss` ignores the order of positives; `FastAPLoss` takes histograms in place of pairs of scores.

    Args:
        temperature: temperature of the sigmoid that replaces the step function, above 0.

    Source: Brown, Xie, Kalogeiton, Zisserman, Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval, ECCV
    2020, eqs. 4 to 6. Here the anchor itself is excluded from the ranking.
    """

    def __init__(self, *, temperature: float = 0.01, **options: Unpack[PairOptions]) -> None:
        require(temperature > 0, f"temperature={temperature}", "a number above 0")
        super().__init__(smooth_ap, temperature=temperature, **options)
