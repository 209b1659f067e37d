"""Centroid triplets: an anchor against the center of its class, without itself, and the centers of other classes."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count, require_same_rows
from tfdml.pairs import Pairs, squared
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import batch_rows


def centroid_triplet(pairs: Pairs, *, margin: float = 0.3, hard: bool = False) -> Tensor:
    """Values of `CentroidTripletLoss`, one per anchor.

    mean_c max(0, |a - c_own|^2 - |a - c|^2 + margin)
    """
    require_same_rows(pairs, "the centroid triplet loss")
    positives = ops.cast(pairs.positive > 0, pairs.positive.dtype)
    num_positives, x = count(positives)[:, None], ops.cast(pairs.anchors, positives.dtype)
    sums = ops.matmul(positives, ops.cast(pairs.reference_embeddings, positives.dtype))
    to_own = ops.sum(ops.square(x - sums / ops.maximum(num_positives, 1.0)), axis=1, keepdims=True)
    size = ops.transpose(batch_rows(num_positives, pairs)) + 1.0  # of the class of each row
    to_classes = squared(pairs._replace(references=batch_rows((sums + x) / (num_positives + 1.0), pairs)))
    values = ops.maximum(to_own - to_classes + margin, 0.0)
    if hard:
        reduced = ops.amax(ops.where(pairs.negative > 0, values, 0.0), axis=1)
    else:
        number = ops.sum(ops.cast(pairs.negative > 0, values.dtype) / size, axis=1)
        reduced = ops.sum(pairs.negative / size * values, axis=1) / ops.where(number > 0, number, 1.0)
    return ops.where(num_positives[:, 0] > 0, reduced, 0.0)


@serializable
class CentroidTripletLoss(PairLoss, in_blocks=True):
    """Centroid triplet loss: an anchor is nearer to the center of its class than to other centers.

    mean_c max(0, |a - c_own|^2 - |a - c|^2 + margin)

    c_own is the mean of the positives of the anchor, without the anchor; the other c are the means of the classes of
    its negatives. A batch is compared with itself. Rows that are positive to each other form a class, so `match` must
    be an equivalence relation. Embeddings are not normalized. Only whether the weight of a positive is 0 matters; the
    weight of a class is the mean weight of its negatives. An anchor without a positive or a negative gives 0.

    Also called: CTL.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.CentroidTripletLoss(margin=0.3)
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)  # the mean of 0 and 0.4 - 0.34 + 0.3
        0.18

    See also: `CoupledClustersLoss`, whose center contains the anchor. `PrototypicalLoss`, a softmax over centers.

    Args:
        margin: how much nearer the center of the class must be, in squared distance; 0 or more.
        hard: only the nearest center of another class, in place of the mean over all of them.

    Source: Wieczorek, Rychalska, Dabrowski, On the Unreasonable Effectiveness of Centroids in Image Retrieval, ICONIP
    2021, centroid triplet loss. There, it is added to losses of single examples.
    """

    def __init__(self, *, margin: float = 0.3, hard: bool = False, **options: Unpack[PairOptions]) -> None:
        require(margin >= 0, f"margin={margin}", "a squared distance of 0 or more")
        super().__init__(centroid_triplet, margin=margin, hard=hard, **options)
