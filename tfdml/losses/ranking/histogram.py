"""Losses over histograms of similarities: the histogram loss, and average precision by histogram binning (FastAP)."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.ranking.soft_histograms import soft_histograms
from tfdml.losses.reductions import broadcast_to_anchors
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import batch_sum


def histogram(pairs: Pairs, *, bins: int = 200) -> Tensor:
    """Values of `HistogramLoss`, one per anchor.

    sum_r h_n[r] sum_{q <= r} h_p[q]
    """
    s = cosine(pairs)
    counts = ops.sum(soft_histograms(s, [pairs.positive, pairs.negative], bins, -1.0, 1.0), axis=0)
    counts = batch_sum(counts, pairs, has_gradient=True)
    totals = ops.sum(ops.stop_gradient(counts), axis=1, keepdims=True)
    shares = counts / ops.maximum(totals, 1e-30)
    positive_histogram, negative_histogram = ops.unstack(shares, 2)
    return broadcast_to_anchors(ops.sum(negative_histogram * ops.cumsum(positive_histogram)), pairs)


def fast_ap(pairs: Pairs, *, bins: int = 10) -> Tensor:
    """Values of `FastAPLoss`, one per anchor.

    1 - (1 / N_p) sum_j H_p[j] h_p[j] / H[j]
    """
    d = 2.0 - 2.0 * cosine(pairs)
    h_p, h_n = ops.unstack(soft_histograms(d, [pairs.positive, pairs.negative], bins, 0.0, 4.0), 2, axis=1)
    cumulative_p, cumulative = ops.cumsum(h_p, axis=1), ops.cumsum(h_p + h_n, axis=1)
    positives = ops.sum(pairs.positive, axis=1)
    precision = cumulative_p / ops.where(cumulative > 0, cumulative, 1.0)
    average = ops.sum(h_p * precision, axis=1) / ops.where(positives > 0, positives, 1.0)
    return ops.where(positives > 0, 1.0 - average, 0.0)


@serializable
class HistogramLoss(PairLoss, in_blocks=True):
    """Histogram loss: the probability that a random negative pair is more similar than a random positive pair.

    sum_r h_n[r] sum_{q <= r} h_p[q]

    h_p and h_n are histograms of the similarities of all positive and all negative pairs of the batch, with linear
    interpolation between the nodes. Embeddings need not be normalized. The value is the same for every anchor, and 0
    where the batch has no positive or no negative pair.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.HistogramLoss(bins=10)
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)  # one of four negatives is above 0.8
        0.25

    See also: `FastAPLoss`, whose histograms are per anchor.

    Args:
        bins: number of intervals between cosine similarities -1 and 1, at least 1; 200 intervals have a width of 0.01.

    Source: Ustinova, Lempitsky, Learning Deep Embeddings with Histogram Loss, NIPS 2016, eqs. 1 to 4.
    """

    def __init__(self, *, bins: int = 200, **options: Unpack[PairOptions]) -> None:
        bins = as_whole("bins", bins, 1)
        super().__init__(histogram, bins=bins, **options)


@serializable
class FastAPLoss(PairLoss, in_blocks=True):
    """FastAP: 1 minus average precision, computed from a histogram of distances.

    1 - (1 / N_p) sum_j H_p[j] h_p[j] / H[j]

    h_p and h are histograms of the squared distances of normalized embeddings to positives and to all references, with
    linear interpolation between nodes; H_p and H are their cumulative sums. An anchor without positives gives 0.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.FastAPLoss()  # 1 - 1 / 2 for the two anchors whose nearest reference is negative
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)
        0.25

    See also: `SmoothAPLoss` is exact up to its temperature.

    Args:
        bins: number of intervals between squared distances 0 and 4, at least 1.

    Source: Cakir, He, Xia, Kulis, Sclaroff, Deep Metric Learning to Rank, CVPR 2019, eqs. 6 to 8.
    """

    def __init__(self, *, bins: int = 10, **options: Unpack[PairOptions]) -> None:
        bins = as_whole("bins", bins, 1)
        super().__init__(fast_ap, bins=bins, **options)
