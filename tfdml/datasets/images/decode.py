"""Decoding of image files to upright RGB pixels, or to an error message."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from tfdml.datasets.images import headers
from tfdml.datasets.images.bytes import between, little, read, size_of, spells, to_bytes
from tfdml.datasets.images.exif import orientation, upright
from tfdml.datasets.images.plain import is_plain
from tfdml.datasets.images.reasons import (
    BROKEN,
    JPEG,
    OTHER_KINDS,
    OTHER_STARTS,
    PADDING,
    STARTS,
    reasons,
    require_pixels,
)

_PARALLEL_FILES = 8  # number of files of a batch that are decoded at the same time
ERRORS = tf.errors.OpError
_READERS = (headers.unknown, headers.jpeg, headers.png, headers.gif, headers.bmp, headers.webp)
_DCT_METHODS = {"accurate": "INTEGER_ACCURATE", "fast": "INTEGER_FAST"}
_BLOCK = 8  # pixels of a side


def require_image(problem: tf.Tensor, image: tf.Tensor) -> tf.Tensor:
    """The image; raises an `InvalidArgumentError` with the reason if there is one."""
    with tf.control_dependencies([tf.debugging.Assert(problem == "", [tf.strings.join(["Received ", problem])])]):
        return tf.identity(image)


_LIMIT, _COLOR = tf.TensorSpec((), tf.int64), tf.TensorSpec((3,), tf.uint8)


def decoded(
    file: tf.Tensor,
    max_bytes: int,
    max_pixels: int,
    inverse_dct: Literal["accurate", "fast"] = "accurate",
    background: tuple[int, int, int] | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """A string `()`, empty or the reason why there is no image, and uint8 `(height, width, 3)`, or one black pixel.

    It recognizes the file by its content, as `Preprocessing` describes it. One that TensorFlow's decoder cannot read is
    a `tf.errors.InvalidArgumentError`.
    """
    file = tf.convert_to_tensor(file)
    limits = tf.constant(max_bytes, tf.int64), tf.constant(max_pixels, tf.int64)
    plain = is_plain(file, max_bytes)
    whole, image = tf.cond(plain, lambda: _plain(file, limits[1], inverse_dct), lambda: (False, _black()))
    color = () if background is None else (tf.constant(background, tf.uint8),)
    parser = (_COMPOSITORS if color else _PARSERS)[inverse_dct]
    return tf.cond(whole, lambda: (tf.constant(""), image), lambda: parser(file, *limits, *color))


def is_transparent(file: tf.Tensor, max_bytes: int, max_pixels: int) -> tf.Tensor:
    """Whether a file that can be decoded has pixels that are not opaque."""
    black, white = (decoded(file, max_bytes, max_pixels, background=(level,) * 3)[1] for level in (0, 255))
    return tf.reduce_any(black != white)


def contents(example: Any) -> tuple[bool, tf.Tensor]:
    """Whether an example is the path of a file, and the content of the file, or else the pixels."""
    example = tf.convert_to_tensor(example)
    return (True, tf.io.read_file(example)) if example.dtype == tf.string else (False, example)


def as_rgb(pixels: tf.Tensor, background: tuple[int, int, int] | None) -> tf.Tensor:
    """Pixels `(any, any, 1, 3 or 4)` as RGB."""
    require_pixels(None if pixels.shape.rank is None else pixels.shape.as_list(), pixels.dtype.name)
    if pixels.shape[2] == 1:
        return tf.repeat(pixels, 3, axis=2)
    if background is None or pixels.shape[2] == 3:
        return pixels[..., :3]
    return onto(pixels, tf.constant(background, tf.uint8))


def onto(image: tf.Tensor, background: tf.Tensor) -> tf.Tensor:
    """RGB or RGBA pixels, uint8 `(height, width, 3 or 4)`, as RGB over a color `(3,)`, rounded to the nearest level."""

    def blended():
        color, alpha = tf.cast(image[..., :3], tf.uint16), tf.cast(image[..., 3:], tf.uint16)
        behind = tf.cast(background, tf.uint16) * (255 - alpha)
        return tf.cast((color * alpha + behind + 127) // 255, tf.uint8)

    return tf.cond(tf.shape(image)[2] == 4, blended, lambda: image[..., :3])


def _jpeg(file, inverse_dct):
    return tf.io.decode_jpeg(file, channels=3, dct_method=_DCT_METHODS[inverse_dct])


def _plain(file, max_pixels, inverse_dct):
    """Whether a plain JPEG is whole and not too large, and its pixels."""
    height, width, _ = tf.unstack(tf.cast(tf.image.extract_jpeg_shape(file), tf.int64), num=3)
    image = tf.cond(height * width <= max_pixels, lambda: _jpeg(file, inverse_dct), _black)
    return (height * width <= max_pixels) & ~_ends_gray(image), image


def _black():
    return tf.zeros((1, 1, 3), tf.uint8)


def _decoded(inverse_dct, file, max_bytes, max_pixels, background=None):
    size = tf.cast(tf.strings.length(file), tf.int64)
    data = to_bytes(tf.cond(size <= max_bytes, lambda: file, lambda: ""))
    kind = _first_start(data, STARTS)  # index into _READERS
    header = tf.switch_case(kind, [lambda read=read: read(file, data) for read in _READERS])
    other = tf.gather(OTHER_KINDS, _first_start(data, OTHER_STARTS))
    problem = _first_reason(*reasons(size, max_bytes, max_pixels, kind, other, header, tf.maximum))
    image = tf.cond(problem == "", lambda: _pixels(header, data, inverse_dct, background), _black)
    cut = tf.cond(problem == "", lambda: _is_cut(image, file, data, header.frame, inverse_dct), lambda: False)
    problem = tf.where(cut, BROKEN, problem)
    return problem, upright(image, orientation(data, header.exif))


def _parser(method, *color):
    return tf.function(
        partial(_decoded, method),
        input_signature=[tf.TensorSpec((), tf.string), _LIMIT, _LIMIT, *color],
        autograph=False,
        experimental_attributes={"_noinline": True},
    )


_PARSERS = {method: _parser(method) for method in _DCT_METHODS}
_COMPOSITORS = {method: _parser(method, _COLOR) for method in _DCT_METHODS}


def _first_reason(*reasons):
    """The joined text of the first `(condition, texts and numbers)` whose condition holds; empty if none does."""
    reason = tf.constant("")
    for condition, values in reversed(reasons):
        texts = [value if isinstance(value, str) else tf.strings.as_string(value) for value in values]
        text = tf.strings.join(texts)
        reason = tf.where(condition, text, reason)
    return reason


def _first_start(data, starts):
    """The number, from 1, of what a file begins with, or 0, int32; a space is for any byte."""
    table = np.array([list(start.ljust(12)) for start in starts])
    same = tf.reduce_all((read(data, 0, 12) == table) | (table == ord(" ")), axis=1)
    return tf.reduce_sum(tf.cast(same, tf.int32) * tf.range(1, 1 + len(starts)))


def _pixels(header, data, inverse_dct, background):
    is_jpeg = spells(data, 0, JPEG)
    return tf.cond(
        is_jpeg, lambda: _jpeg(header.still, inverse_dct), lambda: _pixels_of_others(header, data, background)
    )


def _pixels_of_others(header, data, background):
    webp = spells(data, 0, b"RIFF")  # TensorFlow does not drop the alpha of a WebP when asked for three channels.
    if background is None:
        image = tf.cond(webp, lambda: _image(header.still, 0), lambda: _image(header.still, 3))[..., :3]
    else:
        image = onto(tf.cond(webp, lambda: _image(header.alpha, 0), lambda: _with_alpha(header, data)), background)
    indexed = spells(data, 0, b"BM") & (little(data, 28, 2) == 8)  # TensorFlow reads palette indexes as gray.
    palette = lambda: tf.reshape(read(data, 14 + little(data, 14, 4), 4 * 256), (256, 4))[:, 2::-1]  # noqa: E731
    colored = lambda: tf.cast(tf.gather(palette(), tf.cast(image[..., 0], tf.int32)), tf.uint8)  # noqa: E731
    return tf.cond(indexed, colored, lambda: image)


def _image(file, channels):
    """Pixels of an image that is not a JPEG; of as many channels as the file has where `channels` is 0."""
    image = tf.io.decode_image(file, channels=channels, expand_animations=False)
    image.set_shape((None, None, None))
    return image


def _with_alpha(header, data):
    """Pixels of a PNG, a GIF or a BMP, with alpha where the format defines it."""
    gif = lambda: tf.concat([_image(header.still, 3), _image(header.alpha, 3)[..., :1]], axis=2)  # noqa: E731
    others = lambda: tf.cond(spells(data, 0, b"GIF8"), gif, lambda: _image(header.still, 3))  # noqa: E731
    return tf.cond(spells(data, 0, b"\x89PNG"), lambda: _png_with_alpha(header.still, data), others)


def _png_with_alpha(still, data):
    """Pixels of a PNG; TensorFlow marks opaque gray of 1, 2 or 4 bits by the largest number of so many bits."""
    image, (depth, color) = _image(still, 4), tf.unstack(read(data, 24, 2), num=2)
    is_opaque = (tf.cast(image[..., 3:], tf.int64) == 2**depth - 1) & (color == 0)
    return tf.concat([image[..., :3], tf.where(is_opaque, tf.constant(255, tf.uint8), image[..., 3:])], axis=2)


def _is_cut(image, file, data, frame, inverse_dct):
    """Whether the data of a JPEG end before its image is complete.

    libjpeg fills the missing part with gray. To tell it from gray in the image, the function decodes the file again
    with bytes inserted before the end mark: they change the image only if the decoder still expects data. It does not
    decode images again that do not end in gray, because this takes time and logs the inserted bytes as corrupt data.
    """

    def changes():
        end = headers.jpeg_end(*headers.jpeg_markers(data, frame))
        padded = tf.strings.join([between(file, 0, end), PADDING, between(file, end, size_of(data))])
        return tf.reduce_any(_jpeg(padded, inverse_dct) != image)

    return tf.cond((frame >= 0) & _ends_gray(image), changes, lambda: False)


def _ends_gray(image):
    """Whether the last block is what libjpeg fills in for missing data: of RGB and gray; CMYK; YCCK.

    Its first row and column, where it has others, mix with the blocks beside it where colors have fewer samples.
    """
    last = image[-1, -1]
    may_be = tf.reduce_min(last) == tf.reduce_max(last)
    return tf.cond(may_be, lambda: _is_last_block_gray(image), lambda: tf.constant(False))


def _is_last_block_gray(image):
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    first = [side - tf.maximum((side - 1) % _BLOCK, 1) for side in (height, width)]
    block = tf.reshape(image[first[0] :, first[1] :], (-1, 3))
    return tf.reduce_any(tf.reduce_all(block[:, None] == tf.constant([[128], [64], [63]], tf.uint8), axis=[0, 2]))


def load_one(load: Callable[..., tuple[tf.Tensor, tf.Tensor]]) -> Callable[..., tuple[np.ndarray, str]]:
    """Function of the content of a file, and of a box `(4,)` or none, that returns pixels and a reason; no graph.

    `load` is as in `load_batch`. Threads may call the function at the same time; this is faster than `load_batch`.
    """
    loaded, graphs, lock = tf.function(load, autograph=False), {}, threading.Lock()

    def graph_for(arguments):
        with lock:  # TensorFlow warns of retracing where threads wait for the same graph
            if len(arguments) not in graphs:
                graphs[len(arguments)] = loaded.get_concrete_function(*arguments)
        return graphs[len(arguments)]

    def read(file, box=None):
        try:
            arguments = [tf.constant(file)] + ([] if box is None else [tf.constant(box, tf.float64, (4,))])
            problem, image = graph_for(arguments)(*arguments)
        except tf.errors.OpError:  # of a decoder
            return np.zeros((1, 1, 3), np.uint8), BROKEN
        return image.numpy(), problem.numpy().decode()

    return read


def load_batch(
    load: Callable[..., tuple[tf.Tensor, tf.Tensor]], columns: tuple[tf.Tensor, ...], shape: tuple[int, int, int]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Images of a batch of files, black where there is none, and the reasons, empty for none.

    `load` takes one row of `columns` and returns a reason and uint8 pixels of `shape`. In a graph only a dataset can
    skip elements that raise an error: a dataset of all rows runs here and leaves out the rows that failed.
    """
    batch = tf.size(columns[0], out_type=tf.int64)

    def one(row):
        return row, *load(*(column[row] for column in columns))

    rows = tf.data.Dataset.range(batch).map(one, num_parallel_calls=_PARALLEL_FILES).ignore_errors()
    # The batch is never empty, even if every row fails.
    last = tf.data.Dataset.from_tensors((batch, "", tf.zeros(shape, tf.uint8)))
    done, problems, images = rows.concatenate(last).batch(batch + 1).get_single_element()
    black = tf.zeros((batch + 1, *shape), tf.uint8)
    return (
        tf.tensor_scatter_nd_update(black, done[:, None], images)[:-1],
        tf.tensor_scatter_nd_update(tf.fill([batch + 1], BROKEN), done[:, None], problems)[:-1],
    )
