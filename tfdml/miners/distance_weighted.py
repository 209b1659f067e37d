"""Distance-weighted sampling: negatives drawn uniformly by distance."""

import math
from typing import Any

import numpy as np

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.layers.base import Seeded
from tfdml.pairs import Pairs, dot
from tfdml.pairs.base import Tensor, value_of
from tfdml.pairs.conditions import note_embeddings
from tfdml.pairs.sampling import num_positives, systematic_sample, with_sampled_negatives

# Largest accepted difference of a squared norm from 1; in half precision the difference is up to 0.008.
_NORM_TOLERANCE = 0.02
# Below this distance, rounding of the dot product dominates.
_MIN_DISTANCE = 1e-3


def log_sphere_density(d: Tensor, dim: int) -> Tensor:
    """log q(d), the density of the distance between two random points of the unit sphere.

    q(d) = d^(dim - 2) (1 - d^2 / 4)^((dim - 3) / 2) / (2^(dim - 2) B((dim - 1) / 2, (dim - 1) / 2))

    B is the beta function: d^2 / 4 has the distribution Beta((dim - 1) / 2, (dim - 1) / 2).

    Example:

        >>> log_q = tfdml.miners.log_sphere_density(ops.convert_to_tensor([0.5, 1.0, 2.0]), dim=3)
        >>> np.exp(np.asarray(log_q, float)).round(4).tolist()  # q(d) = d / 2 in three dimensions
        [0.25, 0.5, 1.0]

    Args:
        d: distances in [0, 2], any shape.
        dim: number of dimensions of the space, 3 or more: below, the formula has a pole at 2.

    Returns:
        An array like `d`; -inf at 0, and at 2 where dim > 3.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 4,
    without the constant.
    """
    require_dimension(dim)
    log_power = (dim - 2) * ops.log(d) - _log_constant(dim)
    return log_power if dim == 3 else log_power + (dim - 3) / 2 * ops.log(1.0 - ops.square(d) / 4)


def require_dimension(dim: int) -> None:
    """Raise a ValueError if the dimension is too small for q(d)."""
    density = "d^(dim - 2) (1 - d^2 / 4)^((dim - 3) / 2)"
    require(
        dim >= 3, f"embeddings of dimension {dim}", f"3 or more: the density of distances on the sphere is {density}"
    )


def inverse_density(
    pairs: Pairs, *, cutoff: float = 0.5, max_distance: float = 1.4, clip: float | None = None
) -> Tensor:
    """Sampling weights that make the distance of a negative uniform, scaled so that 1 / q is at most 1 in each row."""
    dim = pairs.anchors.shape[-1]
    require_dimension(dim)
    # d^2 = 2 (1 - s) on the sphere, so q(d) is a product of powers of 1 - s and 1 + s.
    s = ops.stop_gradient(dot(pairs))
    s_cut = ops.minimum(s, 1.0 - max(cutoff, _MIN_DISTANCE) ** 2 / 2)
    log_weight = -(dim - 2) / 2 * ops.log(1.0 - s_cut) - (dim - 3) / 2 * ops.log(1.0 + s_cut)
    if clip is not None:  # lambda in the scale of the powers, which leave factors of q(d) out
        log_scale = (dim - 2) / 2 * math.log(2) - (dim - 3) / 2 * math.log(2) - _log_constant(dim)
        log_weight = ops.minimum(log_weight, math.log(clip) + log_scale)
    log_weight = ops.where((pairs.negative > 0) & (s > 1.0 - max_distance**2 / 2), log_weight, -float("inf"))
    largest = ops.amax(log_weight, axis=1, keepdims=True)
    return pairs.negative * ops.exp(log_weight - ops.where(ops.isfinite(largest), largest, 0.0))


def _log_constant(dim):
    """log of 2^(dim - 2) B((dim - 1) / 2, (dim - 1) / 2)."""
    half = (dim - 1) / 2
    return (dim - 2) * math.log(2) + 2 * math.lgamma(half) - math.lgamma(2 * half)


