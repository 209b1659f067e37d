"""Batch hard: the farthest positive and the nearest negative of each anchor."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_one_of
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import over_batch, require_same_rows
from tfdml.pairs import Pairs
from tfdml.pairs.base import Distance, Tensor
from tfdml.pairs.batch_reductions import BatchMean, require_whole_batch
from tfdml.pairs.distances import distance_function


@over_batch
def batch_hard_triplet(
    pairs: Pairs,
    *,
    margin: float = 0.2,
    distance: Distance = "euclidean",
    soft: bool = False,
    swap: bool = False,
    normalize: str = "all",
) -> Tensor:
    """Values of `BatchHardTripletLoss`, one per anchor.

    max(0, margin + max_p d_ap - min_n d_an)
    """
    d = distance_function(distance)(pairs)
    to_positives = ops.where(pairs.positive > 0, d, -float("inf"))
    to_negatives = ops.where(pairs.negative > 0, d, float("inf"))
    farthest_positive, nearest_negative = ops.amax(to_positives, axis=1), ops.amin(to_negatives, axis=1)
    if swap:
        require_same_rows(pairs, "swap=True")
        require_whole_batch(pairs, "swap=True", "it needs the distances of the positives of an anchor to all others")
        p, n = ops.argmax(to_positives, axis=1), ops.argmin(to_negatives, axis=1)
        from_positive = ops.take(ops.reshape(d, (-1,)), p * ops.shape(d)[1] + n)
        exists = ops.isfinite(farthest_positive) & ops.isfinite(nearest_negative)
        nearest_negative = ops.minimum(nearest_negative, ops.where(exists, from_positive, float("inf")))
    violation = farthest_positive - nearest_negative
    values = ops.softplus(violation) if soft else ops.maximum(margin + violation, 0.0)
    if normalize == "active":
        return BatchMean(values, ops.cast(values > 0, values.dtype))
    return values


@serializable
class BatchHardTripletLoss(PairLoss, in_blocks=True):
    """Batch-hard triplet loss: the farthest positive of an anchor against its nearest negative.

    max(0, margin + max_p d_ap - min_n d_an)

    With `soft`, log(1 + exp(max_p d_ap - min_n d_an)) instead. Embeddings are not normalized. Weights count as 0 or 1.
    An anchor without a positive or a negative gives 0.

    Also called: hard triplet loss, TriHard.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> loss = tfdml.losses.BatchHardTripletLoss(margin=1.0)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of 0, 1 + 0.5 - 1 and 0
        0.1667

    See also: `TripletLoss(normalize="active")` or `HAP2SLoss` for noisy labels; here one wrong label decides.

    Args:
        margin: how much nearer the farthest positive must be, in units of the distance; 0 or more, not used by `soft`.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.
        soft: the soft margin.
        swap: compare with the smaller of d_an and d_pn, n the nearest negative of a; the references must be the batch.
        normalize: "all" for the mean over all anchors, "active" for the mean over anchors with a nonzero loss.

    Source: Hermans, Beyer, Leibe, In Defense of the Triplet Loss for Person Re-Identification, 2017, eq. 5. Eq. 29 of A
    Simple and Effective Framework for Pairwise Deep Metric Learning prints the largest and smallest similarity swapped.
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        distance: Distance = "euclidean",
        soft: bool = False,
        swap: bool = False,
        normalize: str = "all",
        **options: Unpack[PairOptions],
    ) -> None:
        require(margin >= 0, f"margin={margin}", "a distance of 0 or more")
        require_one_of(("all", "active"), normalize=normalize)
        distance_function(distance)
        super().__init__(
            batch_hard_triplet, margin=margin, distance=distance, soft=soft, swap=swap, normalize=normalize, **options
        )
        self.in_blocks = self.in_blocks and not swap
