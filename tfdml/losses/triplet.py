"""Losses over an anchor, a positive and a negative."""

from keras import ops

from tfdml.losses.base import PairLoss, require, serializable
from tfdml.pairs import distance_function


def batch_hard_triplet(pairs, *, margin=0.2, distance="euclidean"):
    """Batch-hard triplet loss, one value per anchor: its farthest positive against its nearest negative.

    max(0, margin + max_p d_ap - min_n d_an)

    Args:
        pairs: `Pairs` of A anchors and R references, used as they are (not normalized). A weight only says whether the
            pair takes part.
        margin: how much nearer the farthest positive has to be.
        distance: "euclidean", "squared", "cosine" (1 - s), or a function of `Pairs`.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Hermans, Beyer, Leibe, In Defense of the Triplet Loss for Person Re-Identification, 2017, eq. 5.
    """
    d = distance_function(distance)(pairs)
    farthest_positive = ops.max(ops.where(pairs.positive > 0, d, -float("inf")), axis=1)
    nearest_negative = ops.min(ops.where(pairs.negative > 0, d, float("inf")), axis=1)
    return ops.maximum(margin + farthest_positive - nearest_negative, 0.0)


@serializable
class BatchHardTripletLoss(PairLoss):
    """Batch-hard triplet loss: see `tfdml.losses.batch_hard_triplet` for the formula and its source.

    Example:

        model.compile(optimizer="adam", loss=tfdml.losses.BatchHardTripletLoss(margin=0.2))

    Args:
        margin: how much nearer the farthest positive has to be than the nearest negative; 0 or more.
        distance: "euclidean", "squared", "cosine", or a function of `Pairs`.
        **options: `pairing`, `miner`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, *, margin=0.2, distance="euclidean", **options):
        require(margin >= 0, f"margin={margin}", "a distance of 0 or more")
        distance_function(distance)
        super().__init__(batch_hard_triplet, {"margin": margin, "distance": distance}, **options)
