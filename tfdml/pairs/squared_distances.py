"""Squared distances by one matrix product, and of near vectors, for which it has too few digits, by more."""

import math

import keras
import numpy as np

from tfdml._core.backends import custom_gradient, next_power_of_two, ops, reading_values, while_loop, with_diagonal
from tfdml.pairs.products import exact_product, plus_transposed, product, row_products, square_norms

# Below this fraction of the anchor's squared norm, a squared distance from one matrix product has too few digits.
_NEAR_FRACTION = 2e-4
# Up to this number of small distances per anchor, only these are recomputed.
_MAX_NEAR = 8
_POWERS_OF_TWO = np.ldexp(1.0, np.arange(-100, 127))


@custom_gradient
def squared_within(x):
    """Squared distances between the rows. The gradient is one product with H = G + G^T, G by rows and by columns."""
    x = x - central_point(x)
    both = x, x
    d2 = with_diagonal(refined(with_diagonal(bilinear_form(both, both, product), float("inf")), x, x), 0.0)

    def grad(upstream):
        h = plus_transposed(upstream)
        return 2.0 * (ops.sum(h, axis=1, keepdims=True) * x - product(h, x))

    return d2, grad


@custom_gradient
def squared_between(anchors, references, columns, is_pair):
    """Squared distances of anchors and references, whose `columns_of_references` all blocks of anchors share."""
    d2 = refined(product(_row_factor(anchors, square_norms(anchors)), columns), anchors, references, is_pair)

    def grad(upstream):
        g = 2.0 * upstream  # its sums read the pairs, and not a copy of the references, such as a memory
        by_anchors = ops.sum(g, axis=1)[:, None] * anchors - product(g, references)
        by_references = ops.sum(g, axis=0)[:, None] * references - product(ops.transpose(g), anchors)
        return by_anchors, by_references, None, None

    return d2, grad


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
    exact = sum(bilinear_form(*x, exact_product) for x in zip(_levels(anchors), _levels(references), strict=True))
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


def bilinear_form(anchors, references, multiply):
    """B(a - r, a - r) for a symmetric bilinear form B(x, y) = left(x).right(y); arguments are tuples (left, right).

    One product, [-2 left(a), B(a, a), 1] . [right(r), 1, B(r, r)], so the norms take no second pass over the pairs.
    """
    anchor_norms = row_products(*anchors)
    reference_norms = anchor_norms if references is anchors else row_products(*references)
    return multiply(_row_factor(anchors[0], anchor_norms), _column_factor(references[1], reference_norms))


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
