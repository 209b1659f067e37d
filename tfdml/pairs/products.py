"""Matrix products with custom gradients of one product per operand, and their precision on accelerators."""

import functools
from contextlib import AbstractContextManager

import keras
import numpy as np

from tfdml._core.backends import (
    can_read,
    custom_gradient,
    is_float64,
    is_in_xla,
    list_devices,
    ops,
    plus_transpose,
    products_in,
    set_float32_products,
)
from tfdml._core.checks import require_one_of
from tfdml.pairs.base import Tensor

# The names that JAX has for them. Its CPU computes all in full float32.
_OF_JAX = {"float32": "float32", "high": "BF16_BF16_F32_X3", "fast": "tensorfloat32"}
_setting = {"precision": "float32"}
# Vectors with a squared norm up to this are zero vectors.
ZERO_NORM_SQUARED = 1e-30


def set_product_precision(precision: str) -> None:
    """Set the precision of the matrix products of distances, similarities and their gradients on accelerators.

    Inputs are rounded, sums are in float32. On a CPU, all is full float32. Products of float64 are not affected.

    | precision | inputs | error of a cosine | of a gradient | backends |
    | --- | --- | ---: | ---: | --- |
    | "float32" | float32 | 1e-6 | 1e-6 | all; the default on JAX and PyTorch |
    | "high" | two bfloat16 numbers each, three passes | 1e-5 | 5e-5 | JAX; full float32 on others |
    | "fast" | 10 bits (TF32) | 5e-4 | 2e-3 | all; the default of TensorFlow on GPUs |

    The errors are bounds that `tests/pairs/test_precision.py` holds by emulation of the rounding, for unit vectors and
    a softmax loss; errors of a gradient are relative to its largest entry. They were not measured on a GPU. Distances
    of near duplicates lose the most.

    JAX reads the setting when it traces a function: set it before the first step. TensorFlow and PyTorch have one
    switch for the whole program, layers of the model included; it is untouched until you call this function.

    Example:

        >>> tfdml.pairs.set_product_precision("high")
        >>> tfdml.pairs.set_product_precision("float32")
        >>> pairs = tfdml.pairs.pairs_with([0], [[1.0001]], [0], [[1.0]])
        >>> np.asarray(tfdml.pairs.dot(pairs), float).round(6).tolist()  # 10 bits would round it to 1
        [[1.0001]]

    Args:
        precision: "float32", "high" or "fast".
    """
    require_one_of(tuple(_OF_JAX), precision=precision)
    set_float32_products(precision)
    _setting["precision"] = precision


def product(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product in the precision that is set."""
    with products_in("float32" if is_float64(a) else _OF_JAX[_setting["precision"]]):
        return ops.matmul(a, b)


def exact_product(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product in full float32 on JAX, whatever is set."""
    with full_precision():
        return ops.matmul(a, b)


def full_precision() -> AbstractContextManager[object]:
    """A context of full float32 products on JAX, also on accelerators that round inputs by default."""
    return products_in("float32")


def as_float(x: Tensor) -> Tensor:
    """x in float32, or in float64 if it already has that type: scores are never in half precision."""
    return x if is_float64(x) else ops.cast(x, "float32")


@custom_gradient
def normalized_rows(x):
    """Rows scaled to norm 1; a zero row stays zero, with gradient 0. NaN stays NaN."""
    inverse = inverse_norms(x)
    unit = x * inverse

    def grad(upstream):
        return inverse * upstream - unit * (inverse * row_products(upstream, unit))

    return unit, grad


def inverse_norms(x):
    """1 / |x| for each row, `(rows, 1)`; 0 for a zero row."""
    square = square_norms(x)
    if can_read(square) and float(ops.amin(square)) > ZERO_NORM_SQUARED:
        return ops.rsqrt(square)
    is_zero = square <= ZERO_NORM_SQUARED
    return ops.where(is_zero, 0.0, ops.rsqrt(ops.where(is_zero, 1.0, square)))


def l2_normalize(x: np.ndarray) -> np.ndarray:
    """Rows of an array scaled to norm 1, in its precision; a zero row stays zero."""
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


@custom_gradient
def products_within(x):
    """Dot products between the rows. The gradient is one product, (G + G^T) x."""

    def grad(upstream):
        return product(plus_transposed(upstream), x)

    return product(x, ops.transpose(x)), grad


@custom_gradient
def products_between(anchors, references, transposed):
    """Dot products, with the references `transposed` once for all blocks; gradients are in the layout of the rows."""

    def grad(upstream):
        return product(upstream, references), product(ops.transpose(upstream), anchors), None

    return product(anchors, transposed), grad


@custom_gradient
def cosines_between(anchors, references):
    """Cosines of unit anchors and of references. Products are scaled instead of references, which may be many."""
    norms = inverse_norms(references)
    inverse = ops.transpose(norms)
    s = product(anchors, ops.transpose(references)) * inverse

    def grad(upstream):
        h = upstream * inverse
        along = ops.sum(upstream * s, axis=0)[:, None] * ops.square(norms)
        return product(h, references), product(ops.transpose(h), anchors) - along * references

    return s, grad


def plus_transposed(g):
    """G + G^T, with G computed once."""
    if keras.backend.backend() == "torch":
        return plus_transpose(g)
    if not (is_in_xla() and only_cpus()):
        return g + ops.transpose(g)
    # XLA on a CPU would fuse the computation of G into both terms of the sum, the second of them column by column,
    # which takes longer than the matrix products. XLA does not fuse across a condition. The other branch runs only if
    # the gradient is not finite, and is not finite either. On other devices a condition would stall the host, and a
    # graph without XLA has no condition, as TensorFlow 2.20 loses all results where it is constant: for one row.
    return ops.cond(ops.isfinite(ops.sum(g[:1, :1])), lambda: g + ops.transpose(g), lambda: g)


@functools.cache
def only_cpus() -> bool:
    """Whether all devices of Keras are CPUs."""
    return all(device.startswith("cpu") for device in list_devices())


def square_norms(x):
    """The squared norm of each row, `(rows, 1)`."""
    return row_products(x, x)


def row_products(x, y):
    """The dot product of each row of x with the same row of y, `(rows, 1)`."""
    return ops.sum(ops.multiply(x, y), axis=-1, keepdims=True)
