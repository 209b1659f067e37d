"""The precision of matrix products: what is set, and what it does to gradients, by emulation of the rounding."""

import ml_dtypes
import numpy as np
import pytest
from keras import ops

from tests.backend import BACKEND, gradient
from tfdml import losses
from tfdml.pairs import products, set_product_precision

pytestmark = pytest.mark.backends
LABELS = np.arange(64) // 4


@pytest.fixture
def precision():
    """Sets a precision, and the default after the test."""
    yield set_product_precision
    set_product_precision("float32")


def embeddings():
    rng = np.random.default_rng(0)
    x = 0.5 * rng.standard_normal((16, 128))[LABELS] + rng.standard_normal((64, 128))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def rounded(x, name):
    """The arrays, float64, whose sum stands for x: one of 10 bits, or two in bfloat16."""
    if name == "fast":
        mantissa, exponent = np.frexp(x.astype("float32"))
        return [np.ldexp(np.round(mantissa * 2.0**11) / 2.0**11, exponent).astype("float64")]
    high = x.astype(ml_dtypes.bfloat16).astype("float64")
    return [high, (x - high).astype(ml_dtypes.bfloat16).astype("float64")]


def emulated(a, b, name):
    """The product of rounded inputs; "high" leaves out the product of the two rests."""
    left, right = rounded(a, name), rounded(b, name)
    return sum(x @ y for i, x in enumerate(left) for j, y in enumerate(right) if i + j < 2)


def error_of_gradient(loss, name):
    """Largest error of the gradient of a loss of similarities by rounding in its three products, relative to the
    largest entry. All else is in float64, where the backend has it.
    """
    x = embeddings()
    h, rounded_h = (g + g.T for g in (gradient(loss, s) for s in (x @ x.T, emulated(x, x.T, name))))
    return np.abs(emulated(rounded_h, x, name) - h @ x).max() / np.abs(h @ x).max()


@pytest.mark.parametrize(("name", "cosine_bound", "gradient_bound"), [("high", 1e-5, 5e-5), ("fast", 5e-4, 2e-3)])
def test_the_rounding_stays_within_the_stated_error(name, cosine_bound, gradient_bound):
    x = embeddings()
    error = np.abs(emulated(x, x.T, name) - x @ x.T).max()
    assert cosine_bound / 100 < error < cosine_bound

    def softmax_loss(s):
        return -ops.mean(ops.log_softmax(s / 0.1, axis=1) * ops.convert_to_tensor(LABELS[:, None] == LABELS, s.dtype))

    assert gradient_bound / 1000 < error_of_gradient(softmax_loss, name) < gradient_bound


@pytest.mark.parametrize("name", ["high", "fast"])
def test_on_a_cpu_gradients_are_those_of_full_float32(name, precision):
    x, loss = embeddings().astype("float32"), losses.NTXentLoss()
    expected = gradient(lambda x: loss(LABELS, x), x)
    precision(name)
    np.testing.assert_allclose(gradient(lambda x: loss(LABELS, x), x), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.skipif(BACKEND != "jax", reason="JAX names the precision of each product")
@pytest.mark.parametrize(("name", "expected"), [("float32", "HIGHEST"), ("high", "BF16_BF16_F32_X3"), ("fast", "HIGH")])
def test_products_on_jax_have_the_precision_that_is_set(name, expected, precision):
    import jax

    precision(name)
    traced = str(jax.make_jaxpr(lambda x: products.product(x, x.T))(np.ones((2, 3), "float32")))
    assert expected in traced


def test_tensorflow_and_torch_round_inputs_only_if_fast(precision):
    rounds = {}
    for name in ("float32", "high", "fast"):
        precision(name)
        rounds[name] = switched()
    assert rounds == {"float32": False, "high": False, "fast": BACKEND != "jax"}


def switched():
    """Whether the framework may round the inputs of float32 products."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.config.experimental.tensor_float_32_execution_enabled()
    if BACKEND == "torch":
        import torch

        return torch.get_float32_matmul_precision() != "highest"
    return False


def test_another_precision_is_an_error():
    with pytest.raises(ValueError, match="precision='half'"):
        set_product_precision("half")
