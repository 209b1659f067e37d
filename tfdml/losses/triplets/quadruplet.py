"""Quadruplet loss: triplets, and positive pairs against negative pairs that do not share an anchor."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import broadcast_to_anchors, count, require_same_rows
from tfdml.losses.triplets.triplet import triplet
from tfdml.pairs import Pairs
from tfdml.pairs.base import Distance, Tensor
from tfdml.pairs.batch_reductions import require_whole_batch
from tfdml.pairs.distances import distance_function
from tfdml.pairs.positives import at, for_each_positive, put, with_gradient

# Enough for any batch; used where the batch size is unknown during tracing.
_MOST_BITS = 20


def quadruplet(
    pairs: Pairs, *, margin: float = 1.0, second_margin: float = 0.5, distance: Distance = "squared"
) -> Tensor:
    """Values of `QuadrupletLoss`, one per anchor.

    mean_apn max(0, d_ap - d_an + margin) + mean_apnm max(0, d_ap - d_nm + second_margin)
    """
    require_same_rows(pairs, "the quadruplet loss")
    require_whole_batch(
        pairs, "the quadruplet loss", "it compares the positives of an anchor with the pairs of all others"
    )
    d = distance_function(distance)(pairs)
    fixed = ops.stop_gradient(d)
    either_way = pairs.negative + ops.transpose(pairs.negative)
    shares, pairs_outside = _outside_of_the_class(pairs)

    def add(p, exists, total, gradient, number):
        weight = exists * at(p, pairs.positive)[:, 0]
        bounds = at(p, fixed)[:, 0] + second_margin
        hinges, by_bounds, by_distances = _sum_of_hinges(bounds, shares * weight, fixed, either_way)
        gradient = gradient + by_distances + put(p, by_bounds[:, None], fixed)
        return total + hinges, gradient, number + ops.sum(ops.cast(weight > 0, fixed.dtype) * pairs_outside)

    zero = ops.zeros_like(fixed[0, 0])
    in_quadruplets = pairs.drop(positive=pairs_outside[:, None] == 0)
    total, gradient, number = for_each_positive(in_quadruplets, add, (zero, ops.zeros_like(fixed), zero))
    quadruplets = with_gradient(total, gradient, d) / ops.maximum(number, 1.0)
    return triplet(pairs, margin=margin, distance=lambda _: d) + broadcast_to_anchors(quadruplets, pairs)


def _outside_of_the_class(pairs):
    """Row shares `(rows, anchors)` for sums over pairs outside of the anchor's class, and their number `(anchors,)`.

    A sum over all rows n of their pairs (n, m) and (m, n) counts each pair once per end. With a share of 1/2 per row,
    reduced by 1 for rows of the anchor's class, pairs with one end in that class cancel out. A number lost in rounding
    is 0.
    """
    rows = ops.arange(ops.shape(pairs.positive)[0])
    same_class = (pairs.positive > 0) | (rows[:, None] == rows)
    shares = 0.5 - ops.cast(ops.transpose(same_class), pairs.positive.dtype)
    per_row = count(pairs.negative) + count(ops.transpose(pairs.negative))
    number = ops.sum(per_row[:, None] * shares, axis=0)
    return shares, ops.where(number > 1e-6 * ops.sum(per_row), number, 0.0)


def _sum_of_hinges(bounds, weights, d, pair_weights):
    """sum_nma w_na g_nm max(0, b_a - d_nm), and its derivatives by the bounds and by the distances.

    With the bounds b in descending order and rank_nm the number of bounds above d_nm, the sum is

    sum_nm g_nm (sum_{a < rank_nm} w_na b_a - d_nm sum_{a < rank_nm} w_na)

    The inner sums are running sums of w b and of w along each row, read at the rank. Bounds are `(anchors,)`, weights w
    `(rows, anchors)`, distances and `pair_weights` g `(rows, rows)`.
    """
    order = ops.argsort(-bounds)
    bounds, weights = ops.take(bounds, order), ops.take(weights, order, axis=1)
    rank = _number_above(bounds, d)
    weight_above, weighted_bound_above = (_running_sums_at(rank, terms) for terms in (weights, weights * bounds))
    by_bounds = ops.sum(weights * _sums_above(pair_weights, rank), axis=0)
    return (
        ops.sum(pair_weights * (weighted_bound_above - weight_above * d)),
        ops.take(by_bounds, ops.argsort(order)),
        -pair_weights * weight_above,
    )


def _running_sums_at(rank, terms):
    """The sum of the first `rank` terms of each row."""
    return ops.take_along_axis(ops.pad(ops.cumsum(terms, axis=1), [[0, 0], [1, 0]]), rank, axis=1)


def _number_above(descending, values):
    """Number of entries of a sorted vector above each value, by binary search; memory grows with the values."""
    length = ops.shape(descending)[0]
    number = ops.zeros_like(values, dtype="int32")
    for power in reversed(range(length.bit_length() if isinstance(length, int) else _MOST_BITS)):
        further = number + 2**power
        last = ops.take(descending, ops.minimum(further, length) - 1)
        number = ops.where((further <= length) & (last > values), further, number)
    return number


def _sums_above(values, rank):
    """For each row, the sum of the values whose rank is above 0, above 1, ..., `(rows, columns)`."""
    rows, columns = ops.shape(values)[0], ops.shape(values)[1]
    slots = rank + (columns + 1) * ops.arange(rows, dtype="int32")[:, None]
    per_rank = ops.segment_sum(ops.reshape(values, (-1,)), ops.reshape(slots, (-1,)), num_segments=rows * (columns + 1))
    up_to = ops.cumsum(ops.reshape(per_rank, (rows, columns + 1))[:, :-1], axis=1)
    return ops.sum(values, axis=1, keepdims=True) - up_to


@serializable
class QuadrupletLoss(PairLoss):
    """Quadruplet loss, over all triplets (a, p, n) and all quadruplets (a, p, n, m) of a batch.

    mean_apn max(0, d_ap - d_an + margin) + mean_apnm max(0, d_ap - d_nm + second_margin)

    n and m have different classes, and neither has the class of a. A batch is compared with itself. Embeddings are not
    normalized. The weight of a quadruplet is the product of the weights of the pairs (a, p) and (n, m). A term without
    entries is 0. Time grows with A^2 K log A for up to K positives per anchor, memory with A^2. `anchors_per_block` is
    an error, because each positive pair is compared with the negative pairs of all other anchors.

    Example:

        >>> labels, embeddings = [0, 0, 1, 2], [[0.0], [0.5], [1.5], [3.5]]
        >>> loss = tfdml.losses.QuadrupletLoss(margin=4.0, second_margin=4.0)  # 5.25 / 4 + 0.25
        >>> round(float(loss(labels, embeddings)), 4)
        1.5625

    See also: `TripletLoss`, faster, if only the order of neighbors matters. The quadruplet-wise loss of Law, Thome,
    Cord (ICCV 2013) is another one: its quadruplets are any two pairs of which one is to be nearer, without classes.

    Args:
        margin: how much farther a negative of the anchor must be than its positive, above 0.
        second_margin: how much farther apart two negatives must be, in [0, margin].
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Source: Chen, Chen, Zhang, Huang, Beyond Triplet Loss: A Deep Quadruplet Network for Person Re-identification, CVPR
    2017, eq. 5, as means, with fixed margins.
    """

    def __init__(
        self,
        *,
        margin: float = 1.0,
        second_margin: float = 0.5,
        distance: Distance = "squared",
        **options: Unpack[PairOptions],
    ) -> None:
        require(margin > 0, f"margin={margin}", "a distance above 0")
        require(0 <= second_margin <= margin, f"second_margin={second_margin}", f"a distance from 0 to margin={margin}")
        distance_function(distance)
        super().__init__(quadruplet, margin=margin, second_margin=second_margin, distance=distance, **options)
