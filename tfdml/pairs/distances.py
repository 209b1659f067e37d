"""Distances and similarities of `Pairs`, with custom gradients that take one matrix product per side."""

import contextlib
import functools
import math
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from tfdml._core.serialization import serializable
from tfdml.pairs.base import Distance, Pairs, Tensor

# Below this fraction of the anchor's squared norm, a squared distance from one matrix product has too few digits.
_NEAR_FRACTION = 2e-4
# Up to this number of small distances per anchor, each is recomputed by itself.
_FEW = 8
# Vectors with a squared norm up to this are zero vectors.
_ZERO_NORM_SQUARED = 1e-30


def normalized(pairs: Pairs) -> Pairs:
    """The same pairs with embeddings scaled to norm 1. A zero vector stays zero, with gradient 0."""
    references = None if pairs.is_self else normalized_rows(_float(pairs.references))
    return pairs._replace(anchors=normalized_rows(_float(pairs.anchors)), references=references)


def dot(pairs: Pairs) -> Tensor:
    """Dot products of anchors and references, `(anchors, references)`, in float32 at least."""
    if pairs.is_self:
        return _products_within(_float(pairs.anchors))
    return _products(_float(pairs.anchors), _float(pairs.references))


def cosine(pairs: Pairs) -> Tensor:
    """Cosine similarities, `(anchors, references)` in [-1, 1]. A zero vector has similarity 0, with gradient 0."""
    if pairs.references is None or len(pairs.references.shape) == 3:
        return dot(normalized(pairs))
    return _cosines_between(normalized_rows(_float(pairs.anchors)), _float(pairs.references))


def squared(pairs: Pairs) -> Tensor:
    """Squared euclidean distances, `(anchors, references)`, with gradient 0 between duplicates.

    Rows that differ by less than the rounding error are duplicates, at distance 0: about 1e-5 of their norm in float32,
    1e-14 in float64.
    """
    return ops.relu(_squared(pairs))  # its gradient at 0 is 0


def euclidean(pairs: Pairs) -> Tensor:
    """Euclidean distances, `(anchors, references)`, with gradient 0 (not NaN) between duplicates.

    Their distance is 1e-18 instead of 0, which keeps the gradient of the square root finite. Duplicates are defined as
    in `squared`.
    """
    return ops.sqrt(ops.maximum(_squared(pairs), 1e-36))


def _squared(pairs):
    """Squared distances, 0 between duplicates, of vectors relative to a point near the mean reference.

    Rounding errors grow with the norms, and distances do not depend on the origin.
    """
    references = _float(pairs.reference_embeddings)
    if len(references.shape) == 3:
        return ops.sum(ops.square(_float(pairs.anchors)[:, None] - references), axis=-1)
    center = ops.stop_gradient(_center(references))
    if pairs.is_self:
        return _squared_within(references - center)
    is_pair = ops.stop_gradient(pairs.positive + pairs.negative) > 0
    return _squared_between(_float(pairs.anchors) - center, references - center, is_pair)


def _center(x):
    """The mean row, rounded to a grid as coarse as the spread of the rows, so that small integers stay exact.

    It is 0 for rows spread around 0, such as unit vectors, and close to the mean for rows far from 0.
    """
    mean = ops.mean(x, axis=0)
    spread = ops.max(ops.abs(x - mean))
    return _rounded(mean, _power_of_two(spread + _eps(x) * ops.max(ops.abs(mean))))


@ops.custom_gradient
def _squared_within(x):
    """Squared distances between the rows. One product, with H = G + G^T, gives the gradient of both sides."""
    rows = ops.arange(ops.shape(x)[0])
    others = rows[:, None] != rows
    d2 = ops.where(others, _refined(_one_product(x, x), others, x, x), 0.0)

    def grad(upstream):
        h = _plus_transpose(upstream)
        return 2.0 * (ops.sum(h, axis=1, keepdims=True) * x - _matmul(h, x))

    return d2, grad


@ops.custom_gradient
def _squared_between(anchors, references, is_pair):
    """Squared distances of anchors and references. The gradient does not depend on how they were computed."""
    d2 = _refined(_one_product(anchors, references), is_pair, anchors, references)

    def grad(upstream):
        return _by_rows(upstream, anchors, references), _by_rows(ops.transpose(upstream), references, anchors), None

    return d2, grad


def _by_rows(g, x, others):
    """The gradient of squared distances to others with respect to x, 2 sum_j g_ij (x_i - others_j), by one product."""
    sums = _matmul(g, ops.concatenate([ops.ones_like(others[:, :1]), others], axis=1))
    return 2.0 * (sums[:, :1] * x - sums[:, 1:])


def _one_product(anchors, references):
    """|a|^2 + |r|^2 - 2 a.r, with an error of a few eps (|a|^2 + |r|^2)."""
    return _form((anchors, anchors), (references, references))


