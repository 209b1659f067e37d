"""Miners that keep the pairs that belong to at least one informative triplet."""

import math
from dataclasses import dataclass

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import Settings, serializable
from tfdml.miners.base import ByDistance
from tfdml.pairs import Pairs, cosine, squared
from tfdml.pairs.base import Distance, in_blocks
from tfdml.pairs.batch_reductions import require_whole_batch
from tfdml.pairs.positives import at, pairs_of_triplets


@serializable
@in_blocks
@dataclass(frozen=True, kw_only=True)
class ValidTriplets(Settings):
    """Keep the pairs that belong to at least one triplet that violates a margin on similarities.

    A negative is kept if s_an > min_p s_ap - margin, a positive if s_ap < max_n s_an + margin. An anchor without
    positives or without negatives keeps no pairs.

    See also: `tfdml.losses.RAWLoss`, which mines by it.

    Example:

        >>> references = [[0.96, 0.28], [0.6, 0.8], [0.8, 0.6], [0.28, 0.96]]  # similarities 0.96, 0.6, 0.8 and 0.28
        >>> pairs = tfdml.pairs.pairs_with([0], [[1.0, 0.0]], [0, 0, 1, 1], references)
        >>> mined = tfdml.miners.ValidTriplets(margin=0.1)(pairs)  # positives below 0.9, negatives above 0.5
        >>> np.asarray(mined.positive, int).tolist(), np.asarray(mined.negative, int).tolist()
        ([[0, 1, 0, 0]], [[0, 0, 1, 0]])

    Args:
        margin: a pair counts as informative if it is easier than the hardest pair of the other sign by less than this
            cosine similarity; 0.1 in both papers. A negative margin is stricter.

    Source: A Unified View of Deep Metric Learning via Gradient Analysis, section 5.1 (VTHM); Wang et al.,
    Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning, CVPR 2019, eqs. 11 and 12.
    """

    margin: float = 0.1

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        s = ops.stop_gradient(cosine(pairs))
        hardest_positive = ops.amin(ops.where(pairs.positive > 0, s, float("inf")), axis=1, keepdims=True)
        hardest_negative = ops.amax(ops.where(pairs.negative > 0, s, -float("inf")), axis=1, keepdims=True)
        # Comparisons are False for a NaN similarity, so its pair is kept and the loss becomes NaN.
        return pairs.drop(positive=s >= hardest_negative + self.margin, negative=s <= hardest_positive - self.margin)


@serializable
@dataclass(frozen=True, kw_only=True)
class TripletViolations(ByDistance):
    """Keep the pairs that belong to at least one triplet of nonzero triplet loss, d_an < d_ap + margin.

    A negative is kept if d_an < max_p d_ap + margin, a positive if d_ap > min_n d_an - margin. An anchor without
    positives or without negatives keeps no pairs.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 1, 1], [[0.1], [1.0], [1.1], [2.0]])
        >>> mined = tfdml.miners.TripletViolations(margin=0.3)(pairs)  # squared distances 0.01, 1, 1.21 and 4
        >>> np.asarray(mined.positive, int).tolist(), np.asarray(mined.negative, int).tolist()
        ([[0, 1, 0, 0]], [[0, 0, 1, 0]])

    Args:
        margin: the margin of the triplet loss, in units of the distance.

    Source: the triplets of Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, eq. 1.
    """

    margin: float = 0.2
    distance: Distance = "squared"

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = self.distances(pairs)
        farthest_positive = ops.amax(ops.where(pairs.positive > 0, d, -float("inf")), axis=1, keepdims=True)
        nearest_negative = ops.amin(ops.where(pairs.negative > 0, d, float("inf")), axis=1, keepdims=True)
        return pairs.drop(positive=d <= nearest_negative - self.margin, negative=d >= farthest_positive + self.margin)


@serializable
@dataclass(frozen=True, kw_only=True)
class Angular(Settings):
    """Keep the pairs that belong to at least one triplet with a wide angle at the negative.

    A triplet counts if |a - p| > 2 tan(angle) |n - c| for the midpoint c = (a + p) / 2 of anchor and positive. An
    anchor without positives or without negatives keeps no pairs. The references of a batch are the batch itself. Time
    grows with the number of positives per anchor, memory does not.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1, 2], [[0.0, 0.0], [2.0, 0.0], [1.0, 0.5], [1.0, 3.0]])
        >>> mined = tfdml.miners.Angular(angle_degrees=45)(pairs)  # |a - p| = 2; 2 |n - c| = 1 for row 2, 6 for row 3
        >>> np.asarray(mined.positive, int).tolist()
        [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
        >>> np.asarray(mined.negative, int).tolist()
        [[0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]

    Args:
        angle_degrees: the angle, between 0 and 90 degrees.

    Source: Wang, Zhou, Wen, Liu, Lin, Deep Metric Learning with Angular Loss, ICCV 2017, section 3.2.
    """

    angle_degrees: float = 20.0

    def __post_init__(self):
        require(0 < self.angle_degrees < 90, f"angle_degrees={self.angle_degrees}", "degrees between 0 and 90")

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        require_whole_batch(
            pairs, "angular mining", "it needs the distances of the positives of an anchor to all others"
        )
        expected = "a batch against itself (pairing=all_pairs), because positives are compared with negatives"
        require(pairs.is_self, "anchors against other references for angular mining", expected)
        d = ops.stop_gradient(squared(pairs))
        d_an = ops.where(pairs.negative > 0, d, float("inf"))
        # |n - c|^2 = (d_an + d_pn) / 2 - d_ap / 4 for squared distances d.
        bound = 2.0 / (4.0 * math.tan(math.radians(self.angle_degrees)) ** 2) + 0.5
        return pairs_of_triplets(pairs, lambda p: d_an + ops.take(d, p, axis=0) < bound * at(p, d))
