"""Presets of KerasHub."""

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops


def from_preset(
    preset: str, weights: str | None, input_shape: tuple[int, int, int] | None = None
) -> tuple[keras.Model, Callable[[Any], Any]]:
    """The backbone of a preset, and the layer that scales pixels in [0, 255] to its input; see `from_backbone`."""
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError(f"{_received(preset)} For presets, pip install tfdml[hub].") from error
    try:
        network = keras_hub.models.Backbone.from_preset(preset, load_weights=weights is not None)
        converter = keras_hub.layers.ImageConverter.from_preset(preset)  # it also resizes, on a CPU: not used
    except ValueError as error:
        raise ValueError(f"{_received(preset)} KerasHub says: {error}") from error
    except OSError as error:
        raise OSError(
            f"The preset {preset!r} could not be loaded ({error}). Download its files elsewhere and pass the path of "
            "their folder. For a preset without an image converter, pass keras_hub.models.Backbone.from_preset(...) "
            "and its scale=."
        ) from error
    if weights not in (None, "imagenet"):
        network.load_weights(weights)
    network = getattr(network, "vision_encoder", network)
    shape = getattr(network, "image_shape", None) or (None,)
    if input_shape is not None and None not in shape and tuple(shape) != tuple(input_shape):
        network = with_image_shape(network, input_shape)
    scale = 1.0 if converter.scale is None else converter.scale
    return network, layers.Rescaling(scale, 0.0 if converter.offset is None else converter.offset, name="scale")


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
