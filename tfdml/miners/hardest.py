"""Miners that keep the hardest or the easiest pairs of each anchor."""

from dataclasses import dataclass

from tfdml._core.backends import ops, while_loop
from tfdml._core.checks import require_fraction, require_whole
from tfdml._core.serialization import Settings, serializable
from tfdml.pairs import Pairs, distance_function
from tfdml.pairs.base import Distance
from tfdml.pairs.blocks import require_whole_batch


def hardest_negatives_per_positive(pairs: Pairs, *, distance: Distance = "euclidean") -> Pairs:
    """Keep all positives of each anchor, and the same number of its nearest negatives.

    See also: `hardest_negatives_of_batch`, which selects over the whole batch, as the slides do.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 1, 1, 1], [[1.0], [2.0], [3.0], [4.0], [5.0]])
        >>> mined = tfdml.miners.hardest_negatives_per_positive(pairs)
        >>> np.asarray(mined.negative, int).tolist()  # two positives, two negatives
        [[0, 0, 1, 1, 0]]

    Args:
        pairs: `Pairs` of A anchors and R references.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on the other negatives. Negatives at the same distance count as one and are all kept. An
        anchor without positives keeps no negatives. No gradient flows through the selection.

    Source: Serrat, Deep Metric Learning, course slides 2021-22, hard negative pairs, per anchor.
    """
    d = ops.stop_gradient(distance_function(distance)(pairs))
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


def hardest_negatives_of_batch(
    pairs: Pairs, *, fraction: float | None = None, distance: Distance = "euclidean"
) -> Pairs:
    """Keep all positives, and the nearest negatives among those of all anchors.

    See also: `hardest_negatives_per_positive`, with which every anchor keeps negatives.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1, 2], [[0.0], [1.0], [3.0], [7.0]])
        >>> mined = tfdml.miners.hardest_negatives_of_batch(pairs)  # as many as positives, two, at distance 2
        >>> np.asarray(mined.negative, int).tolist()
        [[0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]

    Args:
        pairs: `Pairs` of A anchors and R references.
        fraction: share of the negative pairs that are kept, at least one, in (0, 1]; None for as many negatives as
            positives.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on the other negatives. Negatives at the distance of the last one are all kept. Most
        anchors may have no negatives left. Without positives and `fraction`, no negatives are kept. No gradient flows
        through the selection.

    Source: Serrat, Deep Metric Learning, course slides 2021-22, `HardNegativePairSelector`: pairs with the smallest
    distance, matching the number of positive pairs.
    """
    require_whole_batch(pairs, "hardest_negatives_of_batch", "it selects among the negatives of all anchors")
    d = ops.stop_gradient(distance_function(distance)(pairs))
    d_an = ops.reshape(ops.where(pairs.negative > 0, d, float("inf")), (-1,))
    num_wanted = ops.sum(ops.cast(pairs.positive > 0, "int32"))
    if fraction is not None:
        num_negatives = ops.sum(ops.cast(pairs.negative > 0, "float32"))
        num_wanted = ops.maximum(ops.cast(ops.round(fraction * num_negatives), "int32"), 1)
    last = ops.clip(num_wanted, 1, ops.shape(d_an)[0]) - 1
    limit = ops.where(num_wanted > 0, ops.take(ops.sort(d_an), last), -float("inf"))
    # This comparison is False for a NaN distance, so its pair is kept and the loss becomes NaN.
    return pairs.drop(negative=d > limit)


def hardest_positives(pairs: Pairs, *, distance: Distance = "euclidean") -> Pairs:
    """Keep the farthest positive of each anchor, and all negatives.

    See also: `moderate_positives` where labels are noisy; `easy_positives` for classes of several clusters.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 0, 1], [[1.0], [2.0], [5.0], [3.0]])
        >>> np.asarray(tfdml.miners.hardest_positives(pairs).positive, int).tolist()
        [[0, 0, 1, 0]]

    Args:
        pairs: `Pairs` of A anchors and R references.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on the other positives; positives at the same distance are all kept.

    Source: Hermans, Beyer, Leibe, In Defense of the Triplet Loss for Person Re-Identification, 2017, eq. 5.
    """
    d = ops.stop_gradient(distance_function(distance)(pairs))
    farthest = ops.amax(ops.where(pairs.positive > 0, d, -float("inf")), axis=1, keepdims=True)
    return pairs.drop(positive=d < farthest)


def moderate_positives(pairs: Pairs, *, distance: Distance = "euclidean") -> Pairs:
    """Keep the farthest positive of each anchor that is not farther than its nearest negative, and all negatives.

    An anchor whose positives are all farther than its nearest negative keeps its nearest positive. Positives beyond
    the nearest negative, such as other views of the example, would pull across another class.

    See also: `hardest_positives`, `easy_positives`.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 0, 1], [[1.0], [2.0], [5.0], [3.0]])
        >>> np.asarray(tfdml.miners.moderate_positives(pairs).positive, int).tolist()  # 5 is beyond the negative at 3
        [[0, 1, 0, 0]]

    Args:
        pairs: `Pairs` of A anchors and R references.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on the other positives; positives at the same distance are all kept. An anchor without
        negatives keeps its farthest positive. No gradient flows through the selection.

    Source: Shi et al., Embedding Deep Metric for Person Re-identification: A Study Against Large Variations, ECCV 2016,
    moderate positive mining.
    """
    d = ops.stop_gradient(distance_function(distance)(pairs))
    d_ap = ops.where(pairs.positive > 0, d, float("inf"))
    nearest_positive = ops.amin(d_ap, axis=1, keepdims=True)
    nearest_negative = ops.amin(ops.where(pairs.negative > 0, d, float("inf")), axis=1, keepdims=True)
    is_moderate = (pairs.positive > 0) & (d <= ops.maximum(nearest_negative, nearest_positive))
    farthest = ops.amax(ops.where(is_moderate, d, -float("inf")), axis=1, keepdims=True)
    return pairs.drop(positive=(d < farthest) | (d > farthest))  # NaN distances stay, so that divergence is seen


