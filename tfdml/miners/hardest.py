"""Miners that keep the hardest or the easiest pairs of each anchor."""

from dataclasses import dataclass

from tfdml._core.backends import ops, while_loop
from tfdml._core.checks import require_fraction, require_whole
from tfdml._core.serialization import serializable
from tfdml.miners.base import ByDistance
from tfdml.pairs import Pairs
from tfdml.pairs.batch_reductions import require_whole_batch


@serializable
@dataclass(frozen=True, kw_only=True)
class HardestNegatives(ByDistance):
    """Keep all positives of each anchor, and the same number of its nearest negatives.

    Negatives at the same distance count as one and are all kept. An anchor without positives keeps no negatives.

    See also: `SemiHard` for negatives beyond a distance; the selector `hardest_negatives` for `TripletLoss`.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 1, 1, 1], [[1.0], [2.0], [3.0], [4.0], [5.0]])
        >>> np.asarray(tfdml.miners.HardestNegatives()(pairs).negative, int).tolist()  # two positives, two negatives
        [[0, 0, 1, 1, 0]]

    Source: Serrat, Deep Metric Learning, course slides 2021-22, hard negative pairs, per anchor.
    """

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = self.distances(pairs)
        d_an = ops.where(pairs.negative > 0, d, float("inf"))
        num_wanted = ops.sum(ops.cast(pairs.positive > 0, "int32"), axis=1, keepdims=True)
        most = ops.amax(num_wanted)

        def next_nearest(count, limit):
            farther = ops.amin(ops.where(d_an > limit, d_an, float("inf")), axis=1, keepdims=True)
            return count + 1, ops.where(count < num_wanted, farther, limit)

        start = ops.full_like(d[:, :1], -float("inf"))
        _, limit = while_loop(lambda count, limit: count < most, next_nearest, (ops.zeros_like(most), start))
        # This comparison is False for a NaN distance, so its pair is kept and the loss becomes NaN.
        return pairs.drop(negative=d_an > limit)


@serializable
@dataclass(frozen=True, kw_only=True)
class HardestNegativesOfBatch(ByDistance):
    """Keep all positives, and the nearest negatives of all anchors together.

    Negatives at the distance of the last one are all kept. Most anchors may have no negatives left. Without positives
    and `fraction`, no negatives are kept.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1, 2], [[0.0], [1.0], [3.0], [7.0]])
        >>> mined = tfdml.miners.HardestNegativesOfBatch()(pairs)  # as many as positives, two, at distance 2
        >>> np.asarray(mined.negative, int).tolist()
        [[0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]

    Args:
        fraction: share of the negative pairs to keep, at least one, in (0, 1]; None for as many as positives.

    Source: Serrat, Deep Metric Learning, course slides 2021-22, `HardNegativePairSelector`: pairs with the smallest
    distance, matching the number of positive pairs.
    """

    in_blocks = False
    fraction: float | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.fraction is not None:
            require_fraction(fraction=self.fraction)

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        require_whole_batch(pairs, type(self).__name__, "it selects among the negatives of all anchors")
        d = self.distances(pairs)
        d_an = ops.reshape(ops.where(pairs.negative > 0, d, float("inf")), (-1,))
        num_wanted = self._num_wanted(pairs)
        last = ops.clip(num_wanted, 1, ops.shape(d_an)[0]) - 1
        limit = ops.where(num_wanted > 0, ops.take(ops.sort(d_an), last), -float("inf"))
        # This comparison is False for a NaN distance, so its pair is kept and the loss becomes NaN.
        return pairs.drop(negative=d > limit)

    def _num_wanted(self, pairs):
        """The number of negatives to keep, int32."""
        if self.fraction is None:
            return ops.sum(ops.cast(pairs.positive > 0, "int32"))
        num_negatives = ops.sum(ops.cast(pairs.negative > 0, "float32"))
        return ops.maximum(ops.cast(ops.round(self.fraction * num_negatives), "int32"), 1)


@serializable
@dataclass(frozen=True, kw_only=True)
class HardestPositives(ByDistance):
    """Keep the farthest positive of each anchor, and all negatives.

    Positives at the same distance are all kept.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 0, 1], [[1.0], [2.0], [5.0], [3.0]])
        >>> np.asarray(tfdml.miners.HardestPositives()(pairs).positive, int).tolist()
        [[0, 0, 1, 0]]

    Source: Hermans, Beyer, Leibe, In Defense of the Triplet Loss for Person Re-Identification, 2017, eq. 5.
    """

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = self.distances(pairs)
        farthest = ops.amax(ops.where(pairs.positive > 0, d, -float("inf")), axis=1, keepdims=True)
        return pairs.drop(positive=d < farthest)


@serializable
@dataclass(frozen=True, kw_only=True)
class ModeratePositives(ByDistance):
    """Keep the farthest positive of each anchor up to its nearest negative, or its nearest positive; all negatives.

    Positives at the same distance are all kept.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 0, 1], [[1.0], [2.0], [5.0], [3.0]])
        >>> np.asarray(tfdml.miners.ModeratePositives()(pairs).positive, int).tolist()
        [[0, 1, 0, 0]]

    Source: Shi, Yang, Zhu, Liao, Lei, Zheng, Li, Embedding Deep Metric for Person Re-Identification, ECCV 2016.
    """

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = self.distances(pairs)
        distances = (ops.where(weights > 0, d, float("inf")) for weights in (pairs.positive, pairs.negative))
        limit = ops.maximum(*(ops.amin(nearest, axis=1, keepdims=True) for nearest in distances))
        return HardestPositives(distance=self.distance)(pairs.drop(positive=d > limit))


@serializable
@dataclass(frozen=True, kw_only=True)
class EasyPositives(ByDistance):
    """Keep the nearest positives of each anchor, and all negatives, so that a class may form several clusters.

    Positives at the same distance count as one and are all kept.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 0, 1], [[1.0], [2.0], [5.0], [3.0]])
        >>> np.asarray(tfdml.miners.EasyPositives(k=2)(pairs).positive, int).tolist()
        [[1, 1, 0, 0]]

    Args:
        k: number of positives that an anchor keeps, 1 or more; all of them where there are fewer.

    Source: Xuan, Stylianou, Pless, Improved Embeddings with Easy Positive Triplet Mining, WACV 2020, section 3.
    """

    k: int = 1

    def __post_init__(self):
        super().__post_init__()
        require_whole("k", self.k, 1)

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        d = self.distances(pairs)
        d_ap = ops.where(pairs.positive > 0, d, float("inf"))
        limit = ops.amin(d_ap, axis=1, keepdims=True)
        for _ in range(self.k - 1):
            farther = ops.amin(ops.where(d_ap > limit, d_ap, float("inf")), axis=1, keepdims=True)
            limit = ops.where(ops.isfinite(farther), farther, limit)
        return pairs.drop(positive=d > limit)
