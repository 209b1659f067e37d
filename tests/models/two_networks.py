"""Networks whose layers have the same names, and what a model of two of them has to do in training and in files."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.backend import numbers

X = np.random.default_rng(0).integers(0, 256, (24, 4, 4, 1)).astype("uint8")


def trunk():
    return keras.Sequential([layers.Flatten(), layers.Dense(5, activation="tanh")], name="trunk")


def network(body=None, *, dim=3, seed=0):
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((4, 4, 1), dtype="uint8")
    x = (body or trunk())(layers.Rescaling(1 / 255)(inputs))
    return keras.Model(inputs, layers.Dense(dim, name="head")(layers.Dropout(0.1, seed=1)(x)))


def networks_with_a_layer_inside_of_both():
    """Two networks that share weights, and no layer of their own."""
    inner = layers.Dense(5)
    return [network(keras.Sequential([layers.Flatten(), inner])) for _ in range(2)]


def fit(model, x, y, epochs=2):
    return model.fit(x, y, batch_size=12, epochs=epochs, shuffle=False, verbose=0).history["loss"]


def assert_trains_and_resumes(model, x, y, weights, folder):
    """Training moves every weight, and a loaded file resumes to the same weights."""
    before = model.get_weights()
    fit(model, x, y)
    assert all((a != b).any() for a, b in zip(before, model.get_weights(), strict=True) if a.dtype.kind == "f")
    model.save(folder / "model.keras")
    loaded = keras.saving.load_model(folder / "model.keras")
    assert type(loaded) is type(model)
    assert len(loaded.trainable_variables) == weights
    np.testing.assert_array_equal(numbers(loaded(x)), numbers(model(x)))
    assert fit(loaded, x, y) == pytest.approx(fit(model, x, y), rel=1e-5)
    for ours, expected in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)
    loaded.save(folder / "again.keras")
    assert len(keras.saving.load_model(folder / "again.keras").trainable_variables) == weights