def easy_positives(pairs: Pairs, *, k: int = 1, distance: Distance = "euclidean") -> Pairs:
    """Keep the nearest positives of each anchor, and all negatives, so that a class may form several clusters.

    See also: `hardest_positives`, `moderate_positives`.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 0, 1], [[1.0], [2.0], [5.0], [3.0]])
        >>> np.asarray(tfdml.miners.easy_positives(pairs).positive, int).tolist()
        [[1, 0, 0, 0]]

    Args:
        pairs: `Pairs` of A anchors and R references.
        k: number of positives that an anchor keeps, all of them where there are fewer.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Returns:
        `Pairs` with weight 0 on the other positives; positives at the same distance count as one and are all kept.

    Source: Xuan, Stylianou, Pless, Improved Embeddings with Easy Positive Triplet Mining, WACV 2020, section 3.
    """
    d = ops.stop_gradient(distance_function(distance)(pairs))
    d_ap = ops.where(pairs.positive > 0, d, float("inf"))
    limit = ops.amin(d_ap, axis=1, keepdims=True)
    for _ in range(k - 1):
        farther = ops.amin(ops.where(d_ap > limit, d_ap, float("inf")), axis=1, keepdims=True)
        limit = ops.where(ops.isfinite(farther), farther, limit)
    return pairs.drop(positive=d > limit)


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

    See also: `HardestNegativesOfBatch` for the nearest of all anchors; `SemiHard` for negatives beyond a distance.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 1, 1, 1], [[1.0], [2.0], [3.0], [4.0], [5.0]])
        >>> np.asarray(tfdml.miners.HardestNegatives()(pairs).negative, int).tolist()  # two positives, two negatives
        [[0, 0, 1, 1, 0]]

    Args:
        distance: "euclidean", "squared", "cosine", "snr", or a function of `Pairs`.
    """

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return hardest_negatives_per_positive(pairs, distance=self.distance)


@serializable
@dataclass(frozen=True, kw_only=True)
class HardestNegativesOfBatch(_ByDistance):
    """All positives and the nearest negatives of all anchors: see `tfdml.miners.hardest_negatives_of_batch`.

    See also: `HardestNegatives`, with which every anchor keeps negatives.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1, 2], [[0.0], [1.0], [3.0], [7.0]])
        >>> mined = tfdml.miners.HardestNegativesOfBatch(fraction=0.4)(pairs)  # four of ten, at distances 2 and 3
        >>> np.asarray(mined.negative, int).tolist()
        [[0, 0, 1, 0], [0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]

    Args:
        fraction: share of the negative pairs that are kept, in (0, 1]; None for as many negatives as positives.
        distance: "euclidean", "squared", "cosine", "snr", or a function of `Pairs`.
    """

    fraction: float | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.fraction is not None:
            require_fraction(fraction=self.fraction)

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return hardest_negatives_of_batch(pairs, **self.get_config())


@serializable
@dataclass(frozen=True, kw_only=True)
class HardestPositives(_ByDistance):
    """The farthest positive of each anchor: see `tfdml.miners.hardest_positives`.

    See also: `ModeratePositives` where labels are noisy; `EasyPositives` for classes of several clusters.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 0, 1], [[1.0], [2.0], [5.0], [3.0]])
        >>> np.asarray(tfdml.miners.HardestPositives()(pairs).positive, int).tolist()
        [[0, 0, 1, 0]]

    Args:
        distance: "euclidean", "squared", "cosine", "snr", or a function of `Pairs`.
    """

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return hardest_positives(pairs, distance=self.distance)


@serializable
@dataclass(frozen=True, kw_only=True)
class ModeratePositives(_ByDistance):
    """The farthest positive that is not beyond the nearest negative: see `tfdml.miners.moderate_positives`.

    See also: `HardestPositives`, `EasyPositives`.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 0, 1], [[1.0], [2.0], [5.0], [3.0]])
        >>> np.asarray(tfdml.miners.ModeratePositives()(pairs).positive, int).tolist()  # 5 is beyond the negative at 3
        [[0, 1, 0, 0]]

    Args:
        distance: "euclidean", "squared", "cosine", "snr", or a function of `Pairs`.
    """

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return moderate_positives(pairs, distance=self.distance)


@serializable
@dataclass(frozen=True, kw_only=True)
class EasyPositives(_ByDistance):
    """The nearest positives of each anchor: see `tfdml.miners.easy_positives`.

    See also: `HardestPositives`, `ModeratePositives`.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 0, 1], [[1.0], [2.0], [5.0], [3.0]])
        >>> np.asarray(tfdml.miners.EasyPositives(k=2)(pairs).positive, int).tolist()
        [[1, 1, 0, 0]]

    Args:
        k: number of positives that an anchor keeps, 1 or more.
        distance: "euclidean", "squared", "cosine", "snr", or a function of `Pairs`.
    """

    k: int = 1

    def __post_init__(self):
        super().__post_init__()
        require_whole("k", self.k, 1)

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        return easy_positives(pairs, **self.get_config())
