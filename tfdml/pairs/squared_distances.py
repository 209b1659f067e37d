"""Squared distances by one matrix product, and of near vectors, for which it has too few digits, by more."""

import math

import keras
import numpy as np

from tfdml._core.backends import (
    can_read,
    custom_gradient,
    next_power_of_two,
    ops,
    reading_values,
    squared_distances,
    while_loop,
    with_diagonal,
)
from tfdml.pairs.products import exact_product, plus_transposed, product, row_products, square_norms

# Below this fraction of the anchor's squared norm, a squared distance from one matrix product has too few digits.
_NEAR_FRACTION = 2e-4
# Up to this number of small distances per anchor, only these are recomputed.
_MAX_NEAR = 8
# The distance between duplicates, whose inverse is finite.
_SMALLEST = 1e-18
_POWERS_OF_TWO = np.ldexp(1.0, np.arange(-100, 127))


@custom_gradient
def squared_within(x):
    """Squared distances between the rows, with gradient 0 between duplicates."""
    x, d2, are_distinct = _within(x)

    def grad(upstream):
        return 2.0 * _by_rows(upstream if are_distinct else ops.where(d2 > 0, upstream, 0.0), x)

    return d2, grad


@custom_gradient
def euclidean_within(x):
    """Distances between the rows; 1e-18, with gradient 0, between duplicates."""
    x, d2, are_distinct = _within(x)
    # Roots of distinct rows need no lower limit.
    d = with_diagonal(ops.sqrt(d2), _SMALLEST) if are_distinct else root(d2)

    def grad(upstream):
        slopes = upstream / d
        return _by_rows(with_diagonal(slopes, 0.0) if are_distinct else ops.where(d > _SMALLEST, slopes, 0.0), x)

    return d, grad


def _within(x):
    """Centered rows, their squared distances, and whether no two rows are known to be duplicates."""
    norms = square_norms(x)
    if not _is_around_origin(x, norms):
        x = x - central_point(x)
        norms = square_norms(x)
    d2 = with_diagonal(_squared(x, norms), float("inf"))
    are_distinct = _are_far(d2, norms)
    return x, with_diagonal(d2 if are_distinct else refined(d2, x, x), 0.0), are_distinct


def _squared(x, norms):
    if can_read(x):
        return squared_distances(x, norms)
    return product(_row_factor(x, norms), _column_factor(x, norms))


def _by_rows(g, x):
    """The sum over r of (G + G^T)_ar (x_a - x_r): one product, with G by rows and by columns."""
    h = plus_transposed(g)
    return ops.sum(h, axis=1, keepdims=True) * x - product(h, x)


def root(d2):
    """Distances from their squares, 1e-18 between duplicates, with gradient 0."""
    return ops.sqrt(ops.maximum(d2, _SMALLEST**2))


def _are_far(d2, norms):
    """Whether all squared distances are known to need no refinement, and to be above 0."""
    return can_read(d2) and float(ops.amin(d2)) > _NEAR_FRACTION * float(ops.amax(norms)) + _SMALLEST**2


@custom_gradient
def squared_between(anchors, references, columns, is_pair):
    """Squared distances of anchors and references, whose `columns_of_references` all blocks of anchors share."""
    norms = square_norms(anchors)
    d2 = product(_row_factor(anchors, norms), columns)
    d2 = d2 if _are_far(d2, norms) else refined(d2, anchors, references, is_pair)

    def grad(upstream):
        g = 2.0 * upstream  # its sums read the pairs, and not a copy of the references, such as a memory
        by_anchors = ops.sum(g, axis=1)[:, None] * anchors - product(g, references)
        by_references = ops.sum(g, axis=0)[:, None] * references - product(ops.transpose(g), anchors)
        return by_anchors, by_references, None, None

    return d2, grad


def _is_around_origin(x, norms):
    """Whether the mean row is known to be so near 0 that to subtract it would save no digit."""
    if not can_read(x):
        return False
    total = ops.sum(x, axis=0)
    return 2.0 * float(ops.sum(total * total)) <= x.shape[0] * float(ops.sum(norms))


def central_point(x):
    """The mean row, rounded to a grid as coarse as the spread of the rows, so that small integers stay exact.

    It is 0 for rows spread around 0, such as unit vectors, and close to the mean for rows far from 0.
    """
    mean = ops.mean(x, axis=0)
    spread = ops.amax(ops.abs(x - mean))
    return rounded(mean, power_of_two(spread + eps(x) * ops.amax(ops.abs(mean))))


