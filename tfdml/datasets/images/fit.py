"""Pixels of a given size: bounding boxes, resizing, padding and center crops."""

from __future__ import annotations

import numpy as np

from tfdml._core.optional import tf

ROUNDING = 1.0  # pixels, as in `LabeledSet.check_files`
_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as in JPEG.


def cut(
    problem: tf.Tensor, image: tf.Tensor, box: tf.Tensor, margin: float, is_query: bool = False
) -> tuple[tf.Tensor, tf.Tensor]:
    """The reason for no pixels, empty for none, and the pixels that a box `(4,)` touches, or the whole image.

    The box of a query, which nobody has checked, may exceed the image by one pixel, and may not lie within the unit
    square, where it would be shares of the image.
    """
    sides = tf.cast(tf.shape(image)[:2], tf.float64)
    box = tf.cast(tf.ensure_shape(box, (4,)), tf.float64)
    start, end = tf.maximum(box[1::-1], 0.0), tf.minimum(box[:1:-1], sides)
    valid = tf.reduce_all(end > start)  # False for NaN.
    if is_query:
        is_inside = tf.reduce_all((box[1::-1] >= -ROUNDING) & (box[:1:-1] <= sides + ROUNDING))
        valid &= is_inside & ((tf.reduce_max(box) > 1) | (tf.reduce_max(sides) <= 1))
    grow = margin * (end - start)
    first = tf.cast(tf.floor(tf.maximum(start - grow, 0.0)), tf.int32)
    last = tf.cast(tf.math.ceil(tf.minimum(end + grow, sides)), tf.int32)
    pixels = tf.cond(valid, lambda: image[first[0] : last[0], first[1] : last[1]], lambda: image)
    return tf.cond(valid | (problem != ""), lambda: problem, lambda: _empty_box(box, tf.shape(image))), pixels


def _empty_box(box, shape):
    box = tf.strings.reduce_join(tf.strings.as_string(box, shortest=True), separator=", ")
    height, width = tf.unstack(tf.strings.as_string(shape[:2]))
    expected = " pixels, expected left < right and upper < lower inside the image, in pixels. Correct the box."
    return tf.strings.join(["the box (", box, ") of an image of ", width, " x ", height, expected])


def fitted(
    image: tf.Tensor,
    *,
    size: tuple[int, int],
    resize: tuple[int, int],
    fit: str,
    fill: tuple[int, int, int],
    channels: int,
) -> tf.Tensor:
    """RGB pixels `(any, any, 3)` as uint8 `(*size, channels)`; of the resized image, only what is kept is computed."""
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
    """Height and width of the whole image after it is resized, int32 `(2,)`."""
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
        pixels = tf.reduce_sum(tf.cast(pixels, tf.float32) * _LUMA, axis=-1, keepdims=True)
    return pixels if pixels.dtype == tf.uint8 else tf.cast(tf.round(pixels), tf.uint8)
