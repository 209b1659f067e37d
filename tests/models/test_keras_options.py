"""Averages of the weights, an option of Keras."""

import keras
import numpy as np
import pytest

from tests.backend import numbers
from tfdml import callbacks, losses, models

pytestmark = pytest.mark.backends

X = np.random.default_rng(0).standard_normal((8, 6, 6, 3)).astype("float32")
LABELS = np.arange(8) // 2


def made(**options):
    keras.utils.set_random_seed(1)
    images = keras.Input((6, 6, 3))
    x = keras.layers.Conv2D(4, 3, activation="relu")(images)
    model = models.EmbeddingModel(images, keras.layers.Dense(3)(keras.layers.Flatten()(x)))
    model.compile(keras.optimizers.SGD(0.1, **options), loss=losses.MultiSimilarityLoss())
    return model


def fit(model, epochs=3, **options):
    model.fit(X, LABELS, batch_size=8, shuffle=False, epochs=epochs, verbose=0, **options)
    return model


def weights(model):
    return [numbers(variable) for variable in model.trainable_variables]


def assert_close(first, second, **tolerance):
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_allclose(ours, theirs, **tolerance)


@pytest.mark.slow
def test_use_ema_ends_with_the_moving_average_and_resumes_to_it(tmp_path):
    steps = []
    fit(
        plain := made(),
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: steps.append(weights(plain)))],
    )
    expected = steps[0]  # the first step begins the average
    for step in steps[1:]:
        expected = [0.75 * average + 0.25 * weight for average, weight in zip(expected, step, strict=True)]
    averaged = {"use_ema": True, "ema_momentum": 0.75}
    assert_close(weights(fit(made(**averaged))), expected, rtol=1e-4, atol=1e-6)
    path = tmp_path / "state.keras"
    fit(made(**averaged), 1, callbacks=[callbacks.TrainingCheckpoint(path)])
    assert_close(weights(fit(keras.saving.load_model(path), initial_epoch=1)), expected, rtol=1e-4, atol=1e-6)
