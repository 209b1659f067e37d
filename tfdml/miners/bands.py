"""Miners that keep the pairs within a range of distances."""

from dataclasses import dataclass

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.miners.base import ByDistance
from tfdml.pairs import Pairs
from tfdml.pairs.positives import at, for_each_positive, nearest, pairs_of_triplets, put
from tfdml.pairs.sampling import num_positives, with_sampled_negatives


@serializable
@dataclass(frozen=True, kw_only=True)
class PairMargin(ByDistance):
    """Keep the positives beyond one margin and the negatives within another.

    See also: `ValidTriplets`, whose limits follow from the other pairs of the anchor.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 1, 1], [[0.1], [0.5], [0.6], [0.9]])
        >>> mined = tfdml.miners.PairMargin(positive_margin=0.2, negative_margin=0.8)(pairs)
        >>> np.asarray(mined.positive, int).tolist(), np.asarray(mined.negative, int).tolist()
        ([[0, 1, 0, 0]], [[0, 0, 1, 0]])

    Args:
        positive_margin: drop positives up to this distance; 0 or more.
        negative_margin: drop negatives at or beyond this distance; above 0.
    """

    positive_margin: float = 0.2
    negative_margin: float = 0.8

    def __post_init__(self):
        super().__post_init__()
        require(self.positive_margin >= 0, f"positive_margin={self.positive_margin}", "a distance of 0 or more")
        require(self.negative_margin > 0, f"negative_margin={self.negative_margin}", "a distance above 0")

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = self.distances(pairs)
        return pairs.drop(positive=d <= self.positive_margin, negative=d >= self.negative_margin)


@serializable
@dataclass(frozen=True, kw_only=True)
class SemiHard(ByDistance):
    """Keep the negatives just beyond a distance: hard, but not the hardest.

    Without a margin, the weight and the count of a negative become the number of positives that select it, and ties
    share the weight. An anchor without such a negative keeps no negatives.

    See also: `SemiHardNegatives` for `TripletLoss(negatives=...)`.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 1, 1, 1], [[0.7], [0.4], [0.6], [0.9]])
        >>> np.asarray(tfdml.miners.SemiHard()(pairs).negative, int).tolist()  # the nearest beyond 0.5
        [[0, 0, 1, 0]]
        >>> np.asarray(tfdml.miners.SemiHard(margin=0.5)(pairs).negative, int).tolist()  # all from 0.5 to 1
        [[0, 0, 1, 1]]

    Args:
        min_distance: the distance that a negative must exceed: a number, 0 or more, or "positive" for the distance of
            each positive of the anchor in turn.
        margin: None for the nearest negative beyond `min_distance`, once per positive of the anchor; or the width of a
            band, above 0, for all negatives with min_distance < d_an < min_distance + margin, with their weights. With
            "positive" and a width, the miner also drops positives without such a negative.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2. The nearest beyond 0.5 for losses over
    pairs: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 5.1.
    """

    min_distance: float | str = 0.5
    margin: float | None = None

    def __post_init__(self):
        super().__post_init__()
        start = self.min_distance
        is_distance = isinstance(start, (int, float)) and start >= 0
        expected = 'a distance of 0 or more, or "positive"'
        require(is_distance or start == "positive", f"min_distance={start!r}", expected)
        require(self.margin is None or self.margin > 0, f"margin={self.margin}", "a distance above 0, or None")

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d, start, margin = self.distances(pairs), self.min_distance, self.margin
        if isinstance(start, str):
            return _nearest_beyond_positives(pairs, d) if margin is None else _bands_beyond_positives(pairs, d, margin)
        if margin is None:
            return _nearest_beyond(pairs, d, start)
        return pairs.drop(negative=ops.logical_not((d > start) & (d < start + margin)))


def _nearest_beyond(pairs, d, min_distance):
    """The nearest negative of each anchor beyond a distance, once per positive; ties share the weight."""
    is_beyond = (pairs.negative > 0) & (d > min_distance)
    smallest = ops.amin(ops.where(is_beyond, d, float("inf")), axis=1, keepdims=True)
    is_nearest = ops.cast(is_beyond & (d == smallest), d.dtype)
    num_tied = ops.maximum(ops.sum(is_nearest, axis=1, keepdims=True), 1.0)
    return with_sampled_negatives(pairs, is_nearest * num_positives(pairs) / num_tied)


def _nearest_beyond_positives(pairs, d):
    """For each positive, the nearest negative that is farther than the positive."""
    d_an = ops.where(pairs.negative > 0, d, float("inf"))

    def add(p, is_valid, counts):
        return (counts + put(nearest(d_an, d_an > at(p, d)), is_valid[:, None], d),)

    (counts,) = for_each_positive(pairs, add, (ops.zeros_like(d),))
    return with_sampled_negatives(pairs, counts)


def _bands_beyond_positives(pairs, d, margin):
    """The pairs of all triplets with d_ap < d_an < d_ap + margin."""
    d_an = ops.where(pairs.negative > 0, d, float("inf"))

    def in_band(p):
        d_ap = at(p, d)
        return (d_an > d_ap) & (d_an < d_ap + margin)

    return pairs_of_triplets(pairs, in_band)
