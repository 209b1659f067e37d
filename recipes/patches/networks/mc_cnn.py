"""A fully convolutional descriptor of pixels for stereo."""

import keras
from keras import layers, ops

from recipes.checks import require_whole


def mc_cnn(*, depth: int = 5, width: int = 32, dim: int = 64) -> keras.Model:
    """The fast network of Žbontar and LeCun: a unit vector for each pixel of a gray image of any size.

    `depth` convolutions of 3 x 3 kernels without pooling: a vector sees 2 depth + 1 pixels each way. Left and right
    image have the same network; `patches.match_features` compares its outputs.

    Departures from the paper: batch normalization after each convolution, images are padded with zeros inside, after
    they are standardized as a whole, and the last layer has its own number of channels. The paper has a depth of 4
    (KITTI) or 5 (Middlebury) and 64 channels.

    Example:

        >>> network = patches.mc_cnn(depth=2, width=4, dim=3)
        >>> tuple(network(np.zeros((1, 5, 7, 1))).shape)  # a vector for each pixel
        (1, 5, 7, 3)

    Args:
        depth: number of convolutions.
        width: channels of all but the last one.
        dim: size of the vectors.

    Returns:
        A Keras model from pixels in [0, 255] `(batch, height, width, 1)` to `(batch, height, width, dim)` unit vectors.

    Raises:
        ValueError: an argument below 1.

    Source: Žbontar, LeCun, Stereo Matching by Training a Convolutional Neural Network to Compare Image Patches, JMLR
        2016, section 3.2.
    """
    require_whole(1, depth=depth, width=width, dim=dim)
    images = keras.Input((None, None, 1), name="images")
    x = _standardized(images)
    for channels in [width] * (depth - 1):
        x = layers.Activation("relu")(_normalized_convolution(x, channels))
    x = _normalized_convolution(x, dim)
    return keras.Model(images, layers.UnitNormalization(dtype="float32", name="embedding")(x), name="mc_cnn")


def _standardized(images):
    """Each image with mean 0 and variance 1 over its pixels; a constant one becomes 0."""
    x = ops.cast(images, "float32")
    return layers.LayerNormalization(axis=(1, 2, 3), epsilon=1e-3, center=False, scale=False, dtype="float32")(x)


def _normalized_convolution(x, channels):
    x = layers.Conv2D(channels, 3, padding="same", use_bias=False, kernel_initializer="he_normal")(x)
    return layers.BatchNormalization(momentum=0.95)(x)
