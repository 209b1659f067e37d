"""Shares of the places of two images in their similarity."""

import itertools

import keras
import numpy as np
import pytest

from tfdml import models
from tfdml.visualize import similarity_map

RNG = np.random.default_rng(0)
A, B = RNG.integers(0, 256, (2, 9, 12, 3)).astype("uint8")


def backbone():
    """A map of 4 x 6 places with five channels, some of them below 0 before the activation."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((9, 12, 3))
    x = keras.layers.Rescaling(1 / 128, offset=-1)(inputs)
    return keras.Model(inputs, keras.layers.Conv2D(5, 3, strides=(2, 2), activation="relu")(x))


def cosine(model):
    x, y = keras.ops.convert_to_numpy(model(np.stack([A, B]).astype("float32"), training=False))
    return x @ y / np.linalg.norm(x) / np.linalg.norm(y)


def test_behind_average_pooling_the_shares_are_sums_over_pairs_of_places():
    network = backbone()
    model = models.from_backbone(network, head=keras.layers.Dense(3, use_bias=False, name="head"))
    kernel = keras.ops.convert_to_numpy(model.get_layer("head").kernel).astype("float64")
    maps = keras.ops.convert_to_numpy(network(np.stack([A, B]).astype("float32"))).astype("float64")
    places, others = (features.reshape(-1, 5) @ kernel for features in maps)  # a vector for each place
    norms = np.linalg.norm(places.mean(axis=0)) * np.linalg.norm(others.mean(axis=0))
    pairs = np.zeros((len(places), len(others)))
    for i, j in itertools.product(range(len(places)), range(len(others))):
        pairs[i, j] = places[i] @ others[j] / (len(places) * len(others) * norms)
    found = similarity_map(model, A, B)
    np.testing.assert_allclose(found[0], pairs.sum(axis=1).reshape(maps.shape[1:3]), atol=1e-6)
    np.testing.assert_allclose(found[1], pairs.sum(axis=0).reshape(maps.shape[1:3]), atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "avg"},
        {"pooling": "max", "dim": None},
        {"pooling": "avg+max"},
        {"pooling": "gem", "normalize": False},
        {"head": keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(4, "tanh"), keras.layers.Dense(3)])},
    ],
)
def test_both_maps_sum_up_to_the_cosine(options):
    model = models.from_backbone(backbone(), **options)
    first, second = similarity_map(model, A, B)
    assert first.shape == second.shape == (4, 5)
    np.testing.assert_allclose([first.sum(), second.sum()], cosine(model), atol=1e-6)
    count = sum(len(layer._inbound_nodes) for layer in model.layers)
    for share, same in zip((second, first), similarity_map(model, B, A), strict=True):
        np.testing.assert_allclose(share, same, atol=1e-6)
    assert sum(len(layer._inbound_nodes) for layer in model.layers) == count  # Keras would keep them


def test_behind_maximum_pooling_only_places_with_a_maximum_have_a_share():
    network = backbone()
    features = keras.ops.convert_to_numpy(network(A[None].astype("float32")))[0]
    first, _ = similarity_map(models.from_backbone(network, pooling="max", dim=None), A, B)
    has_maximum = ((features == features.max(axis=(0, 1))) & (features > 0)).any(axis=-1)
    assert (abs(first[~has_maximum]) < 1e-6).all()
    assert (first[has_maximum] > 0).any()


def test_the_map_may_be_inside_of_a_nested_model():
    network = backbone()
    flat = keras.Model(network.inputs, keras.layers.Flatten()(network.output), name="features")
    inputs = keras.Input((9, 12, 3), dtype="uint8")
    outputs = keras.layers.Dense(3)(flat(keras.ops.cast(inputs, "float32")))
    model = models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(outputs))
    first, second = similarity_map(model, A, B)
    assert first.shape == (4, 5)
    np.testing.assert_allclose([first.sum(), second.sum()], cosine(model), atol=1e-6)


def test_a_zero_embedding_has_no_shares():
    model = models.from_backbone(backbone(), dim=None)
    first, second = similarity_map(model, np.zeros_like(A), np.zeros_like(B))
    assert np.isfinite(first).all()
    assert np.isfinite(second).all()


@pytest.mark.parametrize(
    ("model", "image", "message"),
    [
        (lambda: models.from_backbone(backbone()), A[:4], r"b of shape \(4, 12, 3\), expected \(9, 12, 3\), one image"),
        (backbone, A, r"output of shape \(None, 4, 5, 5\), expected \(batch, dim\)"),
        (
            lambda: keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)]),
            A,
            "a model with 0 maps of features before its output, expected one that it pools",
        ),
    ],
)
def test_what_has_no_map_or_another_shape_is_refused(model, image, message):
    with pytest.raises(ValueError, match=message):
        similarity_map(model(), A, image)
