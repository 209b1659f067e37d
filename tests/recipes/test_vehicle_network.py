"""The two-branch network of vehicles: shapes and numbers of the paper, and what reaches which output."""

import keras
import numpy as np
import pytest

from recipes.reidentification import vehicle_network, vgg_m


def pooled(images):
    return keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3, strides=4)(images))


@pytest.mark.slow
def test_the_trunk_of_the_paper_has_its_layer_shapes_and_numbers():
    images = keras.Input((224, 224, 3))
    trunk = keras.Model(images, vgg_m(images))
    convolutions = [layer for layer in trunk.layers if isinstance(layer, keras.layers.Conv2D)]
    shapes = [tuple(layer.output.shape[1:]) for layer in convolutions]
    assert shapes == [(109, 109, 96), (26, 26, 256), *3 * [(13, 13, 512)]]
    kernels = 7 * 7 * 3 * 96 + 5 * 5 * 96 * 256 + 9 * 512 * (256 + 512 + 512) + 6 * 6 * 512 * 4096
    biases, norms = 96 + 256 + 3 * 512 + 4096, 4 * (96 + 256)
    assert trunk.count_params() == kernels + biases + norms
    assert trunk.output_shape == (None, 4096)


def test_each_branch_reaches_the_embedding_and_only_the_first_the_scores_of_models():
    images = keras.Input((16, 16, 3))
    network = keras.Model(images, vehicle_network(images, num_models=3, dim=6, trunk=pooled))
    photos = np.random.default_rng(0).uniform(0, 255, (12, 16, 16, 3)).astype("float32")
    before = network.predict(photos, verbose=0)
    for name, changed in (("vehicle_features", {"embedding"}), ("model_features", {"embedding", "model"})):
        layer = network.get_layer(name)
        layer.bias.assign(layer.bias + 3.0)
        after = network.predict(photos, verbose=0)
        assert {key for key in after if not np.allclose(after[key], before[key], atol=1e-3)} == changed
        before = after
