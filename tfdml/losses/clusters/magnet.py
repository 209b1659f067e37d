"""The magnet loss: classes of several clusters, apart by a multiple of the variance within them."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_whole
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count, log_sum_exp, require_same_rows
from tfdml.pairs import Pairs, squared
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import batch_rows, batch_sum, num_anchors_of_batch

# A smaller variance comes from rounding, or from embeddings that are all equal.
_LEAST_VARIANCE = 1e-7


def magnet(pairs: Pairs, *, clusters_per_class: int = 1, margin: float = 1.0) -> Tensor:
    """Values of `MagnetLoss`, one per anchor.

    max(0, |a - c_own|^2 / (2 v) + margin + log sum_c exp(-|a - c|^2 / (2 v))),  v = sum_a |a - c_own|^2 / (A - 1)
    """
    require_same_rows(pairs, "the magnet loss")
    members = ops.cast(pairs.positive > 0, pairs.positive.dtype)
    x, size = ops.cast(pairs.anchors, members.dtype), count(members)[:, None] + 1.0  # the anchor is a member, too
    own_centers = (x + ops.matmul(members, ops.cast(pairs.reference_embeddings, members.dtype))) / size
    to_own = ops.sum(ops.square(x - own_centers), axis=1)
    degrees = ops.maximum(ops.cast(num_anchors_of_batch(pairs), x.dtype) - 1.0, 1.0)
    variance = ops.maximum(batch_sum(ops.sum(to_own), pairs, has_gradient=True) / degrees, _LEAST_VARIANCE)
    to_centers = squared(pairs._replace(anchors=x, references=batch_rows(own_centers, pairs)))
    # The center of each row stands for its cluster, so a row has the share 1 / size.
    weights = _of_other_classes(pairs, clusters_per_class).negative / ops.transpose(batch_rows(size, pairs))
    values = to_own / (2.0 * variance) + margin + log_sum_exp(-to_centers / (2.0 * variance), weights)
    compared = (count(members) > 0) & (count(weights) > 0)
    return ops.where(compared, ops.relu(values), 0.0)


def _of_other_classes(pairs, clusters_per_class):
    """The pairs without negatives of two clusters of one class."""
    if clusters_per_class == 1:
        return pairs
    anchors, references = (label // clusters_per_class for label in (pairs.anchor_labels, pairs.reference_labels))
    return pairs.drop(negative=anchors[:, None] == references)


@serializable
class MagnetLoss(PairLoss, in_blocks=True):
    """Magnet loss: an example is nearer to the center of its cluster than to clusters of other classes.

    max(0, |a - c_own|^2 / (2 v) + margin + log sum_c exp(-|a - c|^2 / (2 v))),  v = sum_a |a - c_own|^2 / (A - 1)

    Labels are clusters: cluster k of class y, of K = `clusters_per_class`, has the number y K + k. c_own is the mean of
    the rows of the anchor's cluster in the batch, with the anchor; the other c are the means of the clusters of other
    classes. Clusters of one class do not repel each other, so a class may have several modes. v is the variance of the
    A rows around their centers, at least 1e-7: only distances relative to it matter.

    A batch is compared with itself. Rows that are positive to each other form a cluster, so `match` must be an
    equivalence relation. Embeddings are not normalized. Only whether the weight of a positive is 0 matters; the weight
    of a cluster is the mean weight of its negatives. An anchor alone in its cluster gives 0, and so does a batch of one
    class.

    Example:

        >>> x = np.array([[-1.0], [1.0], [9.0], [11.0], [1.0], [3.0]])
        >>> clusters = np.array([0, 0, 1, 1, 2, 2])  # 0 and 1 are of class 0, 2 is of class 1
        >>> loss = tfdml.losses.MagnetLoss(clusters_per_class=2)
        >>> round(float(loss(clusters, x)), 4)  # the margin for the two rows at 1, between centers at 0 and 2; else 0
        0.3333

    See also: `PrototypicalLoss` is a softmax over classes. `SoftTripleLoss` has several learned centers per class.

    Args:
        clusters_per_class: number K of clusters per class, at least 1. With 1, labels are classes.
        margin: the gap alpha between clusters of different classes, in units of the exponents.

    Source: Rippel, Paluri, Dollar, Bourdev, Metric Learning with Adaptive Density Discrimination, ICLR 2016, eqs. 4 and
    5. There, K-means finds the clusters of each class, again after every epoch; docs/losses/clustering.md trains so.
    """

    def __init__(self, *, clusters_per_class: int = 1, margin: float = 1.0, **options: Unpack[PairOptions]) -> None:
        require_whole("clusters_per_class", clusters_per_class, 1)
        require(margin >= 0, f"margin={margin}", "0 or more")
        super().__init__(magnet, clusters_per_class=clusters_per_class, margin=margin, **options)