def _form(anchors, references):
    """B(a - r, a - r) for a symmetric bilinear form B(x, y) = left(x).right(y).

    It is one product, [-2 left(a), B(a, a), 1] . [right(r), 1, B(r, r)], so adding the norms takes no second pass over
    the matrix of pairs.

    Args:
        anchors, references: tuples (left, right), each `(rows, dim)`.
    """
    left, right = anchors[0], references[1]
    anchor_norms, reference_norms = _row_products(*anchors), _row_products(*references)
    return _matmul(
        ops.concatenate([-2.0 * left, anchor_norms, ops.ones_like(anchor_norms)], axis=-1),
        ops.transpose(ops.concatenate([right, ops.ones_like(reference_norms), reference_norms], axis=-1)),
    )


def _refined(d2, others, anchors, references):
    """The same squared distances, recomputed where they are small relative to the norms; 0 between duplicates.

    It runs only if one of the `others`, `(A, R)` booleans, is small. If no anchor has many of them, such as one copy in
    a memory, only these are recomputed, from differences; otherwise all are, which takes six times the products. It is
    written as a loop of at most one iteration, because XLA passes d2 into a loop without a copy, but not into a
    condition.
    """
    norms = _square_norms(anchors)
    near, duplicate = _NEAR_FRACTION * norms, 8.0 * _eps(anchors) ** 2 * anchors.shape[-1] * norms
    few = min(_FEW, d2.shape[1] or 0)

    def everywhere(d2):
        exact = sum(_form(*sides) for sides in zip(_levels(anchors), _levels(references), strict=True))
        return ops.where(d2 < near, ops.where(exact > duplicate, exact, 0.0), d2)

    def again(is_needed, d2):
        is_near = (d2 < near) & others
        most = ops.max(ops.sum(ops.cast(is_near, "int32"), axis=1))
        sides = (anchors, references, duplicate)
        found = ops.cond(most <= few, lambda: _nearest_again(d2, is_near, few, *sides), lambda: everywhere(d2))
        return ops.zeros_like(is_needed), found

    return ops.while_loop(lambda is_needed, _: is_needed, again, (ops.any((d2 < near) & others), d2))[1]


def _nearest_again(d2, is_near, few, anchors, references, duplicate):
    """The same squared distances, recomputed from differences for up to `few` near references of each anchor."""
    if few == 0:
        return d2
    _, places = ops.top_k(ops.where(is_near, -d2, -float("inf")), few)
    exact = ops.sum(ops.square(anchors[:, None] - ops.take(references, places, axis=0)), axis=-1)
    exact = ops.where(exact > duplicate, exact, 0.0)
    before, chosen = (ops.take_along_axis(x, places, axis=1) for x in (d2, is_near))
    rows = ops.broadcast_to(ops.arange(ops.shape(places)[0], dtype=places.dtype)[:, None], ops.shape(places))
    indices = ops.reshape(ops.stack([rows, places], axis=-1), (-1, 2))
    return ops.scatter_update(d2, indices, ops.reshape(ops.where(chosen, exact, before), (-1,)))


