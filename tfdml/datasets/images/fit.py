"""Pixels of a given size: bounding boxes, resizing, padding and center crops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdml._core.optional import tf
from tfdml.datasets.images.reasons import empty_box

ROUNDING = 1.0  # pixels by which a border may exceed its image, as in lists that count pixels from 1
SHARES = "a box within one pixel, as if in shares of the image"
_MOST_WRONG = 0.1  # share of the boxes of a set, from which all are in another form
LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as in JPEG.


def is_in_one_pixel(largest: Any, longer_side: Any) -> Any:
    """Whether a box may be shares of its image, from its largest border and the longer side; arrays or tensors."""
    return (largest <= 1) & (longer_side > 1)


def are_shares(boxes: np.ndarray, longer_side: float = np.inf) -> np.ndarray:
    """Whether boxes `(..., 4)` of a set look like shares of the image; (0, 0, 1, 1) may be one pixel, `(...)` bool."""
    return is_in_one_pixel(boxes.max(axis=-1), longer_side) & (boxes != np.floor(boxes)).any(axis=-1)


def require_pixels(boxes: np.ndarray, names: Sequence[str] | None = None) -> None:
    """Raise a ValueError for a set of boxes `(n, 4)` in another form than left, upper, right and lower in pixels.

    `names` of the columns are in the message. A few boxes may be wrong, or may be one pixel.
    """
    columns = f" in the columns {', '.join(names)}" if names else ""
    one_pixel = is_in_one_pixel(boxes.max(axis=1, initial=-np.inf), np.inf) & (boxes[:, :2] < boxes[:, 2:]).all(axis=1)
    shares = are_shares(boxes) if 2 * one_pixel.sum() <= len(boxes) else one_pixel
    sizes = (boxes >= 0).all(axis=1) & (boxes[:, 2:] > 0).all(axis=1) & (boxes[:, 2:] < boxes[:, :2]).any(axis=1)
    for is_wrong, form, advice in (
        (shares, "as if in shares of the image", "multiply them by width and height"),
        (sizes, "as if x, y, width and height", "add x to the width, and y to the height"),
    ):
        count = int(is_wrong.sum())
        if count > 0 and count >= _MOST_WRONG * len(boxes):
            first = ", ".join(f"{border:g}" for border in boxes[is_wrong.argmax()])
            raise ValueError(
                f"Received boxes{columns}, {form} in {count:,} of {len(boxes):,} rows, first ({first}), expected left, "
                f"upper, right and lower in pixels of the upright image: {advice}."
            )


def _functions_of(image):
    """NumPy, or its form for tensors."""
    return np if isinstance(image, np.ndarray) else tf.experimental.numpy


def _sides(image):
    """Height and width, int64 `(2,)`."""
    return np.array(image.shape[:2]) if isinstance(image, np.ndarray) else tf.shape(image, tf.int64)[:2]


def cut(problem: Any, image: Any, box: Any, margin: float, is_query: bool = False) -> tuple[Any, Any]:
    """The reason for no pixels, empty for none, and the pixels that a box `(4,)` touches, or the whole image.

    The box of a query is unchecked. It may exceed the image by one pixel, but may not lie within the unit square, where
    it looks normalized (`is_in_one_pixel`). This and what follows take arrays and tensors.
    """
    np_ = _functions_of(image)
    sides, box = np_.asarray(_sides(image), np.float64), np_.reshape(np_.asarray(box, np.float64), (4,))
    start, end = np_.maximum(box[1::-1], 0.0), np_.minimum(box[:1:-1], sides)
    valid = np_.all(end > start)  # False for NaN.
    if is_query:
        is_inside = np_.all((box[1::-1] >= -ROUNDING) & (box[:1:-1] <= sides + ROUNDING))
        valid &= is_inside & ~is_in_one_pixel(np_.max(box), np_.max(sides))

    def pixels():
        grow = margin * (end - start)
        first = np_.asarray(np_.floor(np_.maximum(start - grow, 0.0)), np.int64)
        last = np_.asarray(np_.ceil(np_.minimum(end + grow, sides)), np.int64)
        return image[first[0] : last[0], first[1] : last[1]]

    if isinstance(image, np.ndarray):
        return (problem, pixels()) if valid else (problem or _empty_box(box, image), image)
    reason = tf.cond(valid | (problem != ""), lambda: problem, lambda: _empty_box(box, image))
    return reason, tf.cond(valid, pixels, lambda: image)


def _empty_box(box, image):
    if isinstance(image, np.ndarray):
        borders = ", ".join(f"{border:g}" for border in box)
        return "".join(map(str, empty_box(borders, *image.shape[1::-1])))
    borders = tf.strings.reduce_join(tf.strings.as_string(box, shortest=True), separator=", ")
    height, width = tf.unstack(tf.strings.as_string(tf.shape(image)[:2]))
    return tf.strings.join(empty_box(borders, width, height))


def fitted(
    image: Any,
    *,
    size: tuple[int, int],
    resize: tuple[int, int],
    fit: str,
    fill: tuple[int, int, int],
    channels: int,
) -> Any:
    """RGB pixels `(any, any, 3)` as uint8 `(*size, channels)`; only the kept part is computed."""
    np_, sides = _functions_of(image), _resized_sides(image, resize, fit)
    room = sides - np.array(resize)
    # The upper left corner of the result in the resized image, negative if it is padded.
    corner = np.subtract(resize, size) // 2 + np_.sign(room) * (np_.abs(room) // 2)
    start, end = np_.maximum(corner, 0), np_.minimum(corner + np.array(size), sides)
    pixels = _resized_window(image, sides, start, end, channels)
    if fit == "pad":
        color = to_channels(np.array(fill, np.float32), channels)
        padding = np_.stack([start - corner, corner + np.array(size) - end], axis=1)
        padding = np_.concatenate([padding, np.zeros((1, 2), np.int64)])
        pad = np.pad if isinstance(image, np.ndarray) else tf.pad
        pixels = pad(pixels - color, padding) + color  # uint8 wraps around and back.
    return pixels if isinstance(image, np.ndarray) else tf.ensure_shape(pixels, (*size, channels))


def _resized_sides(image, resize, fit):
    """Height and width of the whole image after resizing, int64 `(2,)`."""
    if fit == "stretch":
        return np.array(resize, np.int64)
    np_, sides = _functions_of(image), _sides(image)
    scales = np.array(resize, np.float64) / np_.asarray(sides, np.float64)
    scale = np_.min(scales) if fit == "pad" else np_.max(scales)
    return np_.maximum(np_.asarray(_rounded(np_.asarray(sides, np.float64) * scale), np.int64), 1)


def _resized_window(image, sides, start, end, channels):
    """The pixels from `start` to `end` of the image resized to `sides`, uint8 `(*(end - start), channels)`."""
    if isinstance(image, np.ndarray):
        return to_channels(resized(image, sides, start, end), channels)

    def resized_by_tensorflow():
        scale = tf.cast(sides, tf.float32) / tf.cast(_sides(image), tf.float32)
        window = {"size": tf.cast(end - start, tf.int32), "scale": scale, "translation": -tf.cast(start, tf.float32)}
        options = {"kernel_type": "triangle", "antialias": True}  # as in tf.image.resize(image, antialias=True)
        return to_channels(
            tf.squeeze(tf.raw_ops.ScaleAndTranslate(images=image[None], **window, **options), 0), channels
        )

    def unchanged():
        return to_channels(image[start[0] : end[0], start[1] : end[1]], channels)

    return tf.cond(tf.reduce_all(_sides(image) == sides), unchanged, resized_by_tensorflow)


def resized(image: np.ndarray, sides: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The part from `start` to `end` of an image resized to `sides`: float32, or the pixels where nothing changes.

    As `tf.image.resize(image, antialias=True)`: bilinear, with a kernel that widens where the image shrinks.
    """
    if tuple(sides) == image.shape[:2]:
        return image[start[0] : end[0], start[1] : end[1]]
    rows, columns = (_weights(image.shape[axis], sides[axis], start[axis], end[axis]) for axis in (0, 1))
    height, width, channels = image.shape
    lines = rows @ image.reshape(height, width * channels).astype(np.float32)
    lines = np.ascontiguousarray(lines.reshape(-1, width, channels).swapaxes(0, 1))
    return (columns @ lines.reshape(width, -1)).reshape(columns.shape[0], -1, channels).swapaxes(0, 1)


