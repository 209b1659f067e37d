"""Distances and similarities of `Pairs`, with custom gradients of one matrix product per operand."""

import functools
from collections.abc import Callable

import keras
import numpy as np

from tfdml._core.backends import custom_gradient, list_devices, ops, plus_transpose
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.pairs.base import Distance, Pairs, Tensor
from tfdml.pairs.blocks import require_whole_batch
from tfdml.pairs.near_duplicates import (
    bilinear_form,
    eps,
    power_of_two,
    refined,
    rounded,
    row_products,
    square_norms,
)
from tfdml.pairs.precision import product

# Vectors with a squared norm up to this are zero vectors.
_ZERO_NORM_SQUARED = 1e-30


def normalized(pairs: Pairs) -> Pairs:
    """The same pairs with embeddings scaled to norm 1. A zero vector stays zero, with gradient 0.

    Example:

        >>> pairs = tfdml.pairs.normalized(tfdml.pairs.all_pairs([0, 1], [[3.0, 4.0], [0.0, 2.0]]))
        >>> np.asarray(pairs.anchors, float).round(4).tolist()
        [[0.6, 0.8], [0.0, 1.0]]
    """
    references = None if pairs.is_self else normalized_rows(as_float(pairs.references))
    return pairs._replace(anchors=normalized_rows(as_float(pairs.anchors)), references=references)


def dot(pairs: Pairs) -> Tensor:
    """Dot products of anchors and references, `(anchors, references)`, in float32 at least.

    See also: `cosine`, which does not depend on the norms.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 1], [[3.0, 4.0], [0.0, 2.0]])
        >>> np.asarray(tfdml.pairs.dot(pairs)).tolist()  # 3 * 0 + 4 * 2 = 8
        [[25.0, 8.0], [8.0, 4.0]]
    """
    if pairs.is_self:
        return _products_within(as_float(pairs.anchors))
    return _products(as_float(pairs.anchors), as_float(pairs.references))


def cosine(pairs: Pairs) -> Tensor:
    """Cosine similarities, `(anchors, references)` in [-1, 1]. A zero vector has similarity 0, with gradient 0.

    See also: `cosine_distance`, which is 1 minus it; `dot` without normalization.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 1], [[3.0, 4.0], [0.0, 2.0]])
        >>> np.asarray(tfdml.pairs.cosine(pairs), float).round(4).tolist()  # 8 / (5 * 2)
        [[1.0, 0.8], [0.8, 1.0]]
    """
    if pairs.references is None or len(pairs.references.shape) == 3:
        return dot(normalized(pairs))
    return _cosines_between(normalized_rows(as_float(pairs.anchors)), as_float(pairs.references))


def squared(pairs: Pairs) -> Tensor:
    """Squared euclidean distances, `(anchors, references)`, with gradient 0 between duplicates.

    Rows that differ by less than the rounding error are duplicates, at distance 0: about 1e-5 of their norm in float32,
    1e-14 in float64.

    See also: `euclidean`, its square root.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0, 0.0]], [0, 1], [[3.0, 4.0], [0.0, 2.0]])
        >>> np.asarray(tfdml.pairs.squared(pairs)).tolist()  # 9 + 16 and 4
        [[25.0, 4.0]]
    """
    return ops.relu(_squared(pairs))  # its gradient at 0 is 0


def euclidean(pairs: Pairs) -> Tensor:
    """Euclidean distances, `(anchors, references)`, with gradient 0 (not NaN) between duplicates.

    Their distance is 1e-18 instead of 0, which keeps the gradient of the square root finite. Duplicates are defined as
    in `squared`.

    See also: `squared`; `cosine_distance` where the length of an embedding has no meaning.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[0.0, 0.0]], [0, 1], [[3.0, 4.0], [0.0, 2.0]])
        >>> np.asarray(tfdml.pairs.euclidean(pairs)).tolist()
        [[5.0, 2.0]]
    """
    return ops.sqrt(ops.maximum(_squared(pairs), 1e-36))


