"""BN-Inception against a network of PyTorch, layer by layer, with the same weights at random."""

import keras
import numpy as np
import pytest

from recipes.bn_inception import bn_inception
from tests.recipes import bn_inception_reference as reference
from tfdml.models import from_backbone


@pytest.fixture(scope="module")
def found():
    return np.load(reference.FILE)


@pytest.fixture(scope="module")
def state(found):
    """A state dict with the names and shapes of the PyTorch network."""
    shapes = [tuple(int(size) for size in shape if size) for shape in found["shapes"]]
    return reference.drawn(found["names"].tolist(), shapes)


@pytest.mark.slow
def test_every_layer_gives_what_it_gives_in_pytorch(found, state, tmp_path):
    classifier = {"last_linear.weight": np.zeros((1000, 1024)), "last_linear.bias": np.zeros(1000)}
    np.savez(tmp_path / "bn_inception.npz", **state, **classifier)
    network = bn_inception(input_shape=reference.IMAGE_SHAPE[1:], weights=tmp_path / "bn_inception.npz")
    names = found["layers"].tolist()
    every = keras.Model(network.inputs, [network.get_layer(name).output for name in names])
    features = every.predict(reference.image(), verbose=0)
    for name, ours, shape, expected in zip(names, features, found["layer_shapes"], found["summaries"], strict=True):
        assert ours.shape == tuple(shape), name
        np.testing.assert_allclose(reference.summary(ours), expected, rtol=1e-4, atol=1e-4 * expected[1], err_msg=name)
    assert names[-1] == network.layers[-1].name == "inception_5b_output"


@pytest.mark.slow
def test_it_has_the_size_of_the_published_network_and_is_a_backbone_for_images_of_any_size():
    network = bn_inception(input_shape=(None, None, 3))
    # 11,295,240 parameters are published, with a classifier of 1000 classes.
    trained = sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)
    assert trained + 1024 * 1000 + 1000 == 11_295_240
    assert network.compute_output_shape((2, 224, 224, 3)) == (2, 7, 7, 1024)
    assert network.compute_output_shape((2, 227, 230, 3)) == (2, 7, 7, 1024)
    assert from_backbone(network, dim=512, freeze_batch_norm=True).output_shape == (None, 512)
