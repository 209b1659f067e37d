"""The narrow ResNet of "Sampling Matters in Deep Embedding Learning"."""

import keras


def face_resnet(images, *, dim=128, widths=(64, 96, 192, 384, 768), blocks=(3, 4, 6, 3)):
    """Pre-activation ResNet-50 with 64, 96, 192, 384, 768 channels in place of 64, 256, 512, 1024, 2048.

    A convolution of 7 x 7 and max pooling each halve the resolution. Four stages of bottleneck blocks follow, which
    halve it again but for the first, then average pooling and a linear map. In a block, each of the convolutions 1 x 1,
    3 x 3, 1 x 1 comes after batch normalization and ReLU; the first two have a quarter of the channels of the block.
    Where the shape changes, the shortcut is a 1 x 1 convolution.

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
    x = keras.layers.ZeroPadding2D(3)(standardized(images))
    x = convolution(x, widths[0], kernel=7, strides=2, padding="valid")
    x = keras.layers.MaxPooling2D(3, 2, padding="same")(activated(x))
    for stage, (width, number) in enumerate(zip(widths[1:], blocks, strict=True)):
        for block in range(number):
            x = bottleneck(x, width, strides=2 if stage and not block else 1)
    x = keras.layers.GlobalAveragePooling2D()(activated(x))
    return keras.layers.UnitNormalization(dtype="float32", name="embedding")(keras.layers.Dense(dim)(x))


def standardized(images):
    """Each image with mean 0 and variance 1 over its pixels; a constant image becomes 0."""
    x = keras.ops.cast(images, "float32")
    return keras.layers.LayerNormalization(axis=(1, 2, 3), epsilon=1e-3, center=False, scale=False, dtype="float32")(x)


def activated(x):
    """Batch normalization and ReLU."""
    return keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x))


def convolution(x, width, *, kernel=1, strides=1, padding="same"):
    """A convolution without a bias."""
    options = {"use_bias": False, "kernel_initializer": "he_normal", "padding": padding}
    return keras.layers.Conv2D(width, kernel, strides=strides, **options)(x)


def bottleneck(x, width, *, strides):
    """A block of three convolutions and a shortcut."""
    y = activated(x)
    shortcut = x if strides == 1 and x.shape[-1] == width else convolution(y, width, strides=strides)
    y = convolution(y, width // 4)
    y = convolution(activated(y), width // 4, kernel=3, strides=strides)
    return keras.layers.Add()([shortcut, convolution(activated(y), width)])
