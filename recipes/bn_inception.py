"""BN-Inception, the backbone of many papers on metric learning."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

import keras
from keras import layers

import tfdml

# Channels of each block: 1x1; 3x3 and its reduction; two 3x3 and their reduction; pooling and its projection.
# A block without 1x1 halves the resolution.
_BLOCKS: dict[str, tuple[int, tuple[int, int], tuple[int, int], str, int]] = {
    "3a": (64, (64, 64), (64, 96), "avg", 32),
    "3b": (64, (64, 96), (64, 96), "avg", 64),
    "3c": (0, (128, 160), (64, 96), "max", 0),
    "4a": (224, (64, 96), (96, 128), "avg", 128),
    "4b": (192, (96, 128), (96, 128), "avg", 128),
    "4c": (160, (128, 160), (128, 160), "avg", 128),
    "4d": (96, (128, 192), (160, 192), "avg", 128),
    "4e": (0, (128, 192), (192, 256), "max", 0),
    "5a": (352, (192, 320), (160, 224), "avg", 128),
    "5b": (352, (192, 320), (192, 224), "max", 128),
}
_MEAN = (128.0, 117.0, 104.0)  # of red, green and blue
_CLASSIFIERS = ("last_linear", "fc")


def bn_inception(
    *,
    input_shape: tuple[int | None, int | None, int] = (224, 224, 3),
    weights: str | PathLike[str] | Mapping[str, Any] | None = None,
) -> keras.Model:
    """BN-Inception without its classifier: 10 inception blocks, 1024 channels, a 32nd of the resolution.

    Layers have the names of the published PyTorch network, so that its weights can be loaded. Its input is scaled
    inside: blue, green, red, minus their means 104, 117, 128. Max pooling rounds sizes up, convolutions have a bias,
    and batch normalization has epsilon 1e-5. In training, its averages have a momentum of 0.9.

    Args:
        input_shape: `(height, width, 3)`; sizes are from 32 k - 1 to 32 k + 6, such as 224 and 227, or None for any.
        weights: path of a PyTorch file (`.pth`) or of an `.npz` file, or a dict of names to arrays,
            see `tfdml.models.load_pytorch_weights`; None for random ones.

    Returns:
        A Keras model from pixels in [0, 255] `(batch, height, width, 3)`, red first, to features
        `(batch, height // 32, width // 32, 1024)`.

    Source: Ioffe, Szegedy, Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate
        Shift, ICML 2015, figure 5, with the numbers of channels of the published Caffe and PyTorch weights.
    """
    _require_sizes(input_shape)
    images = keras.Input(input_shape, name="images")
    x = layers.Rescaling(1.0, offset=[-mean for mean in _MEAN], name="minus_mean")(images)[..., ::-1]
    x = _convolution(x, "conv1_7x7_s2", 64, kernel=7, strides=2)
    x = _max_pooling(x, "pool1_3x3_s2")
    x = _convolution(x, "conv2_3x3_reduce", 64, kernel=1)
    x = _convolution(x, "conv2_3x3", 192)
    x = _max_pooling(x, "pool2_3x3_s2")
    for block, channels in _BLOCKS.items():
        x = _inception(x, f"inception_{block}", *channels)
    network = keras.Model(images, x, name="bn_inception")
    if weights is not None:
        tfdml.models.load_pytorch_weights(network, weights, ignore=_CLASSIFIERS)
    return network


def _require_sizes(input_shape):
    # An eighth of the size, rounded as the network does, is halved twice more by convolutions and by pooling alike.
    fits = all(size is None or (size > 30 and -(-size // 2) // 4 % 4 == 0) for size in input_shape[:2])
    if not (len(input_shape) == 3 and input_shape[2] == 3 and fits):
        expected = "(height, width, 3) with sizes from 32 k - 1 to 32 k + 6, such as 224 or 227"
        raise ValueError(f"Received input_shape={input_shape}, expected {expected}.")


def _inception(x, name, direct, single, double, pooling, projection):
    strides = 1 if direct else 2
    branches = [_convolution(x, f"{name}_1x1", direct, kernel=1)] if direct else []
    y = _convolution(x, f"{name}_3x3_reduce", single[0], kernel=1)
    branches.append(_convolution(y, f"{name}_3x3", single[1], strides=strides))
    y = _convolution(x, f"{name}_double_3x3_reduce", double[0], kernel=1)
    y = _convolution(y, f"{name}_double_3x3_1", double[1])
    branches.append(_convolution(y, f"{name}_double_3x3_2", double[1], strides=strides))
    y = (_max_pooling if pooling == "max" else _average_pooling)(x, f"{name}_pool", strides)
    branches.append(_convolution(y, f"{name}_pool_proj", projection, kernel=1) if projection else y)
    return layers.Concatenate(name=f"{name}_output")(branches)


def _convolution(x, name, channels, *, kernel=3, strides=1):
    """Padding on all sides, as PyTorch has it, also with strides."""
    x = layers.ZeroPadding2D(kernel // 2)(x) if kernel > 1 else x
    x = layers.Conv2D(channels, kernel, strides=strides, kernel_initializer="he_normal", name=name)(x)
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=f"{name}_bn")(x)
    return layers.ReLU(name=f"{name}_relu")(x)


def _max_pooling(x, name, strides=2):
    """Over 3 x 3 places; with strides, windows may overlap the right and the lower end. Features are not negative."""
    x = layers.ZeroPadding2D(((0, 1), (0, 1)) if strides == 2 else 1)(x)
    return layers.MaxPooling2D(3, strides, name=name)(x)


def _average_pooling(x, name, strides=1):
    """Over 3 x 3 places, of which those outside count as 0."""
    return layers.AveragePooling2D(3, strides, name=name)(layers.ZeroPadding2D(1)(x))
