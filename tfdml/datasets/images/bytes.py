"""Numbers in the bytes of a file. Every position can be read: all bytes after the end of the file are zero."""

from __future__ import annotations

from tfdml._core.optional import tf


def to_bytes(file: tf.Tensor) -> tf.Tensor:
    """A string `()` as uint8 `(size + 1,)`; the last byte is the zero that is read after the end."""
    return tf.io.decode_raw(file, tf.uint8, fixed_length=tf.strings.length(file) + 1)


def size_of(data: tf.Tensor) -> tf.Tensor:
    """Number of bytes of the file, int64."""
    return tf.size(data, out_type=tf.int64) - 1


def read_at(data: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """The bytes at int64 positions, int64 of the same shape."""
    return tf.cast(tf.gather(data, tf.clip_by_value(positions, 0, size_of(data))), tf.int64)


def read(data: tf.Tensor, start: tf.Tensor | int, count: int) -> tf.Tensor:
    """`count` bytes from `start` as int64 `(count,)`."""
    return read_at(data, tf.cast(start, tf.int64) + tf.range(count, dtype=tf.int64))


def big(data: tf.Tensor, start: tf.Tensor | int, count: int) -> tf.Tensor:
    """Unsigned number of `count` bytes, the most significant first, int64."""
    return tf.reduce_sum(read(data, start, count) * [256**k for k in reversed(range(count))])


def little(data: tf.Tensor, start: tf.Tensor | int, count: int) -> tf.Tensor:
    """Unsigned number of `count` bytes, the least significant first, int64."""
    return tf.reduce_sum(read(data, start, count) * [256**k for k in range(count)])


def spells(data: tf.Tensor, start: tf.Tensor | int, text: bytes) -> tf.Tensor:
    """Whether the bytes from `start` are `text`."""
    return tf.reduce_all(read(data, start, len(text)) == list(text))


def between(file: tf.Tensor, start: tf.Tensor | int, end: tf.Tensor | int) -> tf.Tensor:
    """The bytes of the file from `start` up to, not including, `end`."""
    start, end = tf.cast(start, tf.int64), tf.cast(end, tf.int64)
    return tf.strings.substr(file, start, end - start)
