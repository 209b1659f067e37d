"""Examples of a set as pictures: RGB pixels, and thumbnails as data URIs."""

import base64
import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tfdml._core.checks import is_labeled_set, require
from tfdml._core.optional import optional_import
from tfdml.typing import Examples

_THUMBNAIL = 96  # pixels


def _examples(data: Any, rows: Sequence[int] | np.ndarray) -> Iterator[np.ndarray]:
    """Examples of a labeled set or a sequence, one at a time, since they may differ in size."""
    if is_labeled_set(data) and (data.images is None or data.load is not None):
        return (np.asarray(batch[0]) for batch, _ in data.take(rows).batches(1))
    images = data.images if is_labeled_set(data) else data
    return (np.asarray(images[row]) for row in rows)


def shows_images(data: Examples | None) -> bool:
    """Whether the first example is an image: `(height, width)`, or with 1, 3 or 4 channels; False without data."""
    return data is not None and len(data) > 0 and _is_image(next(_examples(data, [0])))


def pictures(data: Examples, rows: Sequence[int] | np.ndarray, size: int) -> list[np.ndarray]:
    """Examples as RGB pixels: a list of uint8 `(height, width, 3)`, at most `size` pixels at the longer edge.

    Integers are gray levels from 0 to 255, floats from 0 to 1. If a value is larger, the largest value of these
    examples becomes white; if a value is negative, the smallest one also becomes black.
    """
    if not len(rows):
        return []
    return _as_pictures(list(zip(rows, _examples(data, rows), strict=True)), size)


def iterate_pictures(images: Examples | Iterable[Any], size: int) -> Iterator[np.ndarray]:
    """As `pictures`, one at a time, also of an iterable; values outside the range stretch image by image."""
    return (_as_pictures([row_and_example], size)[0] for row_and_example in enumerate(_all_examples(images)))


def _all_examples(images):
    """The examples of a labeled set, a sequence or an iterable, one at a time."""
    has_rows = is_labeled_set(images) or hasattr(images, "__getitem__")
    return _examples(images, np.arange(len(images))) if has_rows else map(np.asarray, images)


def _as_pictures(rows_and_examples, size):
    levels = [_gray_levels(example, row) for row, example in rows_and_examples]
    low, high = min(image.min() for image in levels), max(image.max() for image in levels)
    low, high = (low, high) if low < 0 else (0, max(high, 255))
    return [_as_bytes(_reduced(_as_rgb(image), size), low, high) for image in levels]


def thumbnails(data: Examples | None, rows: Collection[int]) -> dict[int, str]:
    """Small pictures as data URIs by row; none without a set, and of examples that are not images.

    It stretches the values of an image that is not uint8: its smallest value is black, its largest one white.
    """
    rows = sorted(set(rows))
    if data is None or not rows:
        return {}
    images = zip(rows, _examples(data, rows), strict=True)
    return {row: _data_uri(_stretched(image)) for row, image in images if _is_image(image)}


def require_pictures(data: Examples | None) -> None:
    """Raise a ValueError unless the first example is an image."""
    require(shows_images(data), "data that are not images", "a labeled set of images, or (n, height, width, channels)")


def _is_image(example):
    channels = example.shape[2] if example.ndim == 3 else 1
    return example.dtype.kind in "buif" and example.ndim in (2, 3) and example.size > 0 and channels in (1, 3, 4)


def _gray_levels(example, row):
    received = f"an example of shape {example.shape} and type {example.dtype} in row {row}"
    require(_is_image(example), received, "an image (height, width, channels) of 1, 3 or 4 channels")
    require(bool(np.isfinite(example).all()), f"an image with NaN or infinite values in row {row}", "finite numbers")
    return example if example.dtype.kind in "ui" else example.astype(np.float32) * 255


def _as_rgb(image):
    image = image[..., None] if image.ndim == 2 else image
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image[..., :3]


def _reduced(image, size):
    """An image whose longer edge has at most `size` pixels."""
    height_width = image.shape[:2]
    if max(height_width) <= size:
        return image
    import keras

    reduced = [max(1, round(size * pixels / max(height_width))) for pixels in height_width]
    options = {"antialias": True, "data_format": "channels_last"}
    return keras.ops.convert_to_numpy(keras.ops.image.resize(np.float32(image), reduced, **options))


def _as_bytes(image, low, high):
    return np.uint8(np.rint(np.clip((image.astype(np.float32) - low) * (255 / (high - low)), 0, 255)))


def _stretched(image):
    """An image as uint8 `(height, width)` or `(height, width, 3 or 4)`."""
    image = image[..., 0] if image.ndim == 3 and image.shape[-1] == 1 else image
    if image.dtype == np.uint8:
        return image
    values = image.astype(np.float64)
    low, high = values.min(), values.max()
    return np.uint8(np.rint(255 * (values - low) / max(high - low, np.finfo(float).tiny)))


def _data_uri(pixels):
    """PNG of a small image, JPEG of a larger one, reduced to 96 pixels."""
    pillow = optional_import("PIL.Image", feature="Evaluation.html", extra="plots")
    picture, file = pillow.fromarray(pixels), io.BytesIO()
    kind = "png" if max(picture.size) <= _THUMBNAIL else "jpeg"
    if kind == "jpeg":
        picture = picture.convert("RGB")
        picture.thumbnail((_THUMBNAIL, _THUMBNAIL))
    picture.save(file, kind)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
