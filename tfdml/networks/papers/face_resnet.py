"""The narrow pre-activation ResNet-50 for faces."""

from collections.abc import Sequence

from keras import KerasTensor, layers

from tfdml._core.checks import require, require_whole
from tfdml.networks.backbones import standardized

_BOTTLENECK = 4  # Channels of a block over those of its 3 x 3 convolution.


def face_resnet(
    images: KerasTensor,
    *,
    dim: int = 128,
    widths: Sequence[int] = (64, 96, 192, 384, 768),
    blocks: Sequence[int] = (3, 4, 6, 3),
) -> KerasTensor:
    """Pre-activation ResNet-50 with 64, 96, 192, 384, 768 channels in place of 64, 256, 512, 1024, 2048.

    A convolution of 7 x 7 and max pooling each halve the resolution. Four stages of bottleneck blocks follow, which
    halve it again but for the first, then average pooling and a linear map. In a block, each of the convolutions 1 x 1,
    3 x 3, 1 x 1 comes after batch normalization and ReLU; the first two have a quarter of the channels of the block.
    Where the shape changes, the shortcut is a 1 x 1 convolution.

    Example:

        >>> images = keras.Input((64, 64, 3), dtype="uint8")
        >>> outputs = tfdml.networks.face_resnet(images, dim=16, widths=(8, 8, 16), blocks=(1, 1))  # a tiny one
        >>> tfdml.models.EmbeddingModel(images, outputs).output_shape
        (None, 16)

    Args:
        images: `(batch, height, width, channels)` Keras tensor of pixels, uint8 or float, in [0, 255] or [0, 1].
        dim: size of the embedding; 128 or 256 in the paper.
        widths: channels of the first convolution, and of the blocks of each stage, multiples of 4.
        blocks: number of blocks of each stage.

    Returns:
        `(batch, dim)` Keras tensor of unit vectors, float32.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 5
    (widths); He, Zhang, Ren, Sun, Identity Mappings in Deep Residual Networks, ECCV 2016 (blocks).
    """
    require_whole("dim", dim, 1)
    _require_stages(widths, blocks)
    x = layers.ZeroPadding2D(3)(standardized(images))
    x = _convolution(x, widths[0], kernel=7, strides=2, padding="valid")
    x = layers.MaxPooling2D(3, 2, padding="same")(_activated(x))
    for stage, (width, number) in enumerate(zip(widths[1:], blocks, strict=True)):
        for block in range(number):
            x = _bottleneck(x, width, strides=2 if stage and not block else 1)
    x = layers.GlobalAveragePooling2D()(_activated(x))
    return layers.UnitNormalization(dtype="float32", name="embedding")(layers.Dense(dim)(x))


def _require_stages(widths, blocks):
    require(
        len(widths) == len(blocks) + 1 and all(width > 0 and width % _BOTTLENECK == 0 for width in widths),
        f"widths={tuple(widths)} and blocks={tuple(blocks)}",
        "one width for the first convolution and one per stage, multiples of 4",
    )


def _activated(x):
    return layers.ReLU()(layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x))


def _convolution(x, width, *, kernel=1, strides=1, padding="same"):
    options = {"use_bias": False, "kernel_initializer": "he_normal", "padding": padding}
    return layers.Conv2D(width, kernel, strides=strides, **options)(x)


def _bottleneck(x, width, *, strides):
    y = _activated(x)
    shortcut = x if strides == 1 and x.shape[-1] == width else _convolution(y, width, strides=strides)
    y = _convolution(y, width // _BOTTLENECK)
    y = _convolution(_activated(y), width // _BOTTLENECK, kernel=3, strides=strides)
    return layers.Add()([shortcut, _convolution(_activated(y), width)])
