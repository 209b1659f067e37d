"""Small convolutional networks for 32 x 32 images, from raw pixels to unit vectors: exports need no processing."""

from collections.abc import Sequence

from keras import KerasTensor, layers, ops


def plain_cnn(images: KerasTensor, *, dim: int = 128, widths: Sequence[int] = (32, 64, 128)) -> KerasTensor:
    """Convolutions and max pooling: one convolution at the first width, two at every other.

    Example:

        >>> images = keras.Input((16, 16, 1), dtype="uint8")
        >>> model = tfdml.models.EmbeddingModel(images, tfdml.models.plain_cnn(images, dim=8, widths=(4, 8)))
        >>> x = np.asarray(model(np.arange(256).reshape(1, 16, 16, 1)), float)
        >>> x.shape, round(float(np.linalg.norm(x)), 4)
        ((1, 8), 1.0)

    Args:
        images: `(batch, height, width, channels)` Keras tensor of pixels, uint8 or float, in [0, 255] or [0, 1].
        dim: size of the embedding.
        widths: channels of each stage; each stage halves the resolution.

    Returns:
        `(batch, dim)` Keras tensor of unit vectors, float32.
    """
    x = standardized(images)
    for stage, width in enumerate(widths):
        x = _convolution(x, width)
        if stage:
            x = _convolution(x, width)
        x = layers.MaxPooling2D()(x)
    return _head(x, dim)


def residual_cnn(
    images: KerasTensor,
    *,
    dim: int = 128,
    widths: Sequence[int] = (16, 32, 64, 128),
    blocks: int = 1,
    stem: Sequence[int] = (),
) -> KerasTensor:
    """A residual network: `blocks` basic blocks at each width, halving the resolution between widths.

    Example:

        >>> images = keras.Input((16, 16, 1), dtype="uint8")
        >>> model = tfdml.models.EmbeddingModel(images, tfdml.models.residual_cnn(images, dim=8, widths=(4, 8)))
        >>> x = np.asarray(model(np.arange(256).reshape(1, 16, 16, 1)), float)
        >>> x.shape, round(float(np.linalg.norm(x)), 4)
        ((1, 8), 1.0)

    Args:
        images, dim: as in `plain_cnn`.
        widths, blocks: channels of each stage, and its number of residual blocks.
        stem: channels of the convolutions before the first stage; each halves the resolution, for images larger than 32
            x 32; empty for one convolution of `widths[0]` channels at full resolution.

    Source: He, Zhang, Ren, Sun, Deep Residual Learning for Image Recognition, CVPR 2016, basic blocks.
    """
    x = standardized(images)
    for width in stem:
        x = _convolution(x, width, strides=2)
    x = x if stem else _convolution(x, widths[0])
    for stage, width in enumerate(widths):
        for block in range(blocks):
            x = _basic_block(x, width, strides=2 if stage and not block else 1)
    return _head(x, dim)


def standardized(images: KerasTensor) -> KerasTensor:
    """Each image with mean 0 and variance 1 over its pixels, for any range; a constant image becomes 0."""
    x = ops.cast(images, "float32")  # the layer would compute in whole numbers
    return layers.LayerNormalization(axis=(1, 2, 3), epsilon=1e-3, center=False, scale=False, dtype="float32")(x)


def _convolution(x, width, *, kernel=3, strides=1, activation="relu"):
    x = layers.Conv2D(width, kernel, strides=strides, padding="same", use_bias=False, kernel_initializer="he_normal")(x)
    x = layers.BatchNormalization(momentum=0.9)(x)  # accurate statistics even after short training
    return layers.Activation(activation)(x) if activation else x


def _basic_block(x, width, *, strides):
    shortcut = x
    if strides != 1 or x.shape[-1] != width:
        shortcut = _convolution(x, width, kernel=1, strides=strides, activation=None)
    x = _convolution(x, width, strides=strides)
    x = _convolution(x, width, activation=None)
    return layers.Activation("relu")(layers.Add()([x, shortcut]))


def _head(x, dim):
    """One linear map of all positions, without averaging: in small images the position of a stroke matters."""
    x = layers.Dense(dim)(layers.Flatten()(x))
    return layers.UnitNormalization(dtype="float32", name="embedding")(x)