@reading_values
def refined(d2, anchors, references, *is_pair):
    """The same squared distances, recomputed where they are small relative to the norms; 0 between duplicates.

    If every anchor has few near references, such as one copy in a memory, only these are recomputed, from differences;
    otherwise the whole matrix is, which takes six times the products.
    """
    norms = square_norms(anchors)
    near = _NEAR_FRACTION * norms
    candidates = ops.where(*is_pair, d2, float("inf")) if is_pair else d2

    def recompute(d2):
        duplicate = 8.0 * eps(anchors) ** 2 * anchors.shape[-1] * norms
        most = 0 if _references_are_divided() else min(_MAX_NEAR, d2.shape[1] or 0)
        is_near = candidates < near
        return ops.cond(
            ops.amax(ops.sum(ops.cast(is_near, "int32"), axis=1)) <= most,
            lambda: _with_exact_pairs(d2, is_near, most, anchors, references, duplicate),
            lambda: _with_exact_matrix(d2, near, anchors, references, duplicate),
        )

    are_far = ops.all(ops.amin(candidates - near, axis=1) >= 0)  # booleans of all pairs take longer on a CPU
    return _apply_if(ops.logical_not(are_far), recompute, d2)


def _references_are_divided():
    """Whether references may be on several devices, each of which would gather all of a matrix to sort its rows."""
    return isinstance(keras.distribution.distribution(), keras.distribution.ModelParallel)


def _apply_if(condition, function, x):
    """`function(x)` if the condition holds, else x: a loop, as XLA copies x into a condition, but not into a loop."""

    def once(condition, x):
        return ops.zeros_like(condition), function(x)

    return while_loop(lambda condition, _: condition, once, (condition, x))[1]


def _with_exact_matrix(d2, near, anchors, references, duplicate):
    """The same squared distances; those below `near` come from products without rounding errors."""
    exact = sum(_exact_form(*x) for x in zip(_levels(anchors), _levels(references), strict=True))
    return ops.where(d2 < near, ops.where(exact > duplicate, exact, 0.0), d2)


def _with_exact_pairs(d2, is_near, most, anchors, references, duplicate):
    """The same squared distances; up to `most` near references of each anchor come from differences."""
    if most == 0:
        return d2
    _, columns = ops.top_k(ops.where(is_near, -d2, -float("inf")), most)
    exact = ops.sum(ops.square(anchors[:, None] - ops.take(references, columns, axis=0)), axis=-1)
    exact = ops.where(exact > duplicate, exact, 0.0)
    before, is_replaced = (ops.take_along_axis(x, columns, axis=1) for x in (d2, is_near))
    rows = ops.broadcast_to(ops.arange(ops.shape(columns)[0], dtype=columns.dtype)[:, None], ops.shape(columns))
    indices = ops.reshape(ops.stack([rows, columns], axis=-1), (-1, 2))
    return ops.scatter_update(d2, indices, ops.reshape(ops.where(is_replaced, exact, before), (-1,)))


def _levels(x):
    """Bilinear forms (left, right) that add up to x.y, on numbers with so few digits that sums of products are exact.

    x = high + middle + low. For nearby rows, high.high, high.middle + middle.high and middle.middle are multiples of
    one step and below 2^24 steps (2^53 in float64), in any order. The rounding of the remainder is negligible.
    """
    digits = np.finfo(keras.backend.standardize_dtype(x.dtype)).nmant + 1
    scale = power_of_two(ops.sqrt(square_norms(x)))
    high = rounded(x, scale * 2.0 ** -((digits - 4) // 2))
    middle = rounded(x - high, scale * 2.0 ** -(digits - 3 - math.ceil(math.log2(x.shape[-1]) / 2)))
    low = x - high - middle
    crossed = ops.concatenate([high, middle], axis=-1), ops.concatenate([middle, high], axis=-1)
    remainder = ops.concatenate([x, low], axis=-1), ops.concatenate([low, high + middle], axis=-1)
    return [(high, high), crossed, (middle, middle), remainder]


def rounded(x, step):
    """x rounded to the nearest multiple of a power of two; the result is exact."""
    return ops.round(x / step) * step


def power_of_two(x):
    """An exact power of two from x to 2 x, which `ops.power` does not guarantee; a small power of two for x = 0."""
    low, high = -100, 126
    if keras.backend.backend() == "torch":
        return next_power_of_two(ops.clip(x, 2.0**low, 2.0**high))
    exponent = ops.clip(ops.ceil(ops.log2(ops.where(x > 0, x, 2.0**low))), low, high)
    return ops.take(ops.convert_to_tensor(_POWERS_OF_TWO, x.dtype), ops.cast(exponent, "int32") - low)


def _exact_form(anchors, references):
    """B(a - r, a - r) for a symmetric bilinear form B(x, y) = left(x).right(y); arguments are tuples (left, right).

    One product, [-2 left(a), B(a, a), 1] . [right(r), 1, B(r, r)], so the norms take no second pass over the pairs.
    """
    left = _row_factor(anchors[0], row_products(*anchors))
    return exact_product(left, _column_factor(references[1], row_products(*references)))


def columns_of_references(references):
    """The right factor of the product that is the squared distances of any anchors to these references."""
    return _column_factor(references, square_norms(references))


def _row_factor(anchors, norms):
    return ops.concatenate([-2.0 * anchors, norms, ops.ones_like(norms)], axis=-1)


def _column_factor(references, norms):
    return ops.transpose(ops.concatenate([references, ops.ones_like(norms), norms], axis=-1))


def eps(x):
    """The rounding error of 1 in the type of x."""
    return float(np.finfo(keras.backend.standardize_dtype(x.dtype)).eps)
