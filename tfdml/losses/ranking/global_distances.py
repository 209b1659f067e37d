"""Global loss: the means and variances of the distances of positive and of negative pairs."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import batch_means, broadcast_to_anchors
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor


def global_distances(pairs: Pairs, *, margin: float = 0.4, weight: float = 0.8) -> Tensor:
    """Values of `GlobalLoss`, one per anchor.

    var_p + var_n + weight max(0, mean_p - mean_n + margin)
    """
    d = (1.0 - cosine(pairs)) / 2.0
    signs = (pairs.positive, pairs.negative)
    means, totals = batch_means((d, d), signs, pairs)
    mean_p, mean_n = ops.unstack(means, 2)
    squares = [ops.square(d - ops.stop_gradient(mean)) for mean in (mean_p, mean_n)]  # a mean minimizes its variance
    variances = batch_means(squares, signs, pairs)[0]
    apart = ops.where(ops.amin(totals) > 0, ops.maximum(mean_p - mean_n + margin, 0.0), 0.0)
    return broadcast_to_anchors(ops.sum(variances) + weight * apart, pairs)


@serializable
class GlobalLoss(PairLoss, in_blocks=True):
    """Global loss of a batch, the same value for every anchor: narrow distributions of distances, with means apart.

    var_p + var_n + weight max(0, mean_p - mean_n + margin)

    mean and var are of the distances |x - y|^2 / 4 of unit vectors, in [0, 1], over all positive or all negative pairs
    of the batch. A batch without pairs of one sign gives the variance of the other; one without pairs gives 0.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.GlobalLoss()  # distances 0.1 of positives, 0.5, 0.2, 0.2, 0.02 of negatives
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)
        0.2457

    See also: `HistogramLoss`, which compares whole distributions. `WeightedSumLoss`, to add it to a `TripletLoss`.

    Args:
        margin: how much smaller the mean distance of positives must be, in [0, 1].
        weight: weight of the means, 0 or more.

    Source: Kumar, Carneiro, Reid, Learning Local Image Descriptors with Deep Siamese and Triplet Convolutional Networks
    by Minimizing Global Loss Functions, CVPR 2016; Harwood et al., Smart Mining for Deep Metric Learning, ICCV 2017,
    add it to a triplet loss.
    """

    def __init__(self, *, margin: float = 0.4, weight: float = 0.8, **options: Unpack[PairOptions]) -> None:
        require(0 <= margin <= 1, f"margin={margin}", "a quarter of a squared distance of unit vectors, in [0, 1]")
        require(weight >= 0, f"weight={weight}", "0 or more")
        super().__init__(global_distances, margin=margin, weight=weight, **options)
