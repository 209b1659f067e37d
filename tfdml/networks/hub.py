"""Presets of KerasHub."""

from collections.abc import Callable
from typing import Any

import keras
from keras import layers


def from_preset(preset: str, weights: str | None) -> tuple[keras.Model, Callable[[Any], Any]]:
    """The backbone of a preset, and the layer that scales pixels in [0, 255] to its input.

    The image converter of KerasHub also resizes, and runs on a CPU; only its scale and offset are used.

    Raises:
        ImportError: KerasHub is not installed.
        ValueError: no such preset.
        OSError: files that cannot be downloaded or are missing.
    """
    keras_hub = _keras_hub(preset)
    try:
        network = keras_hub.models.Backbone.from_preset(preset, load_weights=weights is not None)
        converter = keras_hub.layers.ImageConverter.from_preset(preset)
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
    return network, layers.Rescaling(_or(converter.scale, 1.0), _or(converter.offset, 0.0), name="scale")


def _keras_hub(preset):
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError(f"{_received(preset)} For presets, pip install tfdml[hub].") from error
    return keras_hub


def _received(preset):
    return (
        f"Received backbone={preset!r}, expected the name of a network of keras.applications, such as 'ResNet50', "
        "'EfficientNetLite0', a preset of KerasHub, such as 'vit_base_patch16_224_imagenet', or the path of its "
        "folder, or a Keras model."
    )


def _or(value, default):
    return default if value is None else value
