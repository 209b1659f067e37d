"""The part of a model up to the map that it pools."""

import keras
import numpy as np
import pytest

from tests.backend import numbers
from tfdml import models, networks

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 9, 12, 3)).astype("uint8")


def backbone():
    inputs = keras.Input((9, 12, 3))
    return keras.Model(inputs, keras.layers.Conv2D(5, 3, strides=2, activation="relu")(inputs))


def nested():
    network = backbone()
    pooled = keras.Model(network.inputs, keras.layers.GlobalAveragePooling2D()(network.output))
    inputs = keras.Input((9, 12, 3), dtype="uint8")
    x = keras.layers.Dense(2)(pooled(keras.ops.cast(inputs, "float32") / 255))
    return models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(x)), network


def test_the_map_is_the_output_of_the_backbone():
    network = backbone()
    part = networks.feature_map(models.from_backbone(network, dim=4))
    assert part.output_shape == (None, 4, 5, 5)
    found = part.predict(IMAGES, verbose=0)
    np.testing.assert_allclose(found, numbers(network(IMAGES.astype("float32"))), rtol=1e-5)


def test_the_map_of_a_nested_model_is_behind_what_comes_before_it():
    model, network = nested()
    found = networks.feature_map(model).predict(IMAGES, verbose=0)
    np.testing.assert_allclose(found, numbers(network(IMAGES.astype("float32") / 255)), rtol=1e-5, atol=1e-6)


def test_a_model_without_a_map_is_an_error():
    with pytest.raises(ValueError, match="a model with 0 maps of features before its output, expected one"):
        networks.feature_map(keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)]))