@serializable
def two_way_euclidean(pairs: Pairs) -> Tensor:
    """min(d_ij, d_ji): the distance of anchor i and reference j, or of anchor j and reference i if it is smaller.

    Row i of anchors and references is a pair of one class, as in `even_against_odd`. The nearest negative is then the
    nearest to either of the two, which is hardest-in-batch mining:

    Example:

        >>> pairs = tfdml.pairs.even_against_odd([0, 0, 1, 1], [[0.0], [2.0], [3.0], [7.0]])
        >>> np.asarray(tfdml.pairs.euclidean(pairs)).tolist()  # negatives at 7 and 1
        [[2.0, 7.0], [1.0, 4.0]]
        >>> np.asarray(tfdml.pairs.two_way_euclidean(pairs)).tolist()  # the nearer of the two for both anchors
        [[2.0, 1.0], [1.0, 4.0]]
        >>> loss = tfdml.losses.BatchHardTripletLoss(
        ...     margin=1.0, pairing=tfdml.pairs.even_against_odd, distance=tfdml.pairs.two_way_euclidean
        ... )
        >>> float(loss([0, 0, 1, 1], [[0.0], [2.0], [3.0], [7.0]]))  # (1 + 2 - 1 + 1 + 4 - 1) / 2
        3.0

    Args:
        pairs: `Pairs` with the same number of anchors and references, which all anchors share.

    Returns:
        `(anchors, references)`, symmetric.

    Raises:
        ValueError: another number of references than anchors.

    Source: Mishchuk, Mishkin, Radenovic, Matas, Working Hard to Know Your Neighbor's Margins: Local Descriptor Learning
    Loss, NeurIPS 2017 (HardNet), eq. 1 and 2.
    """
    require_whole_batch(pairs, "two_way_euclidean", "it needs the distances from all references to all anchors")
    d = euclidean(pairs)
    expected = "as many references as anchors, in pairs. Use pairing=tfdml.pairs.even_against_odd"
    require(d.shape[0] == d.shape[1], f"distances of shape {tuple(d.shape)}", expected)
    return ops.minimum(d, ops.transpose(d))


def _squared(pairs):
    """Squared distances, 0 between duplicates, of vectors relative to a point near the mean reference.

    Rounding errors grow with the norms, and distances do not depend on the origin.
    """
    references = as_float(pairs.reference_embeddings)
    if len(references.shape) == 3:
        return ops.sum(ops.square(as_float(pairs.anchors)[:, None] - references), axis=-1)
    if pairs.is_self:
        return _squared_within(references)
    center = _center(ops.stop_gradient(references))
    is_pair = ops.stop_gradient(pairs.positive + pairs.negative) > 0
    return _squared_between(as_float(pairs.anchors) - center, references - center, is_pair)


def _center(x):
    """The mean row, rounded to a grid as coarse as the spread of the rows, so that small integers stay exact.

    It is 0 for rows spread around 0, such as unit vectors, and close to the mean for rows far from 0.
    """
    mean = ops.mean(x, axis=0)
    spread = ops.amax(ops.maximum(ops.amax(x, axis=0) - mean, mean - ops.amin(x, axis=0)))
    return rounded(mean, power_of_two(spread + eps(x) * ops.amax(ops.abs(mean))))


@custom_gradient
def _squared_within(x):
    """Squared distances between the rows. The gradient is one product with H = G + G^T, G by rows and by columns."""
    rows = ops.arange(ops.shape(x)[0])
    is_pair = rows[:, None] != rows
    x = x - _center(x)
    d2 = ops.where(is_pair, refined(_one_product(x, x), is_pair, x, x), 0.0)

    def grad(upstream):
        h = _plus_transpose(upstream)
        return 2.0 * (ops.sum(h, axis=1, keepdims=True) * x - product(h, x))

    return d2, grad


@custom_gradient
def _squared_between(anchors, references, is_pair):
    """Squared distances of anchors and references. The gradient does not depend on how they were computed."""
    d2 = refined(_one_product(anchors, references), is_pair, anchors, references)

    def grad(upstream):
        g = 2.0 * upstream  # its sums read the pairs, and not a copy of the references, such as a memory
        by_anchors = ops.sum(g, axis=1)[:, None] * anchors - product(g, references)
        by_references = ops.sum(g, axis=0)[:, None] * references - product(ops.transpose(g), anchors)
        return by_anchors, by_references, None

    return d2, grad


def _one_product(anchors, references):
    """|a|^2 + |r|^2 - 2 a.r, with an error of a few eps (|a|^2 + |r|^2)."""
    left = anchors, anchors
    return bilinear_form(left, left if references is anchors else (references, references), product)


@custom_gradient
def _products_within(x):
    """Dot products between the rows. The gradient is one product, (G + G^T) x."""

    def grad(upstream):
        return product(_plus_transpose(upstream), x)

    return product(x, ops.transpose(x)), grad


def _plus_transpose(g):
    """G + G^T, with G computed once."""
    if keras.backend.backend() == "torch":
        return plus_transpose(g)
    if not only_cpus():
        return g + ops.transpose(g)
    # XLA on a CPU would fuse the computation of G into both terms of the sum, the second of them column by column,
    # which takes longer than the matrix products. XLA does not fuse across a condition. The other branch runs only if
    # the gradient is not finite, and is not finite either. On other devices a condition would stall the host.
    return ops.cond(ops.isfinite(ops.sum(g[:1, :1])), lambda: g + ops.transpose(g), lambda: g)


@functools.cache
def only_cpus() -> bool:
    """Whether all devices of Keras are CPUs."""
    return all(device.startswith("cpu") for device in list_devices())


