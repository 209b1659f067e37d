"""Distances and similarities of `Pairs`, with the gradients that a matrix product per side can give."""

import contextlib
import functools
import math
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from tfdml._serialization import serializable
from tfdml.pairs.base import Distance, Pairs, Tensor

# A squared distance below this share of the anchor's squared norm has too few digits where it comes from one product.
_NEAR = 2e-4
# Squared norms up to this are the norm of a zero vector.
_ZERO = 1e-30


def normalized(pairs: Pairs) -> Pairs:
    """The same pairs of embeddings scaled to norm 1. A zero vector stays zero, with gradient 0."""
    references = None if pairs.within else _unit(_float(pairs.references))
    return pairs._replace(anchors=_unit(_float(pairs.anchors)), references=references)


def dot(pairs: Pairs) -> Tensor:
    """Dot products of anchors and references, `(anchors, references)`, in float32 at least."""
    if pairs.within:
        return _products_within(_float(pairs.anchors))
    return _products(_float(pairs.anchors), _float(pairs.references))


def cosine(pairs: Pairs) -> Tensor:
    """Cosine similarities, `(anchors, references)` in [-1, 1]. A zero vector has similarity 0, with gradient 0."""
    return dot(normalized(pairs))


def squared(pairs: Pairs) -> Tensor:
    """Squared euclidean distances, `(anchors, references)`, with gradient 0 between duplicates.

    Rows that differ by less than rounding can tell are duplicates, at distance 0: in float32 by about 1e-5 of their
    norm, in float64 by 1e-14.
    """
    return ops.relu(_squared(pairs))  # its gradient at 0 is 0


def euclidean(pairs: Pairs) -> Tensor:
    """Euclidean distances, `(anchors, references)`, with gradient 0 (not NaN) between duplicates.

    Their distance is 1e-18 rather than 0, which keeps the square root's slope finite. Duplicates are those of
    `squared`.
    """
    return ops.sqrt(ops.maximum(_squared(pairs), 1e-36))


def _squared(pairs):
    """Squared distances, 0 between duplicates, for vectors taken from a point near the mean reference.

    Rounding errors grow with norms, and distances do not depend on the origin.
    """
    references = _float(pairs.others)
    if len(references.shape) == 3:
        return ops.sum(ops.square(_float(pairs.anchors)[:, None] - references), axis=-1)
    center = ops.stop_gradient(_center(references))
    if pairs.within:
        return _squared_within(references - center)
    return _squared_between(_float(pairs.anchors) - center, references - center)


def _center(x):
    """The mean row on a grid as coarse as the spread of rows: small integers stay exact, outliers do not move it.

    It is 0 for rows that are spread around 0, such as unit vectors, and as good as the mean for rows far from 0.
    """
    mean = ops.mean(x, axis=0)
    spread = ops.max(ops.abs(x - mean))
    return _rounded(mean, _power_of_two(spread + _eps(x) * ops.max(ops.abs(mean))))


@ops.custom_gradient
def _squared_within(x):
    """Squared distances of rows with each other. The products of both gradients are one, with H = G + G^T."""
    rows = ops.arange(ops.shape(x)[0])
    others = rows[:, None] != rows
    d2 = ops.where(others, _refined(_one_product(x, x), others, x, x), 0.0)

    def slope(upstream):
        h = _plus_transposed(upstream)
        return 2.0 * (ops.sum(h, axis=1, keepdims=True) * x - _matmul(h, x))

    return d2, slope


@ops.custom_gradient
def _squared_between(anchors, references):
    """Squared distances of anchors and references. Their gradient does not depend on how they were computed."""
    d2 = _refined(_one_product(anchors, references), True, anchors, references)

    def slope(upstream):
        return _by_rows(upstream, anchors, references), _by_rows(ops.transpose(upstream), references, anchors)

    return d2, slope


def _by_rows(g, x, others):
    """The gradient by x of squared distances to others, 2 sum_j g_ij (x_i - others_j), by one product."""
    both = _matmul(g, ops.concatenate([ops.ones_like(others[:, :1]), others], axis=1))
    return 2.0 * (both[:, :1] * x - both[:, 1:])


def _one_product(anchors, references):
    """|a|^2 + |r|^2 - 2 a.r, with an error of some eps (|a|^2 + |r|^2)."""
    return _form((anchors, anchors), (references, references))


def _form(anchors, references):
    """B(a - r, a - r) for a symmetric bilinear form B(x, y) = left(x).right(y), given left and right of both sides.

    It is [-2 left(a), B(a, a), 1] . [right(r), 1, B(r, r)]: no matrix of pairs is read and written again to add norms.
    """
    left, right = anchors[0], references[1]
    of_anchors, of_references = (
        ops.sum(ops.multiply(*sides), axis=-1, keepdims=True) for sides in (anchors, references)
    )
    return _matmul(
        ops.concatenate([-2.0 * left, of_anchors, ops.ones_like(of_anchors)], axis=-1),
        ops.transpose(ops.concatenate([right, ops.ones_like(of_references), of_references], axis=-1)),
    )


