"""Precision of matrix products on accelerators."""

from contextlib import AbstractContextManager

from tfdml._core.backends import ops, products_in, set_float32_products
from tfdml._core.checks import require_one_of
from tfdml.pairs.base import Tensor

# The names that JAX has for them. Its CPU computes all in full float32.
_OF_JAX = {"float32": "float32", "high": "BF16_BF16_F32_X3", "fast": "tensorfloat32"}
_setting = {"precision": "float32"}


def set_product_precision(precision: str) -> None:
    """Set the precision of the matrix products of distances, similarities and their gradients on accelerators.

    Sums are in float32 in each case; the inputs are rounded. On a CPU, all are full float32. Products of float64
    embeddings are not affected.

    | precision | inputs | error of a cosine | of a gradient | backends |
    | --- | --- | ---: | ---: | --- |
    | "float32" | float32 | 1e-6 | 1e-6 | all; the default on JAX and PyTorch |
    | "high" | two bfloat16 numbers each, three passes | 1e-5 | 5e-5 | JAX; full float32 on others |
    | "fast" | 10 bits (TF32) | 5e-4 | 2e-3 | all; the default of TensorFlow on GPUs |

    The errors are bounds that `tests/pairs/test_precision.py` holds by emulation of the rounding, against float64, for
    unit vectors and a softmax loss; those of a gradient are relative to its largest entry. They were not measured on a
    GPU. Distances of near duplicates lose the most, because a squared distance is a difference of products.

    JAX reads the setting when it traces a function: set it before the first step. TensorFlow and PyTorch have one
    switch for the whole program, which also holds for the layers of the model; until this function is called, theirs is
    left as it is.

    Example:

        >>> tfdml.pairs.set_product_precision("high")
        >>> tfdml.pairs.set_product_precision("float32")
        >>> pairs = tfdml.pairs.pairs_with([0], [[1.0001]], [0], [[1.0]])
        >>> np.asarray(tfdml.pairs.dot(pairs), float).round(6).tolist()  # 10 bits would round it to 1
        [[1.0001]]

    Args:
        precision: "float32", "high" or "fast".

    Raises:
        ValueError: another precision.
    """
    require_one_of(tuple(_OF_JAX), precision=precision)
    set_float32_products(precision)
    _setting["precision"] = precision


def product(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product in the precision that is set."""
    is_float64 = str(a.dtype).endswith("float64")
    with products_in("float32" if is_float64 else _OF_JAX[_setting["precision"]]):
        return ops.matmul(a, b)


def exact_product(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product in full float32 on JAX, whatever is set."""
    with full_precision():
        return ops.matmul(a, b)


def full_precision() -> AbstractContextManager[object]:
    """A context of full float32 products on JAX, also on accelerators that round inputs by default."""
    return products_in("float32")
