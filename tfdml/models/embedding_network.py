"""Any network as an embedding: a backbone with its own input scaling, pooling, a projection, unit norm."""

import importlib
from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from tfdml.models.embedding_model import EmbeddingModel
from tfdml.models.pooling import pooled


def embedding(
    backbone: str | Callable[..., keras.Model] | keras.Model,
    *,
    dim: int | None = 128,
    pooling: str = "avg",
    freeze_batch_norm: bool = False,
    normalize: bool = True,
    head: Callable[[Any], Any] | None = None,
    input_shape: tuple[int, int, int] = (224, 224, 3),
    weights: str | None = "imagenet",
) -> EmbeddingModel:
    """A network that turns images of pixels in [0, 255] into embeddings.

    Example:

        model = tfdml.models.embedding("ResNet50", dim=128, freeze_batch_norm=True)

    Args:
        backbone: the name of a network of `keras.applications`, such as "ResNet50", or its function: the network is
            built without its classifier, and its `preprocess_input` becomes part of the model. Or a Keras model that
            takes pixels in [0, 255] and returns feature maps or vectors: your own, or a backbone of KerasHub.
        dim: size of the embedding, by a dense layer; None for the pooled features as they are.
        pooling: "avg", "max", "avg+max" (their sum) or "gem" (generalized mean, with a learned exponent).
        freeze_batch_norm: whether batch normalization keeps its averages, scale and offset, as the papers of metric
            learning have it: their batches hold few images of few classes.
        normalize: whether embeddings are scaled to norm 1.
        head: function from pooled features to embeddings, such as a Keras layer, in place of the dense layer.
        input_shape: `(height, width, channels)` of the images; not used where `backbone` is a model.
        weights: "imagenet" for those that `keras.applications` downloads, the path of a weights file, or None for
            random ones; not used where `backbone` is a model.

    Returns:
        An `EmbeddingModel` with float32 outputs `(batch, dim)`. Its layers "backbone", "pooling" and "embedding" have
        these names.

    Raises:
        ValueError: an unknown network or pooling, an input shape that the network does not take, or features of
            another rank.
        OSError: weights that cannot be downloaded; pass the path of a file.
    """
    network, scale = _network(backbone, input_shape, weights)
    inputs = keras.Input(network.input_shape[1:] if isinstance(backbone, keras.Model) else input_shape, name="images")
    features = _named(network)(scale(inputs))
    if freeze_batch_norm:
        _freeze_batch_norm(network)
    x = pooled(features, pooling)
    if head is not None:
        x = head(x)
    elif dim is not None:
        x = layers.Dense(dim, name="embedding")(x)
    x = layers.Activation("linear", dtype="float32", name="float32")(x)
    return EmbeddingModel(inputs, layers.UnitNormalization(dtype="float32", name="unit")(x) if normalize else x)


def _network(backbone, input_shape, weights):
    """The network without its classifier, and the function that scales its input."""
    if isinstance(backbone, keras.Model):
        return backbone, lambda images: images
    build = getattr(keras.applications, backbone, None) if isinstance(backbone, str) else backbone
    if not callable(build):
        raise ValueError(
            f"Received backbone={backbone!r}, expected the name of a network of keras.applications, such as "
            "'ResNet50', its function, or a Keras model."
        )
    try:
        network = build(include_top=False, weights=weights, input_shape=input_shape)
    except (ValueError, TypeError):  # an input shape or another option that the network does not take
        raise
    except Exception as error:  # Keras raises plain exceptions where a download fails
        if weights != "imagenet":
            raise
        raise OSError(
            f"The weights of {getattr(build, '__name__', backbone)} could not be loaded ({error}). Download them "
            "elsewhere and pass weights='path/to/file.h5', or weights=None for random ones."
        ) from error
    return network, importlib.import_module(build.__module__).preprocess_input


def _named(network):
    network.name = "backbone"
    return network


def _freeze_batch_norm(network):
    for layer in network._flatten_layers():
        if isinstance(layer, layers.BatchNormalization):
            layer.trainable = False
