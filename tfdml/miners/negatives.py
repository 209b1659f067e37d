"""Selectors of one negative per positive, for `tfdml.losses.TripletLoss(negatives=...)`.

A selector is a function `(pairs, d) -> select` of `Pairs` and their distances `(anchors, references)`. `select(p)`
takes the column of one positive per anchor, `(anchors,)`, and returns the column of the selected negative, -1 for none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import keras

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import Settings, serializable
from tfdml.layers.base import Seeded
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor
from tfdml.pairs.positives import at, nearest

NegativeSelector: TypeAlias = Callable[[Pairs, Tensor], Callable[[Tensor], Tensor]]


@serializable
def hardest_negatives(pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
    """The nearest negative of the anchor, for all of its positives.

    See also: `semi_hard_negatives`, `random_negatives`; `DistanceWeightedNegatives`.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 1, 1], [[1.0], [3.0], [2.0], [4.0]])
        >>> select = tfdml.miners.hardest_negatives(pairs, tfdml.pairs.euclidean(pairs))
        >>> [np.asarray(select(np.array([p]))).tolist() for p in (0, 1)]  # column 2 for both positives
        [[2], [2]]

    Args:
        pairs: `Pairs` of A anchors and R references.
        d: `(A, R)` distances.

    Returns:
        A function that takes the column of one positive per anchor, `(A,)`, and returns the column of the selected
        negative per anchor, `(A,)`; -1 without negatives.
    """
    hardest = nearest(d, pairs.negative > 0)
    return lambda p: hardest


@serializable
def semi_hard_negatives(pairs: Pairs, d: Tensor, *, margin: float | None = None) -> Callable[[Tensor], Tensor]:
    """The nearest negative that is farther than the positive; the farthest negative if there is none.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 0, 1, 1], [[1.0], [5.0], [2.0], [4.0]])
        >>> select = tfdml.miners.semi_hard_negatives(pairs, tfdml.pairs.euclidean(pairs))
        >>> np.asarray(select(np.array([0]))).tolist()  # beyond the positive at 1, the nearest is at 2
        [2]
        >>> np.asarray(select(np.array([1]))).tolist()  # none is beyond 5: the farthest
        [3]

    Args:
        pairs: `Pairs` of A anchors and R references.
        d: `(A, R)` distances.
        margin: None; or the width of a band, in which case only negatives with d_ap < d_an < d_ap + margin are
            selected, without a fallback.

    Returns:
        A function that takes the column of one positive per anchor, `(A,)`, and returns the column of the selected
        negative per anchor, `(A,)`; -1 without negatives.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2; eq. of n*_ap in Wu et al., Sampling Matters
    in Deep Embedding Learning, section 3. Falling back to the farthest negative follows TensorFlow Addons.
    """
    is_negative = pairs.negative > 0
    farthest = -1 if margin is not None else nearest(-d, is_negative)
    d_an = ops.where(is_negative, d, float("inf"))

    def select(p):
        d_ap = at(p, d)
        is_semi_hard = d_an > d_ap
        if margin is not None:
            is_semi_hard = is_semi_hard & (d_an < d_ap + margin)
        selected = nearest(d_an, is_semi_hard)
        return ops.where(selected < 0, farthest, selected)

    return select


@serializable
@dataclass(frozen=True, kw_only=True)
class SemiHardNegatives(Settings):
    """Semi-hard negatives inside a margin: see `tfdml.miners.semi_hard_negatives`.

    See also: `semi_hard_negatives`, which falls back to another negative; `DistanceWeightedNegatives`.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 1, 1], [[1.0], [0.5], [1.1]])
        >>> select = tfdml.miners.SemiHardNegatives(margin=0.2)(pairs, tfdml.pairs.euclidean(pairs))
        >>> np.asarray(select(np.array([0]))).tolist()  # 1 < 1.1 < 1.2
        [2]

    Args:
        margin: width of the band d_ap < d_an < d_ap + margin, above 0; usually the margin of the loss.
    """

    margin: float = 0.2

    def __post_init__(self):
        require(self.margin > 0, f"margin={self.margin}", "a distance above 0")

    def __call__(self, pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
        """The function that selects negatives of these pairs."""
        return semi_hard_negatives(pairs, d, margin=self.margin)


@serializable
def random_negatives(
    pairs: Pairs, d: Tensor, *, seed: int | keras.random.SeedGenerator | None = None
) -> Callable[[Tensor], Tensor]:
    """A random negative for each positive, with probability proportional to the weight of its pair.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 1, 1], [[1.0], [2.0], [3.0]])
        >>> pairs = pairs.scale(negative=np.array([[0.0, 0.0, 1.0]]))  # column 1 has weight 0: it is never drawn
        >>> select = tfdml.miners.random_negatives(pairs, tfdml.pairs.euclidean(pairs), seed=0)
        >>> np.asarray(select(np.array([0]))).tolist()
        [2]

    Args:
        pairs: `Pairs` of A anchors and R references.
        d: `(A, R)` distances, not used.
        seed: an integer, or a `keras.random.SeedGenerator`; None for the global generator of Keras, which JAX does not
            allow in compiled functions: use `RandomNegatives` there.

    Returns:
        A function that takes the column of one positive per anchor, `(A,)`, and returns the column of the selected
        negative per anchor, `(A,)`; -1 without negatives.
    """
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
    """`random_negatives` with its own seed: a Keras layer, so `EmbeddingModel` saves its state.

    See also: `SemiHardNegatives`, `DistanceWeightedNegatives`.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0]], [0, 1, 1], [[1.0], [2.0], [3.0]])
        >>> select = tfdml.miners.RandomNegatives(seed=0)(pairs, tfdml.pairs.euclidean(pairs))
        >>> int(select(np.array([0]))[0]) in (1, 2)  # for the positive in column 0
        True

    Args:
        seed: an integer; None for a random one.
    """

    def call(self, pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
        """The function that selects negatives of these pairs."""
        return random_negatives(pairs, d, seed=self.seed_generator)