def _levels(x):
    """Bilinear forms (left, right) that add up to x.y, on numbers with so few digits that sums of products are exact.

    x = high + middle + low. For nearby rows, high.high, high.middle + middle.high and middle.middle are multiples of
    one step and below 2^24 steps (2^53 in float64), in any order of summation. The remainder is so small that its
    rounding does not matter.
    """
    digits = np.finfo(keras.backend.standardize_dtype(x.dtype)).nmant + 1
    scale = _power_of_two(ops.sqrt(_square_norms(x)))
    high = _rounded(x, scale * 2.0 ** -((digits - 4) // 2))
    middle = _rounded(x - high, scale * 2.0 ** -(digits - 3 - math.ceil(math.log2(x.shape[-1]) / 2)))
    low, rest = x - high - middle, high + middle
    crossed = ops.concatenate([high, middle], axis=-1), ops.concatenate([middle, high], axis=-1)
    remaining = ops.concatenate([x, low], axis=-1), ops.concatenate([low, rest], axis=-1)
    return [(high, high), crossed, (middle, middle), remaining]


def _rounded(x, step):
    """x rounded to the nearest multiple of a power of two; the result is exact."""
    return ops.round(x / step) * step


def _power_of_two(x):
    """An exact power of two from x to 2 x, which `ops.power` does not guarantee; a small power of two for x = 0."""
    least, most = -100, 126
    exponent = ops.clip(ops.ceil(ops.log2(ops.where(x > 0, x, 2.0**least))), least, most)
    return ops.take(ops.cast(np.ldexp(1.0, np.arange(least, most + 1)), x.dtype), ops.cast(exponent, "int32") - least)


def _eps(x):
    return float(np.finfo(keras.backend.standardize_dtype(x.dtype)).eps)


@ops.custom_gradient
def _products_within(x):
    """Dot products between the rows. One product, (G + G^T) x, gives the gradient of both sides."""

    def grad(upstream):
        return _matmul(_plus_transpose(upstream), x)

    return _matmul(x, ops.transpose(x)), grad


def _plus_transpose(g):
    """G + G^T, with G computed once."""
    if not _only_cpus():
        return g + ops.transpose(g)
    # XLA on a CPU would fuse the computation of G into both terms of the sum, the second of them column by column,
    # which takes longer than the matrix products. XLA does not fuse across a condition. The other branch, which is then
    # NaN or infinite as well, runs only if the gradient is not finite. On other devices a condition would stall the
    # host.
    return ops.cond(ops.isfinite(ops.sum(g[:1, :1])), lambda: g + ops.transpose(g), lambda: g)


@functools.cache
def _only_cpus():
    return all(device.startswith("cpu") for device in keras.distribution.list_devices())


def _square_norms(x):
    return ops.sum(ops.square(x), axis=-1, keepdims=True)


def _row_products(x, y):
    return ops.sum(ops.multiply(x, y), axis=-1, keepdims=True)


@serializable
def cosine_distance(pairs: Pairs) -> Tensor:
    """1 - cosine similarity, `(anchors, references)` in [0, 2]."""
    return 1.0 - cosine(pairs)


@serializable
def snr(pairs: Pairs) -> Tensor:
    """Inverse signal-to-noise ratios, `(anchors, references)`: var(r - a) / var(a), variances over dimensions.

    The anchor is the signal, so the distance is not symmetric. It does not change with the scale of all embeddings. An
    anchor whose entries are equal, up to rounding, has no signal: its distances are 0, with gradient 0.

    Source: Yuan, Deng, Tang, Tang, Chen, Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning, CVPR
    2019.
    """
    references = None if pairs.is_self else _centered_rows(_float(pairs.references))
    pairs = pairs._replace(anchors=_centered_rows(_float(pairs.anchors)), references=references)
    square = _square_norms(pairs.anchors)
    zero = square <= _ZERO_NORM_SQUARED
    return ops.where(zero, 0.0, squared(pairs) / ops.where(zero, 1.0, square))


def _centered_rows(x):
    """Rows minus their mean; 0 where all that is left is rounding."""
    centered = x - ops.mean(x, axis=-1, keepdims=True)
    rounding = 4.0 * _eps(x) ** 2 * _square_norms(x)
    return ops.where(_square_norms(centered) <= rounding, 0.0, centered)


DISTANCES = {"euclidean": euclidean, "squared": squared, "cosine": cosine_distance, "snr": snr}


def distance_function(distance: Distance) -> Callable[[Pairs], Tensor]:
    """The distance function with this name, `Pairs -> (anchors, references)`; a function is returned as it is.

    Raises:
        ValueError: a name other than "euclidean", "squared", "cosine" or "snr".
    """
    if callable(distance):
        return distance
    if distance not in DISTANCES:
        raise ValueError(f"Received distance={distance!r}, expected one of {sorted(DISTANCES)} or a function of Pairs.")
    return DISTANCES[distance]


def _float(x):
    """x in float32, or in float64 if it already has that type: scores are never in half precision."""
    return x if keras.backend.standardize_dtype(x.dtype) == "float64" else ops.cast(x, "float32")


@ops.custom_gradient
def normalized_rows(x):
    """Rows scaled to norm 1; a zero row stays zero, with gradient 0. NaN stays NaN."""
    inverse = _inverse_norms(x)
    unit = x * inverse

    def grad(upstream):
        return inverse * upstream - unit * (inverse * _row_products(upstream, unit))

    return unit, grad


def _inverse_norms(x):
    """1 / |x| for each row, `(rows, 1)`; 0 for a zero row."""
    square = _square_norms(x)
    zero = square <= _ZERO_NORM_SQUARED
    return ops.where(zero, 0.0, ops.rsqrt(ops.where(zero, 1.0, square)))


def _products(anchors, references):
    if len(references.shape) == 3:
        return ops.sum(anchors[:, None] * references, axis=-1)
    return _products_between(anchors, references)


@ops.custom_gradient
def _products_between(anchors, references):
    """Dot products. The gradient by references is one product in their own layout, not in that of their transpose."""

    def grad(upstream):
        return _matmul(upstream, references), _matmul(ops.transpose(upstream), anchors)

    return _matmul(anchors, ops.transpose(references)), grad


@ops.custom_gradient
def _cosines_between(anchors, references):
    """Cosines of unit anchors and of references, which may be many: they are scaled in the matrix of the products."""
    inverse = ops.transpose(_inverse_norms(references))
    s = _matmul(anchors, ops.transpose(references)) * inverse

    def grad(upstream):
        h = upstream * inverse
        shares = ops.transpose(ops.sum(upstream * s, axis=0, keepdims=True) * ops.square(inverse))
        return _matmul(h, references), _matmul(ops.transpose(h), anchors) - shares * references

    return s, grad


def _matmul(a, b):
    with _full_precision():
        return ops.matmul(a, b)


def _full_precision():
    """Matrix products in full float32 precision on JAX, also on accelerators that round inputs by default.

    TensorFlow has one switch for the whole program, `tf.config.experimental.enable_tensor_float_32_execution`, which
    is left to the user.
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.default_matmul_precision("float32")
    return contextlib.nullcontext()
