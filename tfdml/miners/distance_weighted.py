"""Distance-weighted sampling: negatives of all distances alike."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from tfdml._serialization import serializable
from tfdml.layers.base import Seeded
from tfdml.miners.negatives import random_negatives
from tfdml.pairs import Pairs, dot
from tfdml.pairs.base import Tensor
from tfdml.pairs.sampling import num_positives, systematic_sample, with_sampled_negatives

# How far a squared norm may be from 1: half-precision embeddings are off by up to 0.8%.
_TOLERANCE = 0.02
# Nearer than this, rounding of a dot product does not tell distances apart.
_LEAST = 1e-3


def log_sphere_density(d: Tensor, dim: int) -> Tensor:
    """log q(d), the density of the distance between two random points of the unit sphere.

    q(d) = d^(dim - 2) (1 - d^2 / 4)^((dim - 3) / 2) / (2^(dim - 2) B((dim - 1) / 2, (dim - 1) / 2))

    B is the beta function: d^2 / 4 has the distribution Beta((dim - 1) / 2, (dim - 1) / 2).

    Args:
        d: distances in [0, 2], any shape.
        dim: number of dimensions of the space, 3 or more.

    Returns:
        An array like `d`; -inf at 0, and at 2 where dim > 3.

    Raises:
        ValueError: a dimension below 3, where the formula has a pole at 2.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 4, which
    leaves the constant out.
    """
    require_dimension(dim)
    near = (dim - 2) * ops.log(d) - _log_constant(dim)
    return near if dim == 3 else near + (dim - 3) / 2 * ops.log(1.0 - ops.square(d) / 4)


def require_dimension(dim: int) -> None:
    """Raise the ValueError of a sphere that is too small for q(d)."""
    if dim < 3:
        raise ValueError(
            f"Received embeddings of dimension {dim}, expected 3 or more: the density of distances on the sphere is "
            "d^(dim - 2) (1 - d^2 / 4)^((dim - 3) / 2)."
        )


def inverse_density(pairs: Pairs, *, cutoff: float = 0.5, far: float = 1.4, clip: float | None = None) -> Tensor:
    """Weights of negatives by which their distances are drawn evenly: w_an min(lambda, 1 / q(max(d_an, cutoff))).

    Args:
        pairs: `Pairs` of A anchors and R references, embeddings of norm 1.
        cutoff: distance below which negatives do not become more likely, in [0, 2).
        far: distance from which on a negative is never drawn, up to 2.
        clip: lambda, the largest value of 1 / q; None for none beside the cutoff.

    Returns:
        `(A, R)`, largest 1 in each row; 0 for negatives that are never drawn. Without gradient.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 4. The
    cutoff and the limit of 1.4, where the margin loss has no slope left, are those of the authors' program.
    """
    dim = pairs.anchors.shape[-1]
    require_dimension(dim)
    # d^2 = 2 (1 - s) on the sphere, so q(d) is a product of powers of 1 - s and 1 + s.
    s = ops.stop_gradient(dot(pairs))
    near = ops.minimum(s, 1.0 - max(cutoff, _LEAST) ** 2 / 2)
    log_weight = -(dim - 2) / 2 * ops.log(1.0 - near) - (dim - 3) / 2 * ops.log(1.0 + near)
    if clip is not None:
        log_weight = ops.minimum(log_weight, math.log(clip) + _log_scale(dim))
    log_weight = ops.where((pairs.negative > 0) & (s > 1.0 - far**2 / 2), log_weight, -float("inf"))
    largest = ops.max(log_weight, axis=1, keepdims=True)
    return pairs.negative * ops.exp(log_weight - ops.where(ops.isfinite(largest), largest, 0.0))


def _log_scale(dim):
    """log of q(d) over (1 - s)^((dim - 2) / 2) (1 + s)^((dim - 3) / 2)."""
    return (dim - 2) / 2 * math.log(2) - (dim - 3) / 2 * math.log(2) - _log_constant(dim)


def _log_constant(dim):
    """log of 2^(dim - 2) B((dim - 1) / 2, (dim - 1) / 2)."""
    half = (dim - 1) / 2
    return (dim - 2) * math.log(2) + 2 * math.lgamma(half) - math.lgamma(2 * half)


def on_sphere(pairs: Pairs) -> Pairs:
    """The pairs, if their embeddings have norm 1.

    Raises:
        ValueError: an embedding of another norm, where values can be read. In a compiled function, where no error can
            be raised, the anchors become NaN, and so does the loss. A zero vector, which normalization leaves as it
            is, passes.
    """
    fine = _norms_fine(pairs.anchors)
    if not pairs.within:
        fine = fine & _norms_fine(pairs.references)
    try:
        failed = not ops.convert_to_numpy(fine)
    except (NotImplementedError, TypeError):
        return pairs._replace(anchors=ops.where(fine, pairs.anchors, float("nan")))
    if failed:
        norms = np.linalg.norm(ops.convert_to_numpy(ops.cast(pairs.anchors, "float32")), axis=-1)
        raise ValueError(
            f"Received embeddings with norms from {norms.min():.3g} to {norms.max():.3g}, expected norm 1: distances "
            "are weighed by their density on the unit sphere. End the model with keras.layers.UnitNormalization()."
        )
    return pairs


def _norms_fine(x):
    square = ops.sum(ops.square(ops.cast(x, "float32")), axis=-1)
    return ops.all((ops.abs(square - 1.0) < _TOLERANCE) | (square == 0) | ops.logical_not(ops.isfinite(square)))


@serializable
class DistanceWeighted(Seeded):
    """Distance-weighted sampling: all positives, and for each of them a negative, drawn uniformly by distance.

    P(n | a) proportional to w_an min(lambda, 1 / q(max(d_an, cutoff))) for d_an < far

    q is the density of distances between random points of the sphere, `log_sphere_density`. The weight of a negative
    becomes how often it was drawn; draws are spread evenly over the batch in its order (systematic sampling). With
    `expected` it becomes the expectation of that number, so the loss is the mean over all draws. An anchor without
    positives, or whose negatives are all beyond `far`, draws none.

    Example:

        loss = tfdml.losses.MarginLoss(miner=tfdml.miners.DistanceWeighted(seed=0))

    Args:
        cutoff: distance below which negatives do not become more likely, in [0, 2).
        far: distance from which on a negative is never drawn, above `cutoff`, up to 2.
        clip: lambda, the largest value of 1 / q, above 0; None for none beside the cutoff.
        expected: True for the exact expectation.
        seed: an integer; None for a fresh one. `EmbeddingModel` keeps its state.

    Raises:
        ValueError: embeddings not of norm 1, or of fewer than 3 dimensions, when called: see `on_sphere`.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 4.
    """

    def __init__(
        self,
        cutoff: float = 0.5,
        far: float = 1.4,
        clip: float | None = None,
        expected: bool = False,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(seed, draws=not expected, **options)
        self.limits = _limits(cutoff, far, clip)
        self.expected = expected

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        pairs = on_sphere(pairs)
        weights, number = inverse_density(pairs, **self.limits), num_positives(pairs)
        if self.expected:
            total = ops.sum(weights, axis=1, keepdims=True)
            return with_sampled_negatives(pairs, weights * (number / ops.where(total > 0, total, 1.0)))
        return with_sampled_negatives(
            pairs, systematic_sample(weights, number, self.uniform(ops.shape(number), number.dtype))
        )

    def get_config(self) -> dict[str, Any]:
        """The settings, for Keras."""
        return {**super().get_config(), **self.limits, "expected": self.expected}


@serializable
class DistanceWeightedNegatives(Seeded):
    """The same sampling as a chooser for `tfdml.losses.TripletLoss(negatives=...)`: a draw for each positive.

    Args:
        cutoff, far, clip: as in `DistanceWeighted`.
        seed: an integer; None for a fresh one. `EmbeddingModel` keeps its state.
    """

    def __init__(
        self, cutoff: float = 0.5, far: float = 1.4, clip: float | None = None, seed: int | None = None, **options: Any
    ) -> None:
        super().__init__(seed, **options)
        self.limits = _limits(cutoff, far, clip)

    def call(self, pairs: Pairs, d: Tensor) -> Callable[[Tensor], Tensor]:
        """The choice for these pairs: a function of columns of positives, see `tfdml.miners.random_negatives`."""
        weighed = on_sphere(pairs)
        weighed = weighed._replace(negative=inverse_density(weighed, **self.limits))
        return random_negatives(weighed, d, seed=self.seed_generator)

    def get_config(self) -> dict[str, Any]:
        """The settings, for Keras."""
        return {**super().get_config(), **self.limits}


def _limits(cutoff, far, clip):
    if not 0 <= cutoff < far <= 2:
        raise ValueError(f"Received cutoff={cutoff} and far={far}, expected 0 <= cutoff < far <= 2.")
    if clip is not None and not clip > 0:
        raise ValueError(f"Received clip={clip}, expected a number above 0, or None.")
    return {"cutoff": cutoff, "far": far, "clip": clip}
