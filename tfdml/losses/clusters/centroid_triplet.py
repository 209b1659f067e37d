"""Centroid triplets: an anchor against the center of its class, without itself, and the centers of other classes."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count, require_same_rows
from tfdml.pairs import Pairs, squared
from tfdml.pairs.base import Tensor
from tfdml.pairs.blocks import batch_rows


def centroid_triplet(pairs: Pairs, *, margin: float = 0.3, hard: bool = False) -> Tensor:
    """Centroid triplet loss, one value per anchor: nearer to the center of its class than to those of other classes.

    mean_c max(0, |a - c_own|^2 - |a - c|^2 + margin)

    c_own is the mean of the positives of the anchor, without the anchor. The other c are the means of the classes of
    its negatives, in the batch.

    See also: `CentroidTripletLoss`, the Keras loss of this function.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1, 1], [[0.0], [2.0], [3.0], [7.0]])
        >>> values = tfdml.losses.centroid_triplet(pairs, margin=0.3)  # row 2: (3 - 7)^2 - (3 - 1)^2 + 0.3
        >>> np.asarray(values, float).round(4).tolist()
        [0.0, 0.0, 12.3, 0.0]

    Args:
        pairs: `Pairs` of a batch with itself, used as they are (not normalized). Rows that are positive to each other
            form a class, so `match` must be an equivalence relation. Only whether the weight of a positive is 0
            matters; the weight of a class is the mean weight of its negatives.
        margin: how much nearer the center of the class must be, in squared distance.
        hard: only the nearest center of another class, in place of the mean over all of them.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Wieczorek, Rychalska, Dabrowski, On the Unreasonable Effectiveness of Centroids in Image Retrieval, ICONIP
    2021, centroid triplet loss. There, it is added to losses of single examples.
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
class CentroidTripletLoss(PairLoss):
    """Centroid triplet loss: see `tfdml.losses.centroid_triplet` for the formula and its source.

    Also called: CTL.

    See also: `CoupledClustersLoss`, whose center contains the anchor. `PrototypicalLoss`, a softmax over centers.
    `TripletLoss`, single examples. `WeightedSumLoss`, to add them.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.CentroidTripletLoss(margin=0.3)
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)
        0.18

    Args:
        margin: how much nearer the center of the class must be, in squared distance; 0 or more.
        hard: only the nearest center of another class.
        **options: `pairing`, `miner`, `importance`, `match`, `anchors_per_block`, `name`, `reduction`, `dtype` of
            `PairLoss`.
    """

    def __init__(self, *, margin: float = 0.3, hard: bool = False, **options: Unpack[PairOptions]) -> None:
        require(margin >= 0, f"margin={margin}", "a squared distance of 0 or more")
        super().__init__(centroid_triplet, margin=margin, hard=hard, **options)
