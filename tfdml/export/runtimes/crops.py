"""Crops of boxes of a photograph inside a graph, by matrix products, because every runtime has these."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tfdml._core.optional import tf
from tfdml.datasets import Preprocessing
from tfdml.datasets.images.augmentation import as_sides
from tfdml.datasets.images.fit import ROUNDING, to_channels


def inputs() -> list[Any]:
    """Types of a photograph and its boxes."""
    return [
        tf.TensorSpec((None, None, 3), "uint8", name="photograph"),
        tf.TensorSpec((None, 4), "float32", name="boxes"),
    ]


def crops(photograph: Any, boxes: Any, preprocessing: Preprocessing) -> tuple[Any, Any]:
    """The pixels of each box of a photograph as `preprocessing` cuts and resizes it, and whether it is a box.

    Rows R and columns C are matrices of the weights of the triangle filter: the crop of X is R X C^T. Sums in float32
    may round to the next gray level.

    Args:
        photograph: uint8 `(height, width, 3)`, upright.
        boxes: float32 `(n, 4)`: left, upper, right and lower border in pixels.
        preprocessing: size, fit and margin; `boxes` may be False.

    Returns:
        pixels: uint8 `(n, *preprocessing.shape)`; the whole photograph where `valid` is False.
        valid: `(n,)` bool, by the rule of `Preprocessing.reader`.
    """
    sides = tf.cast(tf.shape(photograph)[:2], tf.float32)
    upper_left, lower_right = (tf.stack([boxes[:, i + 1], boxes[:, i]], axis=1) for i in (0, 2))
    start, end = tf.maximum(upper_left, 0.0), tf.minimum(lower_right, sides)
    is_inside = (
        (-upper_left <= ROUNDING) & (lower_right <= sides + ROUNDING) & (start < end)
    )  # `>=` takes NaN (OpenVINO)
    in_pixels = (tf.reduce_max(boxes, axis=1) > 1) | (tf.reduce_max(sides) <= 1)
    valid = is_inside[:, 0] & is_inside[:, 1] & in_pixels
    start, end = tf.where(valid[:, None], start, 0.0), tf.where(valid[:, None], end, sides)
    first, last = _grown(start, end, preprocessing.margin)
    first, last = tf.maximum(first, 0.0), tf.minimum(last, sides)
    rows, columns = _weights(sides, first, last - first, preprocessing)
    (height, width, channels), (old_height, old_width) = preprocessing.shape, tf.unstack(tf.shape(photograph)[:2])
    levels = tf.reshape(tf.cast(tf.transpose(photograph, (0, 2, 1)), tf.float32), (old_height, 3 * old_width))
    levels = tf.reshape(tf.reshape(rows, (-1, old_height)) @ levels, (-1, 3 * height, old_width))
    levels = tf.reshape(tf.matmul(levels, columns, transpose_b=True), (-1, height, 3, width))
    pixels = to_channels(tf.transpose(levels, (0, 1, 3, 2)), channels)
    if preprocessing.fit == "pad":
        shown = tf.reduce_max(rows, axis=2)[:, :, None, None] * tf.reduce_max(columns, axis=2)[:, None, :, None]
        color = to_channels(tf.constant(np.broadcast_to(preprocessing.fill, 3), tf.float32), channels)
        pixels = tf.cast(tf.where(shown > 0, tf.cast(pixels, tf.float32), tf.cast(color, tf.float32)), tf.uint8)
    return pixels, valid


def _grown(start: Any, end: Any, margin: float) -> tuple[Any, Any]:
    """Whole borders around `start` and `end` with a share of their distance on each side, as in float64.

    It sums parts of a pixel apart from whole pixels, and rounds them to 2^-20 pixels: 0.1 of 30 pixels are 3.
    """
    coarse = np.round(4096 * margin) / 4096  # times up to 4,096 pixels is exact
    start_pixel, end_pixel = tf.floor(start), tf.floor(end)
    distance = end_pixel - start_pixel
    whole = tf.floor(coarse * distance)
    fraction = coarse * distance - whole + (margin - coarse) * distance
    fraction += margin * (end - end_pixel - (start - start_pixel))
    first, last = (tf.round(x * 2**20) / 2**20 for x in (start - start_pixel - fraction, end - end_pixel + fraction))
    return start_pixel - whole + tf.floor(first), end_pixel + whole + tf.math.ceil(last)


def _weights(sides: Any, first: Any, old: Any, preprocessing: Preprocessing) -> Iterator[Any]:
    """Weights of the pixels of a photograph for the rows of each crop, `(n, height, sides[0])`, and for its columns.

    A crop has `old` pixels from `first` on, both `(n, 2)`. A row outside it is padding and has zeros.
    """
    size = preprocessing.shape[:2]
    resize: Any = np.array(as_sides("resize", preprocessing.resize or size), np.float32)
    corner, new = (resize - size) // 2 + 0.0 * old, resize + 0.0 * old
    if preprocessing.fit != "stretch":
        pads, (by_rows, by_columns) = preprocessing.fit == "pad", resize
        cross = by_rows * old[:, 1:], by_columns * old[:, :1]
        by_height = cross[0] <= cross[1] if pads else cross[0] >= cross[1]
        product = old * tf.where(by_height, by_rows, by_columns)
        new = tf.maximum(_rounded(product, tf.where(by_height, old[:, :1], old[:, 1:])), 1.0)
        corner += (tf.math.ceil if pads else tf.floor)((new - resize) / 2)
    for axis in range(2):
        step = (old / new)[:, axis, None, None]
        samples = tf.range(size[axis], dtype=tf.float32)[:, None] + corner[:, axis, None, None]
        pixels = tf.range(sides[axis])[None, :] + 0.5 - first[:, axis, None, None]
        weights = tf.nn.relu(1.0 - tf.abs(pixels - (samples + 0.5) * step) / tf.maximum(step, 1.0))
        is_of_crop = (pixels > 0) & (pixels < old[:, axis, None, None])
        is_of_crop &= (samples >= 0) & (samples < new[:, axis, None, None])
        weights = tf.where(is_of_crop, weights, 0.0)
        yield tf.math.divide_no_nan(weights, tf.reduce_sum(weights, axis=2, keepdims=True))


def _rounded(product: Any, divisor: Any) -> Any:
    """The nearest whole number of a quotient of whole numbers, the even one of two, also where OpenVINO divides."""
    whole = tf.floor(product / divisor)
    whole += tf.floor((product - whole * divisor) / divisor + 1e-3)
    twice = 2.0 * (product - whole * divisor)
    is_odd = whole - 2.0 * tf.floor(whole * 0.5)
    return whole + tf.where((twice > divisor) | ((twice == divisor) & (is_odd > 0)), 1.0, 0.0)
