"""What every loss promises under XLA: in a file of its own, as what is compiled stays in the memory of a process."""

import functools

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, compiled, fast, gradient, gradient_of, numbers
from tests.losses.test_contract import LARGEST, batch, even, every_class, every_loss

pytestmark = pytest.mark.backends


@functools.cache
def value_and_slope(loss, way):
    """The loss of one batch's labels and its gradient, as a function of the embeddings; compiled once for all tests."""
    labels, _ = even(*batch(LARGEST))
    return way(lambda v: (loss(labels, v), gradient_of(lambda w: loss(labels, w), v)))


@every_loss
def test_compiled_by_xla_it_gives_the_same_values_and_gradients(loss):
    labels, x = even(*batch(LARGEST))
    value, slope = value_and_slope(loss, compiled)(x)
    np.testing.assert_allclose(numbers(value), numbers(loss(labels, x)), rtol=1e-5)
    np.testing.assert_allclose(numbers(slope), gradient(lambda v: loss(labels, v), x), rtol=1e-4, atol=2e-6)


@every_class
@pytest.mark.parametrize("way", [fast, compiled] if BACKEND == "tensorflow" else [compiled])
def test_loss_and_gradient_are_finite_together_or_both_are_not(loss, way):
    _, x = even(*batch(LARGEST))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    for norm in (1e15, 1e19, 1e25, 1e38, np.inf, np.nan):
        value, slope = value_and_slope(loss, way)(keras.ops.convert_to_tensor(unit * np.float32(norm)))
        finite = np.isfinite(numbers(value))
        assert np.isfinite(numbers(slope)).all() == finite, norm
        assert finite == (norm < 1e16), norm  # beyond 4e18 squares of distances overflow


@every_class
@pytest.mark.parametrize(
    ("policy", "rows"),
    [("mixed_bfloat16", 20), ("mixed_float16", 8)] if BACKEND == "tensorflow" else [("mixed_bfloat16", 20)],
)
def test_fit_takes_a_short_last_batch_compiled_and_in_mixed_precision(loss, policy, rows):
    labels, x = batch(np.arange(rows) // 2)
    model = keras.Sequential([keras.layers.Input((5,)), keras.layers.Dense(4, dtype=policy)])
    model.compile("sgd", loss=loss, jit_compile=True)
    history = model.fit(x, labels, batch_size=8, epochs=1, verbose=0)  # 8, 8, 4 of 20
    assert np.isfinite(history.history["loss"]).all()
