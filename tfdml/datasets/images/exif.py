"""Orientation of a photograph: the Exif tag 0x0112, see CIPA DC-008, Exif 2.32, section 4.6.4; TIFF 6.0, section 2."""

from __future__ import annotations

from tfdml._core.optional import tf
from tfdml.datasets.images.bytes import big, little, read_at, size_of, spells

ORIENTATION, SHORT, LONG, ENTRY = 0x0112, 3, 4, 12
# For each value 0 to 8: first swap the axes, then reverse the order of rows, then of columns.
SWAP = (False, False, False, False, False, True, True, True, True)
REVERSE_ROWS = (False, False, False, True, True, False, False, True, True)
REVERSE_COLUMNS = (False, False, True, True, False, False, True, True, False)


def orientation(data: tf.Tensor, start: tf.Tensor) -> tf.Tensor:
    """The orientation, 1 to 8, int64, by a TIFF header at `start`, negative for none; 1 if it cannot be read."""
    return tf.cond(start < 0, lambda: tf.constant(1, tf.int64), lambda: _tag(data, start))


def _tag(data, start):
    order = spells(data, start, b"MM\x00*")
    is_tiff = order | spells(data, start, b"II*\x00")

    def number(position, count):
        return tf.where(order, big(data, position, count), little(data, position, count))

    first = start + number(start + 4, 4)
    count = tf.where(is_tiff, tf.minimum(number(first, 2), (size_of(data) - first) // ENTRY), 0)
    entries = first + 2 + ENTRY * tf.range(tf.maximum(count, 0))
    heads = read_at(data, entries[:, None] + tf.range(4, dtype=tf.int64))
    heads = tf.where(order, heads[:, 0::2] * 256 + heads[:, 1::2], heads[:, 0::2] + heads[:, 1::2] * 256)
    is_whole = (heads[:, 1] == SHORT) | (heads[:, 1] == LONG)
    ours = tf.where((heads[:, 0] == ORIENTATION) & is_whole, entries, size_of(data))
    entry = tf.reduce_min(tf.concat([ours, size_of(data)[None]], 0))
    value = tf.where(number(entry + 2, 2) == LONG, number(entry + 8, 4), number(entry + 8, 2))
    return tf.where((value >= 1) & (value <= 8), value, 1)


def upright(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """An image `(height, width, channels)` rotated according to its orientation."""

    def rotated():
        swapped = tf.cond(tf.gather(SWAP, orientation), lambda: tf.transpose(image, (1, 0, 2)), lambda: image)
        reverse = tf.stack([tf.gather(REVERSE_ROWS, orientation), tf.gather(REVERSE_COLUMNS, orientation)])
        return tf.reverse(swapped, tf.where(reverse)[:, 0])

    return tf.cond(orientation == 1, lambda: image, rotated)
