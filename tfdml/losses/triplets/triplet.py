"""Losses over an anchor, a positive and a negative."""

from typing import Unpack

from tfdml._core.backends import add_at, ops, row_dots, scatter
from tfdml._core.checks import require, require_one_of, require_selector_or_none
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count, over_batch, require_same_rows
from tfdml.miners.selectors import NegativeSelector
from tfdml.pairs import Pairs
from tfdml.pairs.base import Distance, Tensor
from tfdml.pairs.batch_reductions import BatchMean, require_whole_batch
from tfdml.pairs.distances import distance_function
from tfdml.pairs.positives import at, for_each_positive, with_gradient


@over_batch
def triplet(
    pairs: Pairs,
    *,
    margin: float = 0.2,
    distance: Distance = "squared",
    soft: bool = False,
    ratio: bool = False,
    swap: bool = False,
    negatives: NegativeSelector | None = None,
    normalize: str = "all",
) -> Tensor:
    """Values of `TripletLoss`, one per anchor.

    (A / N) sum_p sum_n max(0, d_ap - d_an + margin)
    """
    if swap:
        require_same_rows(pairs, "swap=True")
        require_whole_batch(pairs, "swap=True", "it needs the distances of the positives of an anchor to all others")
    d = distance_function(distance)(pairs)
    fixed = ops.stop_gradient(d)
    term = _soft if soft else _ratio(margin) if ratio else _hinge(margin)
    if negatives is None:
        add = (_all_swapped if swap else _all_triplets)(pairs, fixed, term, normalize)
    else:
        add = (_chosen_swapped if swap else _chosen_triplets)(pairs, fixed, term, normalize, negatives(pairs, fixed))
    zeros, matrix = ops.zeros_like(fixed[:, 0]), ops.zeros_like(fixed)
    if not swap:
        sums, number, gradient = for_each_positive(pairs, add, (zeros, zeros, matrix))
        return BatchMean(with_gradient(sums, gradient, d), number)
    sums, number, gradient, from_positive = for_each_positive(pairs, add, (zeros, zeros, matrix, matrix))
    sums = with_gradient(with_gradient(sums, gradient, d), from_positive, ops.transpose(d))
    return BatchMean(sums, number)


def triplet_sums(pairs: Pairs, d: Tensor, *, margin: float) -> Tensor:
    """The sum over the triplets of each anchor, `(A,)`: sum_p sum_n max(0, d_ap - d_an + margin), with gradient."""
    add = _all_triplets(pairs, ops.stop_gradient(d), _hinge(margin), "all")
    zeros = ops.zeros_like(d[:, 0])
    sums, _, gradient = for_each_positive(pairs, add, (zeros, zeros, ops.zeros_like(d)))
    return with_gradient(sums, gradient, d)


def _all_triplets(pairs, d, term, normalize):
    """The step that adds one positive per anchor with all negatives of the anchor."""

    def add(p, exists, sums, number, gradient):
        weights = exists[:, None] * at(p, pairs.positive) * pairs.negative
        total, counted, pull, push = _summed(term(at(p, d), d), weights, normalize)
        return sums + total, number + counted, add_at(gradient + push, p, pull)

    return add


def _all_swapped(pairs, d, term, normalize):
    """The same with `swap`: the row of a holds the triplets whose negative is nearer to a than to p.

    These are (a, p, n) with d_ap, and (p, a, n) with d_pa. In a tie, each end has its own triplet.
    """
    transposed = ops.transpose(d)

    def add(p, exists, sums, number, gradient, from_positive):
        weights = exists[:, None] * at(p, pairs.positive) * pairs.negative
        d_pn = ops.take(d, p, axis=0)
        anchor_weights, positive_weights = weights * ops.cast(d <= d_pn, d.dtype), weights * ops.cast(d < d_pn, d.dtype)
        total, counted, pull, push = _summed(term(at(p, d), d), anchor_weights, normalize)
        other_total, other_counted, other_pull, other_push = _summed(
            term(at(p, transposed), d), positive_weights, normalize
        )
        return (
            sums + total + other_total,
            number + counted + other_counted,
            add_at(gradient + push + other_push, p, pull),
            add_at(from_positive, p, other_pull),
        )

    return add


