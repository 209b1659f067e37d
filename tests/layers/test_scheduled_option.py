"""Settings that follow a schedule of training steps."""

import keras
import numpy as np
import pytest

from tests.backend import numbers
from tfdml import layers, losses, pairs

pytestmark = pytest.mark.backends

RNG = np.random.default_rng(0)
LABELS = np.array([0, 0, 1, 1, 2, 2, 3, 3])
X = RNG.standard_normal((8, 4)).astype("float32")
GROWING = keras.optimizers.schedules.PolynomialDecay(0.0, decay_steps=4, end_learning_rate=0.4)


@pytest.mark.parametrize("make", [losses.CosFaceLoss, losses.ArcFaceLoss], ids=lambda make: make.__name__)
def test_the_margin_is_that_of_the_step(make):
    growing = layers.ScheduledOption(GROWING)
    loss = make(pairing=pairs.all_pairs, margin=growing)
    for margin in (0.0, 0.1, 0.2, 0.3, 0.4, 0.4):
        expected = make(pairing=pairs.all_pairs, margin=margin).call(LABELS, X)
        np.testing.assert_allclose(numbers(loss.call(LABELS, X)), numbers(expected), rtol=1e-5)
        growing.update(LABELS, X)


def test_a_margin_may_be_a_function_that_returns_one_per_anchor():
    margins = np.linspace(0.1, 0.8, 8).astype("float32")
    for make in (losses.CosFaceLoss, losses.ArcFaceLoss):
        values = numbers(make(pairing=pairs.all_pairs, margin=lambda _: margins).call(LABELS, X))
        for row, margin in enumerate(margins):
            expected = numbers(make(pairing=pairs.all_pairs, margin=float(margin)).call(LABELS, X))[row]
            np.testing.assert_allclose(values[row], expected, rtol=1e-5)


def test_what_is_no_schedule_is_refused():
    with pytest.raises(ValueError, match=r"Received schedule=0\.5, expected a function of the step"):
        layers.ScheduledOption(0.5)