def on_sphere(pairs: Pairs) -> Pairs:
    """The same pairs, of embeddings of norm 1, zero or not finite; another norm is an error, or NaN if compiled."""
    is_valid = _have_norm_1(pairs.anchors)
    if not pairs.is_self:
        is_valid = is_valid & _have_norm_1(pairs.references)
    value = value_of(is_valid)
    if value is None:
        note_embeddings("norm 1")
        return pairs._replace(anchors=ops.where(is_valid, pairs.anchors, float("nan")))
    if not value:
        norms = np.linalg.norm(ops.convert_to_numpy(ops.cast(pairs.anchors, "float32")), axis=-1)
        raise ValueError(
            f"Received embeddings with norms from {norms.min():.3g} to {norms.max():.3g}, expected norm 1: distances "
            "are weighted by their density on the unit sphere. End the model with keras.layers.UnitNormalization()."
        )
    return pairs


def _have_norm_1(x):
    square = ops.sum(ops.square(ops.cast(x, "float32")), axis=-1)
    return ops.all((ops.abs(square - 1.0) < _NORM_TOLERANCE) | (square == 0) | ops.logical_not(ops.isfinite(square)))


@serializable
class DistanceWeighted(Seeded):
    """Distance-weighted sampling: all positives, and one negative per positive, drawn uniformly by distance.

    P(n | a) proportional to w_an min(lambda, 1 / q(max(d_an, cutoff))) for d_an < max_distance

    q is the density of distances between random points of the sphere, see `log_sphere_density`. The weight of a
    negative becomes the number of times it was drawn; draws are evenly spread over the batch in its order (systematic
    sampling). With `expectation` it becomes the expected number of draws, so the loss is the mean over all draws. An
    anchor without positives, or whose negatives are all beyond `max_distance`, draws none.

    See also: `BalancedPairs` for draws without regard to distance; `DistanceWeightedNegatives` for `TripletLoss`.

    Example:

        >>> references = [[0.6, 0.8, 0.0], [0.875, 0.4841, 0.0], [0.5, 0.866, 0.0]]
        >>> pairs = tfdml.pairs.pairs_with([0], [[1.0, 0.0, 0.0]], [0, 1, 1], references)  # negatives at 0.5 and 1
        >>> mined = tfdml.miners.DistanceWeighted(expectation=True)(pairs)
        >>> np.asarray(mined.negative, float).round(3).tolist()  # q(d) = d / 2 in three dimensions: 1 / 0.5 to 1 / 1
        [[0.0, 0.667, 0.333]]

    Args:
        cutoff: distance below which negatives do not become more likely, in [0, 2).
        max_distance: negatives at or beyond this distance are never drawn; above `cutoff`, up to 2.
        clip: lambda, the largest value of 1 / q, above 0; None for no limit except the cutoff.
        expectation: True for the expected number of draws instead of random draws.

    Raises:
        ValueError: when called, embeddings of another norm than 1 (NaN if compiled) or of fewer than 3 dimensions.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 4. The
    cutoff, and the limit of 1.4 beyond which the margin loss has no gradient, follow the authors' code.
    """

    saved_arguments = ("cutoff", "max_distance", "clip", "expectation")

    def __init__(
        self,
        *,
        cutoff: float = 0.5,
        max_distance: float = 1.4,
        clip: float | None = None,
        expectation: bool = False,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(seed=seed, draws=not expectation, **options)
        require_limits(cutoff, max_distance, clip)
        self.cutoff, self.max_distance, self.clip, self.expectation = cutoff, max_distance, clip, expectation

    def call(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        pairs = on_sphere(pairs)
        weights = inverse_density(pairs, cutoff=self.cutoff, max_distance=self.max_distance, clip=self.clip)
        num_draws = num_positives(pairs)
        if self.expectation:
            total = ops.sum(weights, axis=1, keepdims=True)
            return with_sampled_negatives(pairs, weights * (num_draws / ops.where(total > 0, total, 1.0)))
        offset = self.uniform(ops.shape(num_draws), num_draws.dtype)
        return with_sampled_negatives(pairs, systematic_sample(weights, num_draws, offset))


def require_limits(cutoff: float, max_distance: float, clip: float | None) -> None:
    """Raise a ValueError for limits out of range."""
    require(
        0 <= cutoff < max_distance <= 2,
        f"cutoff={cutoff} and max_distance={max_distance}",
        "0 <= cutoff < max_distance <= 2",
    )
    require(clip is None or clip > 0, f"clip={clip}", "a number above 0, or None")
