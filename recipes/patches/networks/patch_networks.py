"""The networks that compare gray image patches, by the names of their paper."""

from functools import partial
from typing import NamedTuple

import keras
from keras import layers, ops

from recipes.checks import require

# Convolutions as (channels, kernel, stride), and max poolings, which halve the resolution: an odd size is rounded down
# by "pool", up by "pool up".
_PLAIN = ((96, 7, 3), "pool", (192, 5, 1), "pool", (256, 3, 1))
_DEEP = ((96, 4, 3), *[(96, 3, 1)] * 3, "pool up", *[(192, 3, 1)] * 3)
_STREAM_OF_PAIR = ((96, 5, 1), "pool", (96, 3, 1), "pool", (192, 3, 1), (192, 3, 1))
_STREAM_OF_PATCH = ((96, 4, 2), "pool", (192, 3, 1), (256, 3, 1), (256, 3, 1))
_POOLINGS = {"pool": layers.MaxPooling2D, "pool up": partial(layers.MaxPooling2D, padding="same")}

_NAMES = ("2ch", "2ch-deep", "2ch-2stream", "siam", "pseudo-siam", "siam-2stream")
_SIDE = 64


class PatchNetworks(NamedTuple):
    """The arguments of `tfdml.models.PairModel`: its decision network and its branches.

    See also: `patch_networks`, which makes it; `tfdml.models.PairModel`, which takes it.

    Example:

        >>> decision, branches = patches.patch_networks("2ch")
        >>> decision.input_shape, decision.output_shape, branches
        ((None, 64, 64, 2), (None, 1), None)

    Attributes:
        decision: from both patches `(batch, 64, 64, 2)` to a score `(batch, 1)` where there are no branches; from the
            features of both patches `(batch, 2 * dim)` otherwise.
        branches: None, one network for both patches, or a pair of networks, each from `(batch, 64, 64, 1)` to
            `(batch, dim)`.
    """

    decision: keras.Model
    branches: keras.Model | tuple[keras.Model, keras.Model] | None


def patch_networks(name: str = "siam", *, weight_decay: float = 0.0) -> PatchNetworks:
    """The networks of Zagoruyko and Komodakis for pairs of gray 64 x 64 patches.

    C(n, k, s) is a convolution of n channels with a k x k kernel and stride s, without padding, and its ReLU; P a max
    pooling that halves the resolution; F(n) a dense layer.

    * "2ch": C(96,7,3) P C(192,5,1) P C(256,3,1) F(256) ReLU F(1), on both patches as two channels.
    * "2ch-deep": C(96,4,3), three times C(96,3,1), P, three times C(192,3,1), F(1).
    * "2ch-2stream": two streams C(96,5,1) P C(96,3,1) P C(192,3,1) C(192,3,1), one for the central 32 x 32 pixels, one
      for the whole patches at half their size; F(768) ReLU F(1).
    * "siam": for each patch C(96,7,3) P C(192,5,1) P C(256,3,1) with shared weights; F(512) ReLU F(1).
    * "pseudo-siam": the same with two sets of weights.
    * "siam-2stream": for each patch two streams C(96,4,2) P C(192,3,1) C(256,3,1) C(256,3,1), central and whole as
      above, with weights that the patches share; F(512) ReLU F(1).

    Each patch is standardized inside: minus the mean of its pixels, divided by their standard deviation. (The code of
    the paper subtracts the mean and divides by 256.) Kernels begin with He's normal distribution.

    Example:

        >>> decision, branch = patches.patch_networks("siam", weight_decay=5e-4)
        >>> branch.output_shape, decision.output_shape
        ((None, 256), (None, 1))
        >>> model = tfdml.models.PairModel(decision, branch)  # with `tfdml.losses.PairHingeLoss`
        >>> model.output_shape
        (None,)
        >>> unit = keras.layers.UnitNormalization()
        >>> descriptor = tfdml.models.EmbeddingModel(branch.input, unit(branch.output))  # "siam-l2" of the paper

    Args:
        name: "2ch", "2ch-deep", "2ch-2stream", "siam", "pseudo-siam" or "siam-2stream".
        weight_decay: lambda of the penalty (lambda / 2) ||w||^2 of the kernels; the paper has 5e-4.

    Returns:
        `PatchNetworks`: `(decision, branches)`, whose pixels are uint8 or float, in [0, 255] or [0, 1].

    Raises:
        ValueError: an unknown name, or a negative weight decay.

    Source: Zagoruyko, Komodakis, Learning to Compare Image Patches via Convolutional Neural Networks, CVPR 2015,
        section 4 for the shapes. In the code of the authors, "2ch-deep" has F(768) ReLU before F(1), and its pooling
        rounds the size up; here the pooling does, and the dense layer is that of the paper.
    """
    require(name in _NAMES, f"name={name!r}", f"one of {', '.join(map(repr, _NAMES))}")
    require(weight_decay >= 0, f"weight_decay={weight_decay}", "0 or more")
    build = _Layers(weight_decay)
    if name.startswith("2ch"):
        return PatchNetworks(_pair_network(build, name), None)
    one = _branch(build, name)
    branches = (one, _branch(build, name)) if name == "pseudo-siam" else one
    features = keras.Input((2 * one.output.shape[-1],), name="features")
    return PatchNetworks(keras.Model(features, build.head(features, (512,)), name="decision"), branches)


