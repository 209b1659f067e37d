"""Miners that keep the pairs which stand in some triplet worth learning from."""

import math
from dataclasses import dataclass

from keras import ops

from tfdml._serialization import Settings, serializable
from tfdml.pairs import Pairs, cosine, distance_function, squared
from tfdml.pairs.base import Distance
from tfdml.pairs.positives import at, pairs_of_triplets


def valid_triplets(pairs: Pairs, *, margin: float = 0.1) -> Pairs:
    """Keep the pairs that stand in some triplet which violates the margin.

    A negative stays where s_an > min_p s_ap - margin; a positive stays where s_ap < max_n s_an + margin.

    Args:
        pairs: `Pairs` of A anchors and R references; cosine similarity.
        margin: how far inside the hardest pair of the other sign a pair still counts as informative.

    Returns:
        `Pairs` with weight 0 on all others. An anchor without positives or without negatives keeps nothing. No
        gradient flows through the choice.

    Source: A Unified View of Deep Metric Learning via Gradient Analysis, section 5.1 (VTHM); Wang et al.,
    Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning, CVPR 2019, eqs. 11 and 12.
    """
    s = ops.stop_gradient(cosine(pairs))
    hardest_positive = ops.min(ops.where(pairs.positive > 0, s, float("inf")), axis=1, keepdims=True)
    hardest_negative = ops.max(ops.where(pairs.negative > 0, s, -float("inf")), axis=1, keepdims=True)
    return pairs._replace(
        # Written as what is dropped, so that a similarity that is NaN stays and shows in the loss.
        positive=ops.where(s >= hardest_negative + margin, 0.0, pairs.positive),
        negative=ops.where(s <= hardest_positive - margin, 0.0, pairs.negative),
    )


def triplet_violations(pairs: Pairs, *, margin: float = 0.2, distance: Distance = "squared") -> Pairs:
    """Keep the pairs that stand in some triplet that the triplet loss would punish, d_an < d_ap + margin.

    A negative stays where d_an < max_p d_ap + margin; a positive stays where d_ap > min_n d_an - margin.

    Args:
        pairs: `Pairs` of A anchors and R references.
        margin: that of the triplet loss, in units of the distance.
        distance: "euclidean", "squared", "cosine" (1 - s), or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on all others. An anchor without positives or without negatives keeps nothing. No
        gradient flows through the choice.

    Source: the triplets of Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, eq. 1.
    """
    d = ops.stop_gradient(distance_function(distance)(pairs))
    farthest_positive = ops.max(ops.where(pairs.positive > 0, d, -float("inf")), axis=1, keepdims=True)
    nearest_negative = ops.min(ops.where(pairs.negative > 0, d, float("inf")), axis=1, keepdims=True)
    return pairs._replace(
        positive=ops.where(d <= nearest_negative - margin, 0.0, pairs.positive),
        negative=ops.where(d >= farthest_positive + margin, 0.0, pairs.negative),
    )


def angular(pairs: Pairs, *, angle: float = 20.0) -> Pairs:
    """Keep the pairs that stand in some triplet whose angle at the negative is too wide.

    A triplet counts where |a - p| > 2 tan(angle) |n - c| for the middle c = (a + p) / 2 of anchor and positive.

    Args:
        pairs: `Pairs` of a batch against itself (`all_pairs`): positives are compared with negatives.
        angle: in degrees, between 0 and 90.

    Returns:
        `Pairs` with weight 0 on all others. An anchor without positives or without negatives keeps nothing. No
        gradient flows through the choice. Time grows with the number of positives of an anchor, memory does not.

    Raises:
        ValueError: anchors against other references.

    Source: Wang, Zhou, Wen, Liu, Lin, Deep Metric Learning with Angular Loss, ICCV 2017, section 3.2.
    """
    if not pairs.within:
        raise ValueError(
            "Received anchors against other references for angular mining, expected a batch against itself "
            "(pairing=all_pairs): positives are compared with negatives there."
        )
    d = ops.stop_gradient(squared(pairs))
    d_an = ops.where(pairs.negative > 0, d, float("inf"))
    # |n - c|^2 = (d_an + d_pn) / 2 - d_ap / 4 for squared distances d.
    widest = 2.0 / (4.0 * math.tan(math.radians(angle)) ** 2) + 0.5
    return pairs_of_triplets(pairs, lambda p: d_an + ops.take(d, p, axis=0) < widest * at(p, d))


@serializable
@dataclass(frozen=True)
class ValidTriplets(Settings):
    """Valid-triplet mining as an object to hand to a loss: see `tfdml.miners.valid_triplets`.

    Args:
        margin: 0.1 in both papers; a negative margin is stricter.
    """

    margin: float = 0.1

    def __post_init__(self):
        if not math.isfinite(self.margin):
            raise ValueError(f"Received margin={self.margin}, expected a finite difference of cosine similarities.")

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return valid_triplets(pairs, margin=self.margin)


@serializable
@dataclass(frozen=True)
class TripletViolations(Settings):
    """Pairs of triplets that violate a margin: see `tfdml.miners.triplet_violations`.

    Args:
        margin: that of the triplet loss, in units of the distance.
        distance: "euclidean", "squared", "cosine", or a function of `Pairs`.
    """

    margin: float = 0.2
    distance: Distance = "squared"

    def __post_init__(self):
        distance_function(self.distance)
        if not math.isfinite(self.margin):
            raise ValueError(f"Received margin={self.margin}, expected a finite difference of distances.")

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return triplet_violations(pairs, margin=self.margin, distance=self.distance)


@serializable
@dataclass(frozen=True)
class Angular(Settings):
    """Pairs of triplets with a wide angle at the negative: see `tfdml.miners.angular`.

    Args:
        angle: in degrees, between 0 and 90.
    """

    angle: float = 20.0

    def __post_init__(self):
        if not 0 < self.angle < 90:
            raise ValueError(f"Received angle={self.angle}, expected degrees between 0 and 90.")

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return angular(pairs, angle=self.angle)
