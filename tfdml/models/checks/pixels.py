"""Pixels in [0, 1] where a network expects 0 to 255."""

import warnings
from typing import Any

import keras
import numpy as np

from tfdml.pairs.base import value_of


def expects_other_pixels(model: keras.Model, examples: Any) -> bool:
    """Whether images of the type of `examples`, arrays or specs, may have other pixels than the model expects."""
    return bool(_floats(model, examples))


def require_pixels(model: keras.Model, examples: Any) -> None:
    """An error, or one warning, for first images in [0, 1] of a model that takes pixels in [0, 255]."""
    for model_input, x in _floats(model, examples):
        if not _are_fractions(x):
            continue
        received = "Received floats in [0, 1] for the input"
        if _is_whole(model_input):
            raise ValueError(
                f"{received} {model_input.name!r} of {model_input.dtype}, where only 0 and 1 would remain of them, "
                "expected pixels from 0 to 255. Pass the images as they were before the division by 255."
            )
        if not getattr(model, "_has_warned_of_pixels", False):
            model._has_warned_of_pixels = True
            text = "of a model of from_backbone, whose network scales pixels from 0 to 255 itself: all images are black"
            warnings.warn(f"{received} {text} to it. Pass them undivided.", stacklevel=4)


def _floats(model, examples):
    """Each input of integers, or of the images of `from_backbone`, with its examples, where these are floats."""
    inputs, arrays = getattr(model, "inputs", None) or [], keras.tree.flatten(examples)
    pairs = zip(inputs, arrays, strict=True) if len(inputs) == len(arrays) else ()
    return [pair for pair in pairs if _is_float(pair[1]) and (_is_whole(pair[0]) or _is_backbone(model, pair[0]))]


def _is_float(x):
    dtype = getattr(x, "dtype", None)
    is_dense = not type(x).__name__.startswith(("Ragged", "Sparse", "Keras"))
    return dtype is not None and is_dense and "float" in getattr(dtype, "name", str(dtype))


def _is_whole(model_input):
    return keras.backend.is_int_dtype(model_input.dtype)


def _is_backbone(model, model_input):
    return (
        model_input.name == "images"
        and len(model_input.shape) == 4
        and any(layer.name == "backbone" for layer in model.layers)
    )


def _are_fractions(x):
    """Whether the first image has numbers between 0 and 1, and the first images none outside of them."""
    first = _numbers(x[:1])
    if first is None or not first.size or not ((first > 0) & (first < 1)).any() or first.min() < 0 or first.max() > 1:
        return False
    images = _numbers(x[:32])
    return bool(images.min() >= 0 and images.max() <= 1)


def _numbers(x):
    """An array; None for a tensor without values, inside a compiled function."""
    return value_of(x) if keras.ops.is_tensor(x) else np.asarray(x)
