"""The descriptor of pixels for stereo."""

import keras
import numpy as np

from recipes.patches import mc_cnn


def test_each_pixel_has_a_unit_vector_that_depends_on_its_surroundings_only():
    keras.utils.set_random_seed(0)
    network = mc_cnn(depth=3, width=8, dim=4)
    first = next(layer for layer in network.layers if isinstance(layer, keras.layers.Conv2D))
    inner = keras.Model(first.input, network.output)  # behind the standardization of the whole image
    image = np.random.default_rng(0).normal(size=(1, 12, 15, 1)).astype(np.float32)
    features = inner.predict(image, verbose=0)
    assert features.shape == (1, 12, 15, 4)
    np.testing.assert_allclose(np.linalg.norm(features, axis=-1), 1, atol=1e-5)
    changed = image.copy()
    changed[0, 6, 7] += 1
    differs = np.abs(inner.predict(changed, verbose=0) - features).max(axis=-1)[0] > 1e-6
    rows, columns = np.nonzero(differs)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (3, 9, 4, 10)  # 2 * 3 + 1 pixels


def test_gain_and_offset_of_an_image_do_not_matter():
    network = mc_cnn(depth=2, width=4, dim=3)
    image = np.random.default_rng(0).integers(0, 128, (1, 9, 9, 1)).astype(np.float32)
    features = network.predict(image, verbose=0)
    np.testing.assert_allclose(network.predict(2 * image - 5, verbose=0), features, atol=1e-4)


def test_it_has_the_counts_of_its_convolutions():
    network = mc_cnn(depth=5, width=64, dim=64)
    trained = sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)
    assert trained == 9 * 64 + 4 * 9 * 64 * 64 + 5 * 2 * 64
