"""Miners that keep the pairs whose distance lies within limits."""

from dataclasses import dataclass

from keras import ops

from tfdml._serialization import Settings, serializable
from tfdml.pairs import Pairs, distance_function
from tfdml.pairs.base import Distance
from tfdml.pairs.positives import at, for_each_positive, nearest, pairs_of_triplets, put
from tfdml.pairs.sampling import num_positives, with_sampled_negatives


def pair_margin(
    pairs: Pairs, *, positive_margin: float = 0.2, negative_margin: float = 0.8, distance: Distance = "euclidean"
) -> Pairs:
    """Keep the positives farther than one margin and the negatives nearer than another.

    Args:
        pairs: `Pairs` of A anchors and R references.
        positive_margin: distance up to which a positive is near enough.
        negative_margin: distance from which on a negative is far enough.
        distance: "euclidean", "squared", "cosine" (1 - s), or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on all others. No gradient flows through the choice.
    """
    d = ops.stop_gradient(distance_function(distance)(pairs))
    return pairs._replace(
        positive=ops.where(d <= positive_margin, 0.0, pairs.positive),
        negative=ops.where(d >= negative_margin, 0.0, pairs.negative),
    )


def semi_hard(
    pairs: Pairs, *, lower: float | str = 0.5, margin: float | None = None, distance: Distance = "euclidean"
) -> Pairs:
    """Keep the negatives that are just beyond a distance: hard, but not the hardest.

    Args:
        pairs: `Pairs` of A anchors and R references.
        lower: the distance that a negative has to be beyond: a number, or "positive" for that of each positive of the
            anchor in turn.
        margin: None for the nearest negative beyond `lower`, once for every positive of the anchor; or a width, for all
            negatives with lower < d_an < lower + margin, whose weights stay. With "positive" and a width, positives
            without such a negative are left out, too.
        distance: "euclidean", "squared", "cosine" (1 - s), or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on all others. Without a margin the weight of a negative is multiplied by the number of
        positives that it was chosen for, as are its `counts`. An anchor without such a negative keeps none. No gradient
        flows through the choice.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2. The nearest beyond 0.5 for losses over
    pairs: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 5.1.
    """
    d = ops.stop_gradient(distance_function(distance)(pairs))
    if isinstance(lower, str):
        return _nearest_beyond_positives(pairs, d) if margin is None else _bands_beyond_positives(pairs, d, margin)
    beyond = (pairs.negative > 0) & (d > lower)
    if margin is not None:
        return pairs._replace(negative=ops.where(beyond & (d < lower + margin), pairs.negative, 0.0))
    nearest = ops.min(ops.where(beyond, d, float("inf")), axis=1, keepdims=True)
    chosen = ops.cast(beyond & (d == nearest), d.dtype)
    ties = ops.maximum(ops.sum(chosen, axis=1, keepdims=True), 1.0)
    return with_sampled_negatives(pairs, chosen * num_positives(pairs) / ties)


def _nearest_beyond_positives(pairs, d):
    """Every positive draws the nearest negative that is farther than it is."""
    d_an = ops.where(pairs.negative > 0, d, float("inf"))

    def add(p, found, times):
        return (times + put(nearest(d_an, d_an > at(p, d)), found[:, None], d),)

    (times,) = for_each_positive(pairs, add, (ops.zeros_like(d),))
    return with_sampled_negatives(pairs, times)


def _bands_beyond_positives(pairs, d, margin):
    """The pairs of triplets with d_ap < d_an < d_ap + margin."""
    d_an = ops.where(pairs.negative > 0, d, float("inf"))

    def violating(p):
        d_ap = at(p, d)
        return (d_an > d_ap) & (d_an < d_ap + margin)

    return pairs_of_triplets(pairs, violating)


@serializable
@dataclass(frozen=True)
class PairMargin(Settings):
    """Positives beyond a margin and negatives within another: see `tfdml.miners.pair_margin`.

    Args:
        positive_margin: distance up to which a positive is near enough, 0 or more.
        negative_margin: distance from which on a negative is far enough, above 0.
        distance: "euclidean", "squared", "cosine", or a function of `Pairs`.
    """

    positive_margin: float = 0.2
    negative_margin: float = 0.8
    distance: Distance = "euclidean"

    def __post_init__(self):
        distance_function(self.distance)
        if not self.positive_margin >= 0:
            raise ValueError(f"Received positive_margin={self.positive_margin}, expected a distance of 0 or more.")
        if not self.negative_margin > 0:
            raise ValueError(f"Received negative_margin={self.negative_margin}, expected a distance above 0.")

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return pair_margin(
            pairs,
            positive_margin=self.positive_margin,
            negative_margin=self.negative_margin,
            distance=self.distance,
        )


@serializable
@dataclass(frozen=True)
class SemiHard(Settings):
    """Negatives just beyond a distance: see `tfdml.miners.semi_hard`.

    Example:

        loss = tfdml.losses.MarginLoss(miner=tfdml.miners.SemiHard(lower=0.5))

    Args:
        lower: a distance of 0 or more, or "positive".
        margin: None for the nearest beyond it, once for every positive; or the width of a band, above 0.
        distance: "euclidean", "squared", "cosine", or a function of `Pairs`.
    """

    lower: float | str = 0.5
    margin: float | None = None
    distance: Distance = "euclidean"

    def __post_init__(self):
        distance_function(self.distance)
        if self.lower != "positive" and not (isinstance(self.lower, (int, float)) and self.lower >= 0):
            raise ValueError(f'Received lower={self.lower!r}, expected a distance of 0 or more, or "positive".')
        if self.margin is not None and not self.margin > 0:
            raise ValueError(f"Received margin={self.margin}, expected a distance above 0, or None.")

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return semi_hard(pairs, lower=self.lower, margin=self.margin, distance=self.distance)
