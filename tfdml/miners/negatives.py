"""Which negative each positive is compared with: choosers for `tfdml.losses.TripletLoss(negatives=...)`.

A chooser is a function `(pairs, d) -> choose` of `Pairs` and their distances `(anchors, references)`. `choose(p)` takes
the column of one positive of each anchor, `(anchors,)`, and returns the column of its negative, -1 where it has none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import keras
from keras import ops

from tfdml._serialization import Settings, serializable
from tfdml.layers.base import Seeded
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor
from tfdml.pairs.positives import at, nearest

Chooser: TypeAlias = Callable[[Pairs, Tensor], Callable[[Tensor], Tensor]]


@serializable
def hardest_negatives(pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
    """The nearest negative of the anchor, whatever the positive.

    Args:
        pairs: `Pairs` of A anchors and R references.
        d: `(A, R)` distances.

    Returns:
        A function of the columns of positives, `(A,)`, that returns columns of negatives, `(A,)`; -1 without negatives.
    """
    found = nearest(d, pairs.negative > 0)
    return lambda p: found


@serializable
def semi_hard_negatives(pairs: Pairs, d: Tensor, *, margin: float | None = None) -> Callable[[Tensor], Tensor]:
    """The nearest negative that is farther than the positive; the farthest of all where none is.

    Args:
        pairs: `Pairs` of A anchors and R references.
        d: `(A, R)` distances.
        margin: None, or take only negatives inside the margin, d_ap < d_an < d_ap + margin, and none where none is.

    Returns:
        A function of the columns of positives, `(A,)`, that returns columns of negatives, `(A,)`; -1 where none is.

    Source: Schroff, Kalenichenko, Philbin, FaceNet, CVPR 2015, section 3.2; eq. of n*_ap in Wu et al., Sampling Matters
    in Deep Embedding Learning, section 3. The farthest negative as the way out is TensorFlow Addons'.
    """
    is_negative = pairs.negative > 0
    farthest = -1 if margin is not None else nearest(-d, is_negative)
    d_an = ops.where(is_negative, d, float("inf"))

    def choose(p):
        d_ap = at(p, d)
        semi_hard = d_an > d_ap
        if margin is not None:
            semi_hard = semi_hard & (d_an < d_ap + margin)
        found = nearest(d_an, semi_hard)
        return ops.where(found < 0, farthest, found)

    return choose


@serializable
@dataclass(frozen=True)
class SemiHardNegatives(Settings):
    """`semi_hard_negatives` inside a margin, as an object to hand to a loss.

    Args:
        margin: width of the band d_ap < d_an < d_ap + margin, above 0; usually the margin of the loss.
    """

    margin: float = 0.2

    def __post_init__(self):
        if not self.margin > 0:
            raise ValueError(f"Received margin={self.margin}, expected a distance above 0.")

    def __call__(self, pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
        """The choice for these pairs."""
        return semi_hard_negatives(pairs, d, margin=self.margin)


@serializable
def random_negatives(
    pairs: Pairs, d: Tensor, *, seed: int | keras.random.SeedGenerator | None = None
) -> Callable[[Tensor], Tensor]:
    """A negative at random for each positive, with probability proportional to the weight of its pair.

    Args:
        pairs: `Pairs` of A anchors and R references.
        d: `(A, R)` distances, not used.
        seed: an integer, or a `keras.random.SeedGenerator`; None for Keras' global one, which JAX does not allow in
            compiled functions: take `RandomNegatives` there.

    Returns:
        A function of the columns of positives, `(A,)`, that returns columns of negatives, `(A,)`; -1 without negatives.
    """
    uniform = keras.random.uniform(ops.shape(d), dtype=d.dtype, seed=seed)
    below = ops.cumsum(pairs.negative, axis=1)
    total = below[:, -1:]

    def choose(p):
        point = ops.take_along_axis(uniform, p[:, None], axis=1) * total
        chosen = ops.argmax(ops.cast(below > point, "int8"), axis=1)
        return ops.where(total[:, 0] > 0, ops.cast(chosen, "int32"), -1)

    return choose


@serializable
class RandomNegatives(Seeded):
    """`random_negatives` with a seed of its own: a Keras layer, so that `EmbeddingModel` keeps its state.

    Args:
        seed: an integer; None for a fresh one.
    """

    def call(self, pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
        """The choice for these pairs."""
        return random_negatives(pairs, d, seed=self.seed_generator)
