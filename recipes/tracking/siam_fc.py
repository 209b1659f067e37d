"""The fully convolutional siamese network of trackers: a map of scores from an exemplar and a search image."""

from typing import Any

import keras
from keras import layers, ops

from recipes.checks import require

_CHANNELS = (96, 256, 384, 384, 256)
_GROUPS = (1, 2, 1, 2, 2)  # groups of channels of each convolution, at width 1
_KERNELS = {8: (11, 5, 3, 3, 3), 4: (5, 3, 3, 3, 3)}  # by the stride of the network
_POOLED = {8: (0, 1), 4: (0,)}  # convolutions that a pooling follows


@keras.saving.register_keras_serializable("tracking")
class CrossCorrelation(layers.Layer):
    """Scores of all positions of an exemplar in a search image: scale * sum_{i,j,c} z_ijc x_{u+i,v+j,c} + b.

    b is learned. Each search image meets the exemplar of its row; one exemplar meets all search images. Moving the
    features of the search image moves the scores by as much.

    Args:
        scale: factor of the sums; 0.001 in the code of the authors.
        **options: as in `keras.layers.Layer`.

    Source: Bertinetto, Valmadre, Henriques, Vedaldi, Torr, Fully-Convolutional Siamese Networks for Object Tracking,
    ECCV 2016 workshops, eq. 2.
    """

    def __init__(self, scale: float = 1e-3, **options: Any) -> None:
        super().__init__(**options)
        self.scale = scale

    def build(self, input_shape: Any) -> None:
        """Creates b."""
        self.bias = self.add_weight(shape=(), initializer="zeros", name="bias")

    def call(self, inputs: Any) -> Any:
        """`(batch or 1, h, w, channels)` and `(batch, height, width, channels)` to the scores in float32.

        Returns:
            `(batch, height - h + 1, width - w + 1)`.
        """
        exemplar, search = inputs
        _, h, w, channels = exemplar.shape
        _, height, width, _ = search.shape
        kernels = ops.swapaxes(ops.reshape(exemplar, (-1, h * w, channels)), 1, 2)
        products = ops.matmul(ops.reshape(search, (-1, height * width, channels)), kernels)
        products = ops.reshape(ops.cast(products, "float32"), (-1, height, width, h * w))
        rows, columns = height - h + 1, width - w + 1
        terms = [products[:, k // w : k // w + rows, k % w : k % w + columns, k] for k in range(h * w)]
        return self.scale * sum(terms[1:], terms[0]) + ops.cast(self.bias, "float32")

    def get_config(self) -> dict[str, Any]:
        """The settings, for Keras."""
        return {**super().get_config(), "scale": self.scale}


def siam_fc(*, stride: int = 8, width: float = 1.0) -> keras.Model:
    """SiamFC: one convolutional network for an exemplar and a search image, and the cross-correlation of both.

    | layer | kernel, stride | channels | exemplar | search |
    | --- | --- | ---: | ---: | ---: |
    | input | | 3 | 127 | 255 |
    | conv1, pool | 11, 2; 3, 2 | 96 | 59, 29 | 123, 61 |
    | conv2, pool | 5, 1; 3, 2 | 256 in 2 groups | 25, 12 | 57, 28 |
    | conv3 | 3, 1 | 384 | 10 | 26 |
    | conv4 | 3, 1 | 384 in 2 groups | 8 | 24 |
    | conv5 | 3, 1 | 256 in 2 groups | 6 | 22 |

    No layer pads, so that moving the target in the search image by the stride moves its peak in the map by one. Batch
    normalization and ReLU follow all convolutions but the last.

    `stride=4` is a variant for small images: kernels of 5, 3, 3, 3, 3, no second pooling, no groups, 63 x 63 and
    127 x 127 pixels; the features have the same 6 x 6 and 22 x 22 positions.

    Args:
        stride: total stride, 8, or 4 for the variant.
        width: factor of all numbers of channels, above 0.

    Returns:
        A Keras model of two inputs of pixels in [0, 255], `exemplar` and `search`, `(batch, size, size, 3)`, with sides
        of 16 stride - 1 and of 32 stride - 1. Its output are scores `(batch, 17, 17)`, float32. The network of one
        image is its layer `branch`, for images of any size.

    Source: Bertinetto, Valmadre, Henriques, Vedaldi, Torr, Fully-Convolutional Siamese Networks for Object Tracking,
    ECCV 2016 workshops, table 1. Its last column has 128 channels after conv5, half of the 256 kernels of its second
    column, which this network and the code of the authors have. The variant is ours.
    """
    require(stride in _KERNELS, f"stride={stride}", "8 or 4")
    branch = _branch(stride, width)
    exemplar, search = (
        keras.Input((count * stride - 1, count * stride - 1, 3), name=name)
        for name, count in (("exemplar", 16), ("search", 32))
    )
    scores = CrossCorrelation(name="cross_correlation")([branch(exemplar), branch(search)])
    return keras.Model([exemplar, search], scores, name="siam_fc")


def _branch(stride, width):
    """The network of one image of any size."""
    images = keras.Input((None, None, 3))
    x = layers.Rescaling(1 / 64, offset=-2.0)(images)
    for number, (channels, groups, kernel) in enumerate(zip(_CHANNELS, _GROUPS, _KERNELS[stride], strict=True)):
        groups = groups if stride == 8 else 1
        channels = groups * max(1, round(width * channels / groups))
        x = _convolution(x, f"conv{number + 1}", channels, kernel, strides=1 if number else 2, groups=groups)
        x = _activated(x, f"conv{number + 1}") if number < len(_CHANNELS) - 1 else x
        x = layers.MaxPooling2D(3, 2, name=f"pool{number + 1}")(x) if number in _POOLED[stride] else x
    return keras.Model(images, x, name="branch")


def _convolution(x, name, channels, kernel, *, strides, groups):
    """A convolution without padding; each group of channels has its own, as not all backends have groups on a CPU."""
    count = channels // groups
    if groups == 1:
        return layers.Conv2D(count, kernel, strides, name=name)(x)
    step = x.shape[-1] // groups
    inputs = [x[..., group * step : (group + 1) * step] for group in range(groups)]
    outputs = [layers.Conv2D(count, kernel, strides, name=f"{name}_{group}")(y) for group, y in enumerate(inputs)]
    return ops.concatenate(outputs, axis=-1)


def _activated(x, name):
    return layers.ReLU(name=f"{name}_relu")(layers.BatchNormalization(momentum=0.95, name=f"{name}_norm")(x))