def _summed(terms, weights, normalize):
    """Of one positive per anchor and all negatives: loss, number of triplets, slopes by d_ap `(A, 1)` and by d_an."""
    losses, by_positive, by_negative = terms
    pull = row_dots(weights, by_positive)[:, None]
    counted = count(weights * losses if normalize == "active" else weights)
    return row_dots(weights, losses), counted, pull, weights * by_negative


def _chosen_triplets(pairs, d, term, normalize, choose):
    """The step that adds one positive per anchor with one chosen negative."""

    def add(p, exists, sums, number, gradient):
        n, exists, weights = _chosen(pairs, choose, p, exists)
        losses, by_positive, by_negative = term(at(p, d)[:, 0], at(n, d)[:, 0])
        rows = ops.arange(ops.shape(d)[0], dtype="int32")
        slopes = _scattered(rows, [p, n], [weights * by_positive, weights * by_negative], d)
        return sums + weights * losses, number + _counted(exists, losses, normalize), gradient + slopes

    return add


def _chosen_swapped(pairs, d, term, normalize, choose):
    """The same with `swap`: a triplet whose negative is nearer to p is in the row of p."""

    def add(p, exists, sums, number, gradient, from_positive):
        n, exists, weights = _chosen(pairs, choose, p, exists)
        d_an, d_pn = at(n, d)[:, 0], at(n, ops.take(d, p, axis=0))[:, 0]
        losses, by_positive, by_negative = term(at(p, d)[:, 0], ops.minimum(d_an, d_pn))
        a, nearer = ops.arange(ops.shape(d)[0], dtype="int32"), d_pn < d_an
        rows, pull, push = ops.where(nearer, p, a), weights * by_positive, weights * by_negative
        return (
            sums + ops.segment_sum(weights * losses, rows, num_segments=ops.shape(d)[0]),
            number + _counted(exists, losses, normalize),
            gradient + _scattered(rows, [p, n], [ops.where(nearer, 0.0, pull), push], d),
            from_positive + _scattered(rows, [a], [ops.where(nearer, pull, 0.0)], d),
        )

    return add


def _chosen(pairs, choose, p, exists):
    """The negative of each anchor and positive, 1.0 where there is one, and the weight of the triplet: `(A,)` each."""
    n = _one_column_per_anchor(choose(p), p)
    exists = exists * ops.cast(n >= 0, exists.dtype)
    n = ops.maximum(n, 0)
    return n, exists, exists * at(p, pairs.positive)[:, 0] * at(n, pairs.negative)[:, 0]


def _counted(exists, losses, normalize):
    return exists * ops.cast(losses > 0, exists.dtype) if normalize == "active" else exists


def _one_column_per_anchor(n, p):
    """The columns that `negatives` chose, if they are one per anchor."""
    if len(n.shape) != 1 or n.shape[0] != p.shape[0]:
        raise ValueError(
            f"Received columns of shape {tuple(n.shape)} from negatives, expected {tuple(p.shape)}: one negative "
            "for one positive of each anchor."
        )
    return n


def _scattered(rows, columns, values, matrix):
    """A matrix of the shape of `matrix` with the sums of the values at (row, column), for each array of columns."""
    indices = ops.stack([ops.tile(rows, len(columns)), ops.concatenate(columns)], axis=1)
    return scatter(indices, ops.concatenate(values), ops.shape(matrix))


def _hinge(margin):
    """max(0, d_ap - d_an + margin), and its derivatives by d_ap and by d_an."""

    def term(d_ap, d_an):
        losses = ops.relu(d_ap + margin - d_an)
        active = ops.sign(losses)
        return losses, active, -active

    return term


def _soft(d_ap, d_an):
    """log(1 + exp(d_ap - d_an)), and its derivatives by d_ap and by d_an."""
    derivative = ops.sigmoid(d_ap - d_an)
    return ops.softplus(d_ap - d_an), derivative, -derivative


