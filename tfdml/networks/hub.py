"""Presets of KerasHub."""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers, ops


def from_preset(
    preset: str, weights: str | None, input_shape: tuple[int, int, int] | None = None
) -> tuple[keras.Model, Callable[[Any], Any]]:
    """The backbone of a preset, and the layer that scales pixels in [0, 255] to its input; see `from_backbone`."""
    received = _received(preset)
    with _loading(preset, received):
        network, converter = _backbone(preset, weights is not None), _converter(preset)
    if weights not in (None, "imagenet"):
        network.load_weights(weights)
    network = getattr(network, "vision_encoder", network)
    shape = getattr(network, "image_shape", None) or (None,)
    if input_shape is not None and None not in shape and tuple(shape) != tuple(input_shape):
        network = with_image_shape(network, input_shape)
    return network, _scaling(converter)


_SIDES = ("vision_encoder", "text_encoder", "get_vision_embeddings", "get_text_embeddings")
_TOKENIZERS = ("CLIPTokenizer", "SigLIPTokenizer", "GemmaTokenizer", "MetaCLIP2Tokenizer")


class ImageTextPreset(NamedTuple):
    """The two sides of a preset of images and texts.

    Attributes:
        images: from pixels in [0, 255] to unit vectors `(batch, dim)`, float32.
        texts: from token numbers `(batch, length)` to unit vectors of the same space.
        tokenizer: of KerasHub.
        scale, bias: scale s + bias is the logit of the cosine s of an image and a text; bias is None for a softmax.
        image_fit: how an image was brought to the shape of the input, as in `tfdml.datasets.Preprocessing`.
    """

    images: keras.Model
    texts: keras.Model
    tokenizer: Any
    scale: float
    bias: float | None
    image_fit: str


def image_text_preset(preset: str) -> ImageTextPreset:
    """Both sides of a preset of CLIP, SigLIP or MetaCLIP, as KerasHub computes `get_vision_embeddings` and texts.

    Raises:
        ImportError: KerasHub is not installed.
        ValueError: an unknown preset, or one without texts or with a tokenizer of another model.
        OSError: files that cannot be downloaded.
    """
    received = f"Received preset={preset!r}, expected a preset of CLIP, SigLIP or MetaCLIP of KerasHub, or its folder."
    with _loading(preset, received):
        network = _backbone(preset, True)
        if not all(hasattr(network, name) for name in _SIDES):
            raise ValueError(f"it is a {type(network).__name__}, without texts. from_backbone takes images alone")
        converter, tokenizer = _converter(preset), _tokenizer(preset)
    encoder, size = network.text_encoder, tokenizer.vocabulary_size()
    if size > encoder.vocabulary_size or type(tokenizer).__name__ not in _TOKENIZERS:
        raise ValueError(
            f"{received} Its {type(tokenizer).__name__} of {size:,} tokens is not the one of its text encoder, which "
            f"knows {encoder.vocabulary_size:,}."
        )
    pixels = keras.Input(network.vision_encoder.image_shape, name="images")
    tokens = keras.Input((encoder.max_sequence_length,), dtype="int32", name="tokens")
    network.vision_encoder.name = "backbone"
    head = next(layer for layer in network.layers if hasattr(layer, "logit_scale"))
    bias = getattr(head, "logit_bias", None)
    return ImageTextPreset(
        keras.Model(pixels, _unit(network.get_vision_embeddings(_scaling(converter)(pixels)))),
        keras.Model(tokens, _unit(network.get_text_embeddings(tokens))),
        tokenizer,
        float(np.exp(ops.convert_to_numpy(head.logit_scale))),
        None if bias is None else float(ops.convert_to_numpy(bias)),
        "crop" if converter.crop_to_aspect_ratio else "pad" if converter.pad_to_aspect_ratio else "stretch",
    )


def _unit(features):
    features = layers.Activation("linear", dtype="float32", name="float32")(features)
    return layers.UnitNormalization(dtype="float32", name="unit")(features)


def _hub():
    import keras_hub

    return keras_hub


def _backbone(preset, load_weights):
    return _hub().models.Backbone.from_preset(preset, load_weights=load_weights)


def _converter(preset):
    return _hub().layers.ImageConverter.from_preset(preset)  # it also resizes, on a CPU: not used


def _tokenizer(preset):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # KerasHub 0.32 leaves the file of a vocabulary open
        return _hub().tokenizers.Tokenizer.from_preset(preset)


def _scaling(converter):
    scale = 1.0 if converter.scale is None else converter.scale
    return layers.Rescaling(scale, 0.0 if converter.offset is None else converter.offset, name="scale")


@contextlib.contextmanager
def _loading(preset, received):
    """Errors of a preset that begin with what was received, and say what to do."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{received} For presets, pip install tfdml[hub].") from error
    except ValueError as error:
        raise ValueError(f"{received} {error}") from error
    except OSError as error:
        raise OSError(
            f"The preset {preset!r} could not be loaded ({error}). Download its files elsewhere and pass the path of "
            "their folder. For a preset without an image converter, pass keras_hub.models.Backbone.from_preset(...) "
            "and its scale=."
        ) from error


def with_image_shape(network: keras.Model, image_shape: tuple[int, int, int]) -> keras.Model:
    """A transformer of KerasHub with the same weights for images of another size, its positions of patches resized."""
    resized = type(network).from_config({**network.get_config(), "image_shape": tuple(image_shape)})
    for variable, source in zip(resized.weights, network.weights, strict=True):
        if variable.shape == source.shape:
            variable.assign(source)
        elif keras.backend.is_float_dtype(source.dtype):  # numbers of positions stay those of the new network
            variable.assign(_resized_positions(ops.convert_to_tensor(source), _grid(network), _grid(resized)))
    return resized


def _grid(network):
    patch = network.patch_size
    vertical, horizontal = (patch, patch) if isinstance(patch, int) else patch
    return network.image_shape[0] // vertical, network.image_shape[1] // horizontal


def _resized_positions(positions, old_grid, new_grid):
    """Position embeddings `(..., tokens, dim)` of another grid; the patches are the last tokens."""
    num_others = positions.shape[-2] - old_grid[0] * old_grid[1]
    others, patches = positions[..., :num_others, :], positions[..., num_others:, :]
    maps = ops.reshape(patches, (1, *old_grid, positions.shape[-1]))
    maps = ops.image.resize(maps, new_grid, interpolation="bicubic", data_format="channels_last")
    patches = ops.reshape(maps, (*positions.shape[:-2], new_grid[0] * new_grid[1], positions.shape[-1]))
    return ops.concatenate([others, patches], axis=-2)


def _received(preset):
    return (
        f"Received backbone={preset!r}, expected the name of a network of keras.applications, such as 'ResNet50', "
        "'EfficientNetLite0', a preset of KerasHub, such as 'vit_base_patch16_224_imagenet', or the path of its "
        "folder, or a Keras model."
    )
