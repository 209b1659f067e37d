"""The four blocks: sizes of the papers, and values by hand."""

import keras
import numpy as np

from recipes.few_shot import conv4


def network(side, channels, **options):
    images = keras.Input((side, side, channels), dtype=options.pop("dtype", "float32"))
    return keras.Model(images, conv4(images, **options))


def test_it_has_the_embeddings_and_the_weights_of_the_papers():
    # Four convolutions with a bias, and scale and offset of batch normalization: 3 * 3 * c * 64 + 64 + 2 * 64.
    omniglot, mini_imagenet = network(28, 1), network(84, 3)
    assert omniglot.output_shape == (None, 64)
    assert mini_imagenet.output_shape == (None, 1600)
    for model, channels in ((omniglot, 1), (mini_imagenet, 3)):
        trained = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
        assert trained == 9 * 64 * (channels + 3 * 64) + 4 * (64 + 128)
    assert network(28, 1, width=32).output_shape == (None, 32)


def test_each_block_convolves_rectifies_and_halves():
    model = network(28, 1, width=1)
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv2D):
            kernel = np.zeros((3, 3, 1, 1))
            kernel[1, 1] = 1
            layer.set_weights([kernel, np.zeros(1)])
    images = np.random.default_rng(0).normal(size=(3, 28, 28, 1)).astype("float32")
    # An identity convolution leaves the largest positive pixel of the 16 x 16 that reach the one position.
    expected = np.maximum(images[:, :16, :16].max(axis=(1, 2)), 0) / (1 + 1e-5) ** 2
    np.testing.assert_allclose(model.predict(images, verbose=0), expected, rtol=1e-5)