def _ratio(margin):
    """max(0, 1 - d_an / (margin + d_ap)), and its derivatives by d_ap and by d_an."""

    def term(d_ap, d_an):
        ratio = d_an / (margin + d_ap)
        active = ops.cast(ratio < 1, ratio.dtype) / (margin + d_ap)
        return ops.maximum(1.0 - ratio, 0.0), active * ratio, -active

    return term


@serializable
class TripletLoss(PairLoss, in_blocks=True):
    """Triplet loss: positives nearer than negatives by a margin, over all triplets.

    (A / N) sum_p sum_n max(0, d_ap - d_an + margin)

    With `soft`, the term is log(1 + exp(d_ap - d_an)); with `ratio`, max(0, 1 - d_an / (margin + d_ap)). N is the
    number of triplets in the batch, or of triplets with a nonzero loss, so that the mean over the A anchors is the
    paper's loss. With `negatives` there is one triplet per positive that has a selected negative.

    Embeddings are not normalized; the margin of 0.2 is for embeddings of norm 1. The weight of a triplet is the product
    of the weights of its two pairs. An anchor without a positive or a negative gives 0. Time grows with A R K for up to
    K positives per anchor, memory with A R: triplets are summed one positive at a time.

    Also called: FaceNet loss, triplet margin loss; with `negatives=tfdml.miners.semi_hard_negatives`, semi-hard loss.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> loss = tfdml.losses.TripletLoss(margin=1.0)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of 0, (0.25 - 1 + 1) 3 / 2 and 0
        0.125

    See also: `BatchHardTripletLoss`, for clean labels. `QuadrupletLoss`, if one threshold must serve all classes.

    Args:
        margin: how much nearer positives must be, 0 or more; above 0 with `ratio`, not used by `soft`.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.
        soft: the soft margin.
        ratio: the ratio of distances.
        swap: max(0, d_ap - min(d_an, d_pn) + margin), measured from the end of (a, p) that is nearer to the negative,
            for whose row the triplet counts. The references must be the batch itself, with symmetric weights.
        negatives: None for all negatives, or a function that selects one per positive, such as
            `tfdml.miners.hardest_negatives`: `(pairs, d) -> choose`, where `choose(p)` takes the column of one positive
            per anchor, `(A,)`, and returns the column of the selected negative, or -1 for none.
        normalize: "all" divides by the number of triplets, "active" by the number of triplets with a nonzero loss.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, eq. 3, as the mean of eq. 1 of Hong, Park, Kim, Deep
    Metric Learning via Weighted Contrastive Loss; plain distances, Wu et al., Sampling Matters in Deep Embedding
    Learning; soft margin and mean of active triplets, Hermans, Beyer, Leibe, In Defense of the Triplet Loss, 2017;
    ratio, Serrat, Deep Metric Learning, course slides; swap, Balntas et al., Learning Local Feature Descriptors with
    Triplets and Shallow Convolutional Neural Networks, BMVC 2016.
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        distance: Distance = "squared",
        soft: bool = False,
        ratio: bool = False,
        swap: bool = False,
        negatives: NegativeSelector | None = None,
        normalize: str = "all",
        **options: Unpack[PairOptions],
    ) -> None:
        require(margin >= 0, f"margin={margin}", "a distance of 0 or more")
        require(not (ratio and margin == 0), "margin=0 with ratio=True", "a margin above 0: the ratio divides by it")
        require(not (soft and ratio), "soft=True and ratio=True", "one of the two")
        require_selector_or_none("negatives", negatives)
        require_one_of(("all", "active"), normalize=normalize)
        distance_function(distance)
        super().__init__(
            triplet,
            margin=margin,
            distance=distance,
            soft=soft,
            ratio=ratio,
            swap=swap,
            negatives=negatives,
            normalize=normalize,
            **options,
        )
        self.in_blocks = self.in_blocks and not swap
