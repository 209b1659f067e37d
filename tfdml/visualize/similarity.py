"""Which places of two images make them similar."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require

if TYPE_CHECKING:
    import keras

_PARTS: WeakKeyDictionary = WeakKeyDictionary()  # of models: Keras keeps what it makes of their layers


def similarity_map(model: keras.Model, a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The cosine similarity of two images as a sum over the places of either image.

    A network makes a map of features f, pools it, and applies layers to the result: z(f). With the gradient of the
    similarity s = z(f) z(g) / (|z(f)| |z(g)|) at constant norms, the share of a place is

        h = sum over channels of f ds/df, and the same part of what is left of s at all places

    so that each map sums up to s. Average, maximum and generalized-mean pooling, or none, with linear layers behind it
    leave only the bias of these layers; the maps are then the exact sum over pairs of places. Other layers, such as an
    activation, leave more, and the shares follow the gradient. A negative share makes the images less similar.

    Example: averages of images of two pixels.

        >>> inputs = keras.Input((1, 2, 2))
        >>> model = keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(inputs))
        >>> a, b = np.array([[[3, 0], [0, 4]]], "uint8"), np.array([[[1, 1], [1, 1]]], "uint8")
        >>> for shares in tfdml.visualize.similarity_map(model, a, b):  # (3 + 4) / (5 * 2^(1/2))
        ...     print(shares.round(2))
        [[0.42 0.57]]
        [[0.49 0.49]]

    Args:
        model: a functional Keras model of images, with one output `(batch, dim)` and one last map of features
            `(batch, height, width, channels)`: the model pools all maps behind it.
        a, b: images `(height, width, channels)` as the model takes them.

    Returns:
        The shares of `a` and of `b`, each `(height, width)` float32 of the map of features.

    Source: Stylianou, Souvenir, Pless, Visualizing Deep Similarity Networks, WACV 2019, section 3, for average pooling.
    """
    from tfdml._core.backends import vector_jacobian
    from tfdml.networks.feature_maps import parts_of

    halves = _PARTS.get(model) or _PARTS.setdefault(model, parts_of(model))
    to_map, to_vector = (partial(half, training=False) for half in halves)
    maps = [to_map(_as_batch(model, name, image)) for name, image in (("a", a), ("b", b))]
    vectors = [to_vector(features) for features in maps]
    x, y = (_as_numpy(vector)[0] for vector in vectors)
    norms = max(float(np.linalg.norm(x) * np.linalg.norm(y)), 1e-12)

    def shares(features, other):
        (gradient,) = vector_jacobian(to_vector, [features], other / norms)
        share = (_as_numpy(features) * _as_numpy(gradient)).sum(axis=-1)[0]
        return (share + (x @ y / norms - share.sum()) / share.size).astype(np.float32)

    return shares(maps[0], vectors[1]), shares(maps[1], vectors[0])


def _as_batch(model, name, image):
    import keras

    image = np.asarray(image)
    shape = tuple(model.inputs[0].shape[1:])
    require(image.shape == shape, f"{name} of shape {image.shape}", f"{shape}, one image as the model takes it")
    return keras.ops.convert_to_tensor(image[None], dtype=model.inputs[0].dtype)


def _as_numpy(tensor):
    import keras

    return keras.ops.convert_to_numpy(tensor).astype(np.float64)
