"""The objective of Xing et al.: similar pairs near each other, the sum of the distances of dissimilar ones fixed."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import batch_means, broadcast_to_anchors
from tfdml.pairs import Pairs, squared
from tfdml.pairs.base import Tensor


def xing(pairs: Pairs) -> Tensor:
    """Values of `XingLoss`, one per anchor.

    mean_p d_ap^2 - log mean_n d_an
    """
    d2 = squared(pairs)
    d = ops.sqrt(ops.maximum(d2, 1e-36))  # as `euclidean`, of the same product
    means, totals = batch_means((d2, d), (pairs.positive, pairs.negative), pairs)
    similar, dissimilar = ops.unstack(means, 2)
    return broadcast_to_anchors(similar - ops.log(ops.where(totals[1] > 0, dissimilar, 1.0)), pairs)


@serializable
class XingLoss(PairLoss, in_blocks=True):
    """The objective of Xing et al. in logarithmic form, the same value for every anchor.

    mean_p d_ap^2 - log mean_n d_an

    over all pairs of the batch, with euclidean distances. The paper minimizes sum_p d_ap^2 subject to sum_n d_an >= 1,
    over metrics (x - y)^T A (x - y) with A positive semidefinite. Scaling A by c multiplies the first sum by c and the
    second by the root of c, so that both forms have the same minimum up to the scale of A and a constant. The
    constraint on sums of d, rather than d^2, keeps the solution from always having rank 1.

    Embeddings are not normalized. The loss may be negative. A batch without pairs of one sign gives the term of the
    other; one without pairs gives 0. The logarithm of collapsed negatives is bounded, with gradient 0.

    Also called: MMC (Mahalanobis metric for clustering).

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> loss = tfdml.losses.XingLoss()  # 0.25 - log(1.25)
        >>> round(float(loss(labels, embeddings)), 4)
        0.0269

    See also: `layers.Mahalanobis`, the metric that it was made for. `LMNNLoss`, which compares neighbors only.

    Source: Xing, Ng, Jordan, Russell, Distance Metric Learning with Application to Clustering with Side-Information,
    NIPS 2002, the function g of its section on diagonal A, here for any A.
    """

    def __init__(self, **options: Unpack[PairOptions]) -> None:
        super().__init__(xing, **options)
