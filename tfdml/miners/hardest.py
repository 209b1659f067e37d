"""Miners that keep the hardest or the easiest pairs of each anchor."""

from dataclasses import dataclass

from keras import ops

from tfdml._core.serialization import Settings, serializable
from tfdml.pairs import Pairs, distance_function
from tfdml.pairs.base import Distance


def hardest_negatives_per_positive(pairs: Pairs, *, distance: Distance = "euclidean") -> Pairs:
    """Keep all positives of each anchor, and the same number of its nearest negatives.

    Args:
        pairs: `Pairs` of A anchors and R references.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on the other negatives. Negatives at the same distance count as one and are all kept. An
        anchor without positives keeps no negatives. No gradient flows through the selection.

    Source: Serrat, Deep Metric Learning, course slides 2021-22, hard negative pairs; the slides select over the whole
    batch, which can leave most anchors without negatives.
    """
    d = ops.stop_gradient(distance_function(distance)(pairs))
    d_an = ops.where(pairs.negative > 0, d, float("inf"))
    num_wanted = ops.sum(ops.cast(pairs.positive > 0, "int32"), axis=1, keepdims=True)
    most = ops.max(num_wanted)

    def next_nearest(count, limit):
        farther = ops.min(ops.where(d_an > limit, d_an, float("inf")), axis=1, keepdims=True)
        return count + 1, ops.where(count < num_wanted, farther, limit)

    start = ops.full_like(d[:, :1], -float("inf"))
    _, limit = ops.while_loop(lambda count, limit: count < most, next_nearest, (ops.zeros_like(most), start))
    # This comparison is False for a NaN distance, so its pair is kept and the loss becomes NaN.
    return pairs.drop(negative=d_an > limit)


def hardest_positives(pairs: Pairs, *, distance: Distance = "euclidean") -> Pairs:
    """Keep the farthest positive of each anchor, and all negatives.

    Args:
        pairs: `Pairs` of A anchors and R references.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on the other positives; positives at the same distance are all kept.

    Source: Hermans, Beyer, Leibe, In Defense of the Triplet Loss for Person Re-Identification, 2017, eq. 5.
    """
    d = ops.stop_gradient(distance_function(distance)(pairs))
    farthest = ops.max(ops.where(pairs.positive > 0, d, -float("inf")), axis=1, keepdims=True)
    return pairs.drop(positive=d < farthest)


def easy_positives(pairs: Pairs, *, distance: Distance = "euclidean") -> Pairs:
    """Keep the nearest positive of each anchor, and all negatives, so that a class may form several clusters.

    Args:
        pairs: `Pairs` of A anchors and R references.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on the other positives; positives at the same distance are all kept.

    Source: Xuan, Stylianou, Pless, Improved Embeddings with Easy Positive Triplet Mining, WACV 2020, section 3.
    """
    d = ops.stop_gradient(distance_function(distance)(pairs))
    nearest = ops.min(ops.where(pairs.positive > 0, d, float("inf")), axis=1, keepdims=True)
    return pairs.drop(positive=d > nearest)


@dataclass(frozen=True, kw_only=True)
class _ByDistance(Settings):
    """Base class: the distance option."""

    distance: Distance = "euclidean"

    def __post_init__(self):
        distance_function(self.distance)


@serializable
@dataclass(frozen=True, kw_only=True)
class HardestNegatives(_ByDistance):
    """All positives and the same number of nearest negatives: see `tfdml.miners.hardest_negatives_per_positive`.

    Args:
        distance: "euclidean", "squared", "cosine", "snr", or a function of `Pairs`.
    """

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return hardest_negatives_per_positive(pairs, distance=self.distance)


@serializable
@dataclass(frozen=True, kw_only=True)
class HardestPositives(_ByDistance):
    """The farthest positive of each anchor: see `tfdml.miners.hardest_positives`.

    Args:
        distance: "euclidean", "squared", "cosine", "snr", or a function of `Pairs`.
    """

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return hardest_positives(pairs, distance=self.distance)


@serializable
@dataclass(frozen=True, kw_only=True)
class EasyPositives(_ByDistance):
    """The nearest positive of each anchor: see `tfdml.miners.easy_positives`.

    Args:
        distance: "euclidean", "squared", "cosine", "snr", or a function of `Pairs`.
    """

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return easy_positives(pairs, distance=self.distance)
