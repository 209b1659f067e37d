"""Selectors of one negative per positive, for `tfdml.losses.TripletLoss(negatives=...)`.

A selector is a function `(pairs, d) -> select` of `Pairs` and their distances `(anchors, references)`. `select(p)`
takes the column of one positive per anchor, `(anchors,)`, and returns the column of the selected negative, -1 for none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import Settings, serializable
from tfdml.layers.base import Seeded
from tfdml.miners.distance_weighted import inverse_density, on_sphere, require_limits
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor, in_blocks
from tfdml.pairs.positives import at, nearest
from tfdml.pairs.squared_distances import eps

NegativeSelector: TypeAlias = Callable[[Pairs, Tensor], Callable[[Tensor], Tensor]]


@serializable
@in_blocks
def hardest_negatives(pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
    """The nearest negative of the anchor, for all of its positives.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 1, 1], [[1.0], [3.0], [2.0], [4.0]])
        >>> select = tfdml.miners.hardest_negatives(pairs, tfdml.pairs.euclidean(pairs))
        >>> [np.asarray(select(np.array([p]))).tolist() for p in (0, 1)]  # column 2 for both positives
        [[2], [2]]
    """
    hardest = nearest(d, pairs.negative > 0)
    return lambda p: hardest


@serializable
@in_blocks
def semi_hard_negatives(pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
    """The nearest negative that is farther than the positive; the farthest negative if there is none.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 1, 1], [[1.0], [5.0], [2.0], [4.0]])
        >>> select = tfdml.miners.semi_hard_negatives(pairs, tfdml.pairs.euclidean(pairs))
        >>> np.asarray(select(np.array([0]))).tolist()  # beyond the positive at 1, the nearest is at 2
        [2]

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2; eq. of n*_ap in Wu et al., Sampling Matters
    in Deep Embedding Learning, section 3. Falling back to the farthest negative follows TensorFlow Addons.
    """
    farthest = nearest(-d, pairs.negative > 0)
    d_an = ops.where(pairs.negative > 0, d, float("inf"))
    least = _least_difference(d)

    def select(p):
        selected = nearest(d_an, d_an > at(p, d) + least)
        return ops.where(selected < 0, farthest, selected)

    return select


def _least_difference(d):
    """The most that rounding may add to a distance, so that equal rows are as far as each other, `(anchors, 1)`."""
    return 4.0 * eps(d) * ops.amax(ops.abs(ops.stop_gradient(d)), axis=1, keepdims=True)


@serializable
@in_blocks
@dataclass(frozen=True, kw_only=True)
class SemiHardNegatives(Settings):
    """The nearest negative that is farther than the positive, by less than a margin; none if there is no such negative.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 1, 1], [[1.0], [0.5], [1.1]])
        >>> select = tfdml.miners.SemiHardNegatives(margin=0.2)(pairs, tfdml.pairs.euclidean(pairs))
        >>> np.asarray(select(np.array([0]))).tolist()  # 1 < 1.1 < 1.2
        [2]

    Args:
        margin: width of the band d_ap < d_an < d_ap + margin, above 0; usually the margin of the loss. None for none.
        max_distance: another upper end of the band, d_an < max_distance, above 0; None for none.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2.
    """

    margin: float | None = 0.2
    max_distance: float | None = None

    def __post_init__(self):
        for name, limit in vars(self).items():
            require(limit is None or limit > 0, f"{name}={limit}", "a distance above 0, or None")

    def __call__(self, pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
        """The function that selects negatives of these pairs."""
        limit = float("inf") if self.max_distance is None else self.max_distance
        d_an = ops.where((pairs.negative > 0) & (d < limit), d, float("inf"))
        margin = float("inf") if self.margin is None else self.margin
        least = _least_difference(d)

        def select(p):
            d_ap = at(p, d)
            return nearest(d_an, (d_an > d_ap + least) & (d_an < d_ap + margin))

        return select


def random_negatives(pairs: Pairs, d: Tensor, *, seed: int | keras.random.SeedGenerator) -> Callable[[Tensor], Tensor]:
    """The selector of `RandomNegatives`: it draws by the weights of the negatives."""
    uniform = keras.random.uniform(ops.shape(d), dtype=d.dtype, seed=seed)
    cumulative = ops.cumsum(pairs.negative, axis=1)
    total = cumulative[:, -1:]

    def select(p):
        point = ops.take_along_axis(uniform, p[:, None], axis=1) * total
        selected = ops.argmax(ops.cast(cumulative > point, "int8"), axis=1)
        return ops.where(total[:, 0] > 0, ops.cast(selected, "int32"), -1)

    return select


@serializable
class RandomNegatives(Seeded):
    """A random negative for each positive, with probability proportional to the weight of its pair.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 1, 1], [[1.0], [2.0], [3.0]])
        >>> pairs = pairs.scale(negative=np.array([[0.0, 0.0, 1.0]]))  # column 1 has weight 0: it is never drawn
        >>> select = tfdml.miners.RandomNegatives(seed=0)(pairs, tfdml.pairs.euclidean(pairs))
        >>> np.asarray(select(np.array([0]))).tolist()  # for the positive in column 0
        [2]
    """

    def call(self, pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
        """The function that selects negatives of these pairs."""
        return random_negatives(pairs, d, seed=self.seed_generator)


@serializable
class DistanceWeightedNegatives(Seeded):
    """Draws as of `DistanceWeighted`, with its options, for `tfdml.losses.TripletLoss(negatives=...)`.

    There is one independent draw for each positive.

    Example:

        >>> references = [[0.6, 0.8, 0.0], [-1.0, 0.0, 0.0], [0.5, 0.866, 0.0]]
        >>> pairs = tfdml.pairs.pairs_with([0], [[1.0, 0.0, 0.0]], [0, 1, 1], references)  # negatives at 2 and 1
        >>> select = tfdml.miners.DistanceWeightedNegatives(seed=0)(pairs, tfdml.pairs.euclidean(pairs))
        >>> np.asarray(select(np.array([0]))).tolist()  # a negative beyond 1.4 is never drawn
        [2]
    """

    saved_arguments = ("cutoff", "max_distance", "clip")

    def __init__(
        self,
        *,
        cutoff: float = 0.5,
        max_distance: float = 1.4,
        clip: float | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(seed=seed, **options)
        require_limits(cutoff, max_distance, clip)
        self.cutoff, self.max_distance, self.clip = cutoff, max_distance, clip

    def call(self, pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
        """The function that selects negatives of these pairs."""
        pairs = on_sphere(pairs)
        weights = inverse_density(pairs, cutoff=self.cutoff, max_distance=self.max_distance, clip=self.clip)
        return random_negatives(pairs._replace(negative=weights), d, seed=self.seed_generator)