def _refined(d2, others, anchors, references):
    """The same squared distances, with those computed again that are small beside the norms; 0 between duplicates.

    This takes six times the products, so it is done only where one of the `others`, `(A, R)` booleans, is small: by a
    loop of one round or none, into which XLA passes d2 without a copy, as it would not into a condition.
    """
    norms = _square_norms(anchors)
    near, duplicate = _NEAR * norms, 8.0 * _eps(anchors) ** 2 * anchors.shape[-1] * norms

    def again(is_needed, d2):
        exact = sum(_form(*sides) for sides in zip(_levels(anchors), _levels(references), strict=True))
        return ops.zeros_like(is_needed), ops.where(d2 < near, ops.where(exact > duplicate, exact, 0.0), d2)

    return ops.while_loop(lambda is_needed, _: is_needed, again, (ops.any((d2 < near) & others), d2))[1]


def _levels(x):
    """Bilinear forms that add up to x.y, each on numbers of few digits, so that sums of their products are exact.

    x = high + middle + low. Of rows near each other, high.high, high.middle + middle.high and middle.middle are
    multiples of one step, and less than 2^24 steps (2^53 in float64), in whatever order they are summed. What is left
    is so small that its rounding does not matter.
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
    """x as the nearest multiple of a power of two: no rounding error, but for the digits left out."""
    return ops.round(x / step) * step


def _power_of_two(x):
    """A power of two from x to 2 x, exactly one, which `ops.power` would not promise. Of 0, a small one."""
    least, most = -100, 126
    exponent = ops.clip(ops.ceil(ops.log2(ops.where(x > 0, x, 2.0**least))), least, most)
    return ops.take(ops.cast(np.ldexp(1.0, np.arange(least, most + 1)), x.dtype), ops.cast(exponent, "int32") - least)


def _eps(x):
    return float(np.finfo(keras.backend.standardize_dtype(x.dtype)).eps)


@ops.custom_gradient
def _products_within(x):
    """Dot products of rows with each other. The products of both gradients are one: (G + G^T) x."""

    def slope(upstream):
        return _matmul(_plus_transposed(upstream), x)

    return _matmul(x, ops.transpose(x)), slope


def _plus_transposed(g):
    """G + G^T.

    XLA on a CPU would fuse all that G is made of into this sum, and read it by columns a second time, which takes
    longer than the matrix products. It does not look into the branches of a condition, so G is made once and for all.
    On other devices a condition would make the host wait.
    """
    if not _only_cpus():
        return g + ops.transpose(g)
    return ops.cond(ops.isfinite(ops.sum(g[:1, :1])), lambda: g + ops.transpose(g), lambda: g)


@functools.cache
def _only_cpus():
    return all(device.startswith("cpu") for device in keras.distribution.list_devices())


def _square_norms(x):
    return ops.sum(ops.square(x), axis=-1, keepdims=True)


@serializable
def cosine_distance(pairs: Pairs) -> Tensor:
    """1 - cosine similarity, `(anchors, references)` in [0, 2]."""
    return 1.0 - cosine(pairs)


DISTANCES = {"euclidean": euclidean, "squared": squared, "cosine": cosine_distance}


def distance_function(distance: Distance) -> Callable[[Pairs], Tensor]:
    """The function `Pairs -> (anchors, references)` that `distance` names, or `distance` itself if it is one.

    Raises:
        ValueError: a name other than "euclidean", "squared" or "cosine".
    """
    if callable(distance):
        return distance
    if distance not in DISTANCES:
        raise ValueError(f"Received distance={distance!r}, expected one of {sorted(DISTANCES)} or a function of Pairs.")
    return DISTANCES[distance]


def _float(x):
    """float32, or float64 where it already is: scores never fall to half precision."""
    return x if keras.backend.standardize_dtype(x.dtype) == "float64" else ops.cast(x, "float32")


def _unit(x):
    """Rows scaled to norm 1; a zero row stays zero, with gradient 0. NaN stays NaN."""
    square = _square_norms(x)
    zero = square <= _ZERO
    return ops.where(zero, 0.0, x * ops.rsqrt(ops.where(zero, 1.0, square)))


def _products(anchors, references):
    if len(references.shape) == 3:
        return ops.sum(anchors[:, None] * references, axis=-1)
    return _matmul(anchors, ops.transpose(references))


def _matmul(a, b):
    with _full_precision():
        return ops.matmul(a, b)


def _full_precision():
    """On JAX, matrix products of distances keep all float32 digits on accelerators that would round their inputs.

    TensorFlow has one switch for the whole program, `tf.config.experimental.enable_tensor_float_32_execution`, which
    is the user's to set.
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.default_matmul_precision("float32")
    return contextlib.nullcontext()
