"""Examples of a set as pictures: uint8 RGB of any size."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfdml._core.checks import is_labeled_set, require
from tfdml.typing import Examples


def examples(data: Any, rows: Sequence[int] | np.ndarray) -> Iterator[np.ndarray]:
    """Some examples of a labeled set or a sequence, one at a time, since they may differ in size."""
    if is_labeled_set(data) and (data.images is None or data.load is not None):
        return (np.asarray(batch[0]) for batch, _ in data.take(rows).batches(1))
    images = data.images if is_labeled_set(data) else data
    return (np.asarray(images[row]) for row in rows)


def shows_images(data: Examples | None) -> bool:
    """Whether the first example is an image: `(height, width)`, or `(height, width, channels)` of 1, 3 or 4 channels.

    False without data.
    """
    return data is not None and len(data) > 0 and _is_image(next(iter(examples(data, [0]))))


def pictures(data: Examples, rows: Sequence[int] | np.ndarray, side: int) -> list[np.ndarray]:
    """Some examples as RGB pixels.

    Integers are gray levels from 0 to 255, floats from 0 to 1. If a value is larger than that, the largest value of all
    these examples becomes white; if a value is negative, also the smallest one becomes black. Gray levels are repeated,
    and alpha is dropped.

    Args:
        data: labeled set of images, or a sequence of images: `(height, width)`, or `(height, width, channels)` of 1, 3
            or 4 channels.
        rows: row numbers.
        side: larger images are reduced until their longer side has this number of pixels.

    Returns:
        list of uint8 `(height, width, 3)`; empty without rows.

    Raises:
        ValueError: an example that is not an image, or has a value that is not finite.
        tf.errors.InvalidArgumentError: an example that cannot be loaded, which it names.
    """
    if not len(rows):
        return []
    levels = [_gray_levels(example, row) for row, example in zip(rows, examples(data, rows), strict=True)]
    low, high = min(image.min() for image in levels), max(image.max() for image in levels)
    low, high = (low, high) if low < 0 else (0, max(high, 255))
    return [_as_bytes(_reduced(_as_rgb(image), side), low, high) for image in levels]


def require_pictures(data: Examples | None) -> None:
    """Raise a ValueError unless the first example is an image."""
    require(shows_images(data), "data that are not images", "a labeled set of images, or (n, height, width, channels)")


def _is_image(example):
    channels = example.shape[2] if example.ndim == 3 else 1
    return example.dtype.kind in "buif" and example.ndim in (2, 3) and example.size > 0 and channels in (1, 3, 4)


def _gray_levels(example, row):
    """The values of an image, floats times 255."""
    received = f"an example of shape {example.shape} and type {example.dtype} in row {row}"
    require(_is_image(example), received, "an image (height, width, channels) of 1, 3 or 4 channels")
    require(bool(np.isfinite(example).all()), f"an image with NaN or infinite values in row {row}", "finite numbers")
    return example if example.dtype.kind in "ui" else example.astype(np.float32) * 255


def _as_rgb(image):
    image = image[..., None] if image.ndim == 2 else image
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image[..., :3]


def _reduced(image, side):
    """An image whose longer side has at most `side` pixels."""
    height, width = image.shape[:2]
    if max(height, width) <= side:
        return image
    import tensorflow as tf

    sides = [max(1, round(side * each / max(height, width))) for each in (height, width)]
    return tf.image.resize(image, sides, antialias=True).numpy()


def _as_bytes(image, low, high):
    return np.uint8(np.rint(np.clip((image.astype(np.float32) - low) * (255 / (high - low)), 0, 255)))