def _pair_network(build, name):
    """A network of both patches as channels."""
    patches = keras.Input((_SIDE, _SIDE, 2), name="patches")
    x = _standardized(patches)
    if name == "2ch-2stream":
        x = layers.Concatenate()([build.stream(scale, _STREAM_OF_PAIR) for scale in _center_and_surround(x)])
        return keras.Model(patches, build.head(x, (768,)), name=name)
    x = build.stream(x, _DEEP if name == "2ch-deep" else _PLAIN)
    return keras.Model(patches, build.head(x, () if name == "2ch-deep" else (256,)), name=name)


def _branch(build, name):
    """A network of one patch."""
    patch = keras.Input((_SIDE, _SIDE, 1), name="patch")
    x = _standardized(patch)
    if name == "siam-2stream":
        x = layers.Concatenate()([build.stream(scale, _STREAM_OF_PATCH) for scale in _center_and_surround(x)])
    else:
        x = build.stream(x, _PLAIN)
    return keras.Model(patch, x)


def _standardized(patches):
    """Each channel of each example with mean 0 and variance 1; a constant one becomes 0."""
    x = ops.cast(patches, "float32")
    return layers.LayerNormalization(axis=(1, 2), epsilon=1e-3, center=False, scale=False, dtype="float32")(x)


def _center_and_surround(x):
    """The central half of the pixels each way, and all of them at half the resolution."""
    return layers.Cropping2D(_SIDE // 4)(x), layers.AveragePooling2D(2)(x)


class _Layers(NamedTuple):
    """Makes the layers of a network.

    Attributes:
        weight_decay: lambda of the penalty (lambda / 2) ||w||^2.
    """

    weight_decay: float

    def stream(self, x, plan):
        """Convolutions and poolings one after another, and their flat output."""
        for step in plan:
            x = _POOLINGS[step]()(x) if step in _POOLINGS else self.convolution(x, *step)
        return layers.Flatten()(x)

    def convolution(self, x, channels, kernel, stride):
        """A convolution without padding, and its ReLU."""
        return layers.Conv2D(channels, kernel, strides=stride, activation="relu", **self.kernels)(x)

    def head(self, x, widths):
        """Dense layers with ReLU of these widths, then one number."""
        for width in widths:
            x = layers.Dense(width, activation="relu", **self.kernels)(x)
        return layers.Dense(1, **self.kernels)(x)

    @property
    def kernels(self):
        """The options that all kernels have in common."""
        penalty = keras.regularizers.L2(self.weight_decay / 2) if self.weight_decay else None
        return {"kernel_initializer": "he_normal", "kernel_regularizer": penalty}
