"""Numbers that a loss learns: values, bounds, files, and errors."""

import keras
import numpy as np
import pytest

from tests.backend import numbers
from tfdml import layers, losses, models, pairs

pytestmark = pytest.mark.backends

X = np.random.default_rng(0).standard_normal((6, 3)).astype("float32")
PAIRS = pairs.all_pairs(np.arange(6) // 2, X)


@pytest.mark.parametrize("log", [False, True])
def test_it_begins_with_its_initial_value(log):
    layer = layers.LearnedScalar(0.07, log=log)
    np.testing.assert_allclose(numbers(layer(PAIRS)), 0.07, rtol=1e-6)
    layer.weight.assign(-1.0)
    np.testing.assert_allclose(numbers(layer(PAIRS)), np.exp(-1) if log else -1.0, rtol=1e-6)


def towers(loss, **options):
    """Two networks of one layer, compiled."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    model = models.TwoTowers(*(keras.Model(inputs, keras.layers.Dense(2)(inputs)) for _ in range(2)))
    model.compile(keras.optimizers.SGD(0.1), loss=loss, **options)
    return model


@pytest.mark.slow
def test_training_does_not_leave_the_bound_for_good():
    temperature = layers.LearnedScalar(0.07, log=True, minimum=0.06)
    loss = losses.CLIPLoss(temperature=temperature)
    model = towers(loss)
    up, down = np.arange(6), np.roll(np.arange(6), 1)
    x = X / np.linalg.norm(X, axis=1, keepdims=True)
    for tower in model.towers:
        tower.layers[-1].set_weights([np.eye(3, 2), np.zeros(2)])
        tower.trainable = False
    model.compile(keras.optimizers.SGD(1.0), loss=loss)
    model.fit((x, x), up, epochs=5, verbose=0)  # with the same embeddings in both towers, colder is better
    assert float(temperature(PAIRS)) == pytest.approx(0.06)
    model.fit((x, x[down]), up, epochs=1, verbose=0)  # with wrong ones, warmer
    assert float(temperature(PAIRS)) > 0.061


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(initial=0.0, log=True), "Received initial=0.0 with log=True, expected a number above 0"),
        (dict(initial=1.0, log=True, minimum=0.0), "Received minimum=0.0 with log=True, expected a number above 0"),
        (dict(initial=1.0, minimum=2.0), "Received minimum=2.0 for initial=1.0, expected at most initial"),
    ],
)
def test_numbers_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        layers.LearnedScalar(**arguments)
