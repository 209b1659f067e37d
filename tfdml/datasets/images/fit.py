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


def cut(
    problem: tf.Tensor, image: tf.Tensor, box: tf.Tensor, margin: float, is_query: bool = False
) -> tuple[tf.Tensor, tf.Tensor]:
    """The reason for no pixels, empty for none, and the pixels that a box `(4,)` touches, or the whole image.

    The box of a query is unchecked. It may exceed the image by one pixel, but may not lie within the unit square, where
    it looks normalized (`is_in_one_pixel`).
    """
    sides = tf.cast(tf.shape(image)[:2], tf.float64)
    box = tf.cast(tf.ensure_shape(box, (4,)), tf.float64)
    start, end = tf.maximum(box[1::-1], 0.0), tf.minimum(box[:1:-1], sides)
    valid = tf.reduce_all(end > start)  # False for NaN.
    if is_query:
        is_inside = tf.reduce_all((box[1::-1] >= -ROUNDING) & (box[:1:-1] <= sides + ROUNDING))
        valid &= is_inside & ~is_in_one_pixel(tf.reduce_max(box), tf.reduce_max(sides))
    grow = margin * (end - start)
    first = tf.cast(tf.floor(tf.maximum(start - grow, 0.0)), tf.int32)
    last = tf.cast(tf.math.ceil(tf.minimum(end + grow, sides)), tf.int32)
    pixels = tf.cond(valid, lambda: image[first[0] : last[0], first[1] : last[1]], lambda: image)
    return tf.cond(valid | (problem != ""), lambda: problem, lambda: _empty_box(box, tf.shape(image))), pixels


def _empty_box(box, shape):
    box = tf.strings.reduce_join(tf.strings.as_string(box, shortest=True), separator=", ")
    height, width = tf.unstack(tf.strings.as_string(shape[:2]))
    return tf.strings.join(empty_box(box, width, height))


def fitted(
    image: tf.Tensor,
    *,
    size: tuple[int, int],
    resize: tuple[int, int],
    fit: str,
    fill: tuple[int, int, int],
    channels: int,
) -> tf.Tensor:
    """RGB pixels `(any, any, 3)` as uint8 `(*size, channels)`; the graph computes only the kept part."""
    old = tf.shape(image)[:2]
    sides = _resized_sides(old, resize, fit)
    # The upper left corner of the result in the resized image, negative if it is padded.
    corner = np.subtract(resize, size, dtype=np.int32) // 2 + (
        0 if fit == "stretch" else tf.truncatediv(sides - resize, 2)
    )
    if fit != "pad":
        return tf.ensure_shape(_resized_window(image, old, sides, corner, size, channels), (*size, channels))
    start, end = tf.maximum(corner, 0), tf.minimum(corner + size, sides)
    pixels = _resized_window(image, old, sides, start, end - start, channels)
    color = to_channels(tf.constant(fill, tf.float32), channels)
    padding = tf.stack([start - corner, corner + size - end], axis=1)
    pixels = tf.pad(pixels - color, tf.concat([padding, [[0, 0]]], 0)) + color  # uint8 wraps around and back.
    return tf.ensure_shape(pixels, (*size, channels))


def _resized_sides(sides, resize, fit):
    """Height and width of the whole image after resizing, int32 `(2,)`."""
    if fit == "stretch":
        return np.array(resize, np.int32)
    sides = tf.cast(sides, tf.float64)
    scales = np.array(resize, np.float64) / sides
    scale = tf.reduce_min(scales) if fit == "pad" else tf.reduce_max(scales)
    return tf.cast(tf.maximum(tf.round(sides * scale), 1.0), tf.int32)


def _resized_window(image, old, sides, start, size, channels):
    """The pixels from `start` of the image resized from `old` to `sides`, uint8 `(*size, channels)`."""

    def resized():
        scale, shift = tf.cast(sides, tf.float32) / tf.cast(old, tf.float32), -tf.cast(start, tf.float32)
        options = {"kernel_type": "triangle", "antialias": True}  # as in tf.image.resize(image, antialias=True)
        batch = tf.raw_ops.ScaleAndTranslate(images=image[None], size=size, scale=scale, translation=shift, **options)
        return tf.squeeze(batch, 0)

    return tf.cond(
        tf.reduce_all(old == sides),
        lambda: to_channels(tf.slice(image, tf.concat([start, [0]], 0), tf.concat([size, [3]], 0)), channels),
        lambda: to_channels(resized(), channels),
    )


def to_channels(pixels: tf.Tensor, channels: int) -> tf.Tensor:
    """RGB in [0, 255], `(..., 3)`, as uint8 of 3 channels or 1: the luma 0.299 R + 0.587 G + 0.114 B."""
    if channels == 1:
        pixels = tf.reduce_sum(tf.cast(pixels, tf.float32) * LUMA, axis=-1, keepdims=True)
    return pixels if pixels.dtype == tf.uint8 else tf.cast(tf.round(pixels), tf.uint8)