def _weights(old, new, start, end):
    """Weights `(end - start, old)` of the pixels of a line, a sparse matrix; they sum to 1 in each row."""
    from scipy.sparse import csr_array

    step = np.float32(1) / (np.float32(new) / np.float32(old))
    width = np.maximum(step, np.float32(1))  # of the kernel
    centers = (np.arange(end - start, dtype=np.float32) + np.float32(0.5)) * step + step * np.float32(start)
    first = np.clip(np.ceil(centers - width - np.float32(0.5)), 0, old - 1).astype(int)
    last = np.clip(np.floor(centers + width - np.float32(0.5)), 0, old - 1).astype(int)
    pixels = first[:, None] + np.arange((last - first).max() + 1)
    distances = np.abs(pixels.astype(np.float32) + np.float32(0.5) - centers[:, None]) * (np.float32(1) / width)
    weights = np.where(pixels <= last[:, None], np.maximum(np.float32(1) - distances, np.float32(0)), np.float32(0))
    weights *= np.float32(1) / weights.sum(axis=1, keepdims=True)
    counts = np.arange(len(pixels) + 1) * pixels.shape[1]
    return csr_array((weights.ravel(), np.minimum(pixels, old - 1).ravel(), counts), shape=(len(pixels), old))


def to_channels(pixels: Any, channels: int) -> Any:
    """RGB in [0, 255], `(..., 3)`, as uint8 of 3 channels or 1: the luma 0.299 R + 0.587 G + 0.114 B."""
    np_ = _functions_of(pixels)
    if channels == 1:
        pixels = np_.sum(np_.asarray(pixels, np.float32) * np.array(LUMA, np.float32), axis=-1, keepdims=True)
    return pixels if pixels.dtype == np.uint8 else np_.asarray(_rounded(pixels), np.uint8)


def _rounded(values):
    return np.round(values) if isinstance(values, np.ndarray) else tf.round(values)