@serializable
def cosine_distance(pairs: Pairs) -> Tensor:
    """1 - cosine similarity, `(anchors, references)` in [0, 2].

    See also: `cosine`, the similarity; `euclidean`.

    Example:

        >>> pairs = tfdml.pairs.pairs_with([0], [[3.0, 4.0]], [0, 1], [[0.0, 2.0], [-4.0, 3.0]])
        >>> np.asarray(tfdml.pairs.cosine_distance(pairs), float).round(4).tolist()  # 1 - 8 / 10, and a right angle
        [[0.2, 1.0]]
    """
    return 1.0 - cosine(pairs)


@serializable
def snr(pairs: Pairs) -> Tensor:
    """Inverse signal-to-noise ratios, `(anchors, references)`: var(r - a) / var(a), variances over dimensions.

    The anchor is the signal, so the distance is not symmetric. It does not change with the scale of all embeddings. An
    anchor whose entries are equal, up to rounding, has no signal: its distances are 0, with gradient 0.

    See also: `squared`, which grows with the scale of the embeddings.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 1], [[1.0, -1.0], [3.0, -3.0]])  # variances 1 and 9, difference 4
        >>> np.asarray(tfdml.pairs.snr(pairs), float).round(4).tolist()  # 4 / 1 and 4 / 9
        [[0.0, 4.0], [0.4444, 0.0]]

    Source: Yuan, Deng, Tang, Tang, Chen, Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning, CVPR
    2019.
    """
    references = None if pairs.is_self else _centered_rows(as_float(pairs.references))
    pairs = pairs._replace(anchors=_centered_rows(as_float(pairs.anchors)), references=references)
    square = square_norms(pairs.anchors)
    is_zero = square <= _ZERO_NORM_SQUARED
    return ops.where(is_zero, 0.0, squared(pairs) / ops.where(is_zero, 1.0, square))


def _centered_rows(x):
    """Rows minus their mean; 0 where the difference is rounding error."""
    centered = x - ops.mean(x, axis=-1, keepdims=True)
    rounding = 4.0 * eps(x) ** 2 * square_norms(x)
    return ops.where(square_norms(centered) <= rounding, 0.0, centered)


DISTANCES = {"euclidean": euclidean, "squared": squared, "cosine": cosine_distance, "snr": snr}


def distance_function(distance: Distance) -> Callable[[Pairs], Tensor]:
    """The distance function with this name, `Pairs -> (anchors, references)`; a function is returned as it is.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 1], [[0.0], [3.0]])
        >>> np.asarray(tfdml.pairs.distance_function("squared")(pairs)).tolist()
        [[0.0, 9.0], [9.0, 0.0]]
        >>> tfdml.pairs.distance_function(tfdml.pairs.dot) is tfdml.pairs.dot
        True

    Raises:
        ValueError: a name other than "euclidean", "squared", "cosine" or "snr".
    """
    if callable(distance):
        return distance
    require(distance in DISTANCES, f"distance={distance!r}", f"one of {sorted(DISTANCES)} or a function of Pairs")
    return DISTANCES[distance]


def as_float(x: Tensor) -> Tensor:
    """x in float32, or in float64 if it already has that type: scores are never in half precision."""
    return x if keras.backend.standardize_dtype(x.dtype) == "float64" else ops.cast(x, "float32")


@custom_gradient
def normalized_rows(x):
    """Rows scaled to norm 1; a zero row stays zero, with gradient 0. NaN stays NaN."""
    inverse = _inverse_norms(x)
    unit = x * inverse

    def grad(upstream):
        return inverse * upstream - unit * (inverse * row_products(upstream, unit))

    return unit, grad


def _inverse_norms(x):
    """1 / |x| for each row, `(rows, 1)`; 0 for a zero row."""
    square = square_norms(x)
    is_zero = square <= _ZERO_NORM_SQUARED
    return ops.where(is_zero, 0.0, ops.rsqrt(ops.where(is_zero, 1.0, square)))


def l2_normalize(x: np.ndarray) -> np.ndarray:
    """Rows of an array scaled to norm 1, in its precision; a zero row stays zero."""
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def _products(anchors, references):
    if len(references.shape) == 3:
        return ops.sum(anchors[:, None] * references, axis=-1)
    return _products_between(anchors, references)


@custom_gradient
def _products_between(anchors, references):
    """Dot products. The gradient by references is one product in the layout of the references, not its transpose."""

    def grad(upstream):
        return product(upstream, references), product(ops.transpose(upstream), anchors)

    return product(anchors, ops.transpose(references)), grad


@custom_gradient
def _cosines_between(anchors, references):
    """Cosines of unit anchors and of references. Products are scaled instead of references, which may be many."""
    inverse = ops.transpose(_inverse_norms(references))
    s = product(anchors, ops.transpose(references)) * inverse

    def grad(upstream):
        h = upstream * inverse
        along = ops.transpose(ops.sum(upstream * s, axis=0, keepdims=True) * ops.square(inverse))
        return product(h, references), product(ops.transpose(h), anchors) - along * references

    return s, grad
