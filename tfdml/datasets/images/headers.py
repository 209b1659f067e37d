"""Headers of image files by format, and the part of the file that holds the image.

The decoder gets the first frame of an animation alone: TensorFlow 2.20 decodes all frames of a GIF to return the
first one, and writes out of bounds for an animated WebP.

Sources: W3C, PNG (third edition), sections 5 and 11; CompuServe, GIF89a; Microsoft, BITMAPINFOHEADER; RFC 9649 (WebP);
ITU-T T.81 (JPEG), annex B.
"""

from __future__ import annotations

import typing

from tfdml._core.optional import tf
from tfdml.datasets.images import MAX_SCANS
from tfdml.datasets.images.bytes import between, big, little, read, read_at, size_of, spells

_NOT_FOUND = 2**62  # position of a block that has not been found
MAX_BLOCKS = 10_000  # blocks visited per file: a file of millions of empty blocks must not take minutes
MAX_SEGMENT = 2**16 + 2  # bytes of a segment of a JPEG with its marker
_BLOCKS_PER_STEP = 64  # number of blocks of equal length that are skipped in one step
ZEROS = 64  # bytes at the end of a WebP
_BETWEEN, _EXTENSION, _FRAME = 0, 1, 2  # chain of blocks that contains the current position in a GIF


def begins_and_ends(path: str) -> bool:
    """Whether a file begins as an image that is read, and ends as a whole one."""
    try:
        with open(path, "rb") as file:
            start, size = file.read(12), file.seek(0, 2)
            file.seek(max(size - 12, 0))
            end = file.read()
    except OSError:
        return False
    if start.startswith(b"RIFF"):
        return start[8:] == b"WEBP" and int.from_bytes(start[4:8], "little") + 8 <= size
    ends = {b"\xff\xd8\xff": b"\xff\xd9", b"\x89PNG": b"IEND\xaeB`\x82", b"GIF8": b";", b"BM": b""}
    return any(start.startswith(first) and end.endswith(last) for first, last in ends.items())


class Header(typing.NamedTuple):
    """Contents of a header; sizes, positions and counts are int64.

    `width` and `height` are 0 if the header cannot be read. `still` are the bytes to decode; `alpha` the bytes of the
    transparency: a GIF whose opaque pixels are white, or a WebP of four channels where it has transparency. `exif` and
    `frame` are positions of the TIFF header and of the frame header of a JPEG, -1 for none; `scans` counts the scans of
    a JPEG.
    """

    width: tf.Tensor
    height: tf.Tensor
    still: tf.Tensor
    alpha: tf.Tensor
    exif: tf.Tensor
    frame: tf.Tensor
    scans: tf.Tensor


def _header(width, height, still, exif=-1, frame=-1, scans=0, alpha=""):
    width, height, exif, frame, scans = (tf.cast(value, tf.int64) for value in (width, height, exif, frame, scans))
    return Header(width, height, still, tf.convert_to_tensor(alpha), exif, frame, scans)


def unknown(file, data):
    """A file of a format that is not read."""
    return _header(0, 0, file)


def _walk(condition, step, *start):
    """`tf.while_loop` over int64 numbers, with at most `MAX_BLOCKS` steps."""
    return tf.while_loop(condition, step, [tf.cast(value, tf.int64) for value in start], maximum_iterations=MAX_BLOCKS)


def png(file, data):
    """IHDR comes first. An eXIf chunk may be before or behind the image data, runs of chunks of one length."""

    def step(position, exif):
        size = 12 + big(data, position, 4)
        ahead = position + size * tf.range(_BLOCKS_PER_STEP, dtype=tf.int64)
        heads = read_at(data, ahead[:, None] + tf.range(8, dtype=tf.int64))
        run = tf.reduce_sum(tf.math.cumprod(tf.cast(tf.reduce_all(heads == heads[:1], axis=1), tf.int64)))
        exif = tf.where(spells(data, position + 4, b"eXIf"), position + 8, exif)
        last = (exif >= 0) | spells(data, position + 4, b"IEND")
        return tf.where(last, size_of(data), position + size * run), exif

    _, exif = _walk(lambda position, exif: position < size_of(data), step, 8, -1)
    first = tf.cast(spells(data, 8, b"\x00\x00\x00\rIHDR"), tf.int64)
    return _header(big(data, 16, 4) * first, big(data, 20, 4) * first, file, exif)


def jpeg(file, data):
    """libjpeg reads the size and also decodes the image, so size and image always agree."""

    def step(position, exif, frame):
        head = read(data, position, 10)
        marker, length = head[1], head[2] * 256 + head[3]
        is_exif = (marker == 0xE1) & tf.reduce_all(head[4:] == list(b"Exif\x00\x00")) & (exif < 0)
        is_frame = (marker >= 0xC0) & (marker <= 0xCF) & (marker != 0xC4) & (marker != 0xC8) & (marker != 0xCC)
        last = (head[0] != 0xFF) | is_frame | (marker == 0xDA) | (marker == 0xD9)
        # Any marker may be preceded by fill bytes of 0xFF.
        after = position + tf.where(marker == 0xFF, tf.ones_like(position), 2 + length)
        frame = tf.where(is_frame & (head[0] == 0xFF), position, frame)
        return tf.where(last, size_of(data), after), tf.where(is_exif, position + 10, exif), frame

    _, exif, frame = _walk(lambda position, exif, frame: position < size_of(data), step, 2, -1, -1)
    height, width, _ = tf.unstack(tf.cast(tf.image.extract_jpeg_shape(file), tf.int64), num=3)
    scans, end_is_plain = _scans(data, frame)
    is_whole = tf.cast((frame < 0) | (_are_all(data, frame, scans[:MAX_SCANS]) & end_is_plain), tf.int64)
    return _header(width * is_whole, height * is_whole, file, exif, frame, tf.size(scans))


def jpeg_markers(data, frame):
    """Positions and codes of the markers after the frame header of a JPEG, with restarts and 0xFF in the data."""
    frame = tf.maximum(frame, 0)
    positions = frame + tf.where(data[frame:-1] == 0xFF)[:, 0]
    return positions, tf.gather(data, positions + 1)


def jpeg_end(positions, codes):
    """Position of the first end mark (EOI); 0 if there is none."""
    return tf.concat([positions[codes == 0xD9], [0]], 0)[0]


def _scans(data, frame):
    """Positions of the scans before the first end mark, and whether this is the one where decoders end.

    Decoders skip segments: an end mark inside one would hide the scans after it. Without a frame header, it counts the
    scans of the whole file.
    """
    positions, codes = jpeg_markers(data, frame)
    end = tf.where(frame < 0, size_of(data), jpeg_end(positions, codes))
    is_segment = (codes >= 0xC0) & ((codes < 0xD0) | (codes > 0xD9)) & (codes < 0xFF)
    near = positions[is_segment & (positions < end) & (positions > end - MAX_SEGMENT)]
    lengths = read_at(data, near + 2) * 256 + read_at(data, near + 3)
    return positions[(codes == 0xDA) & (positions < end)], tf.reduce_all(near + 2 + lengths <= end)


def _are_all(data, frame, scans):
    """Whether each component has scans of all 64 coefficients down to the last bit (Al = 0)."""
    heads = read_at(data, scans[:, None] + tf.range(16, dtype=tf.int64))
    components = heads[:, 4]
    first, last, bits = (tf.gather(heads, 5 + 2 * components + k, axis=1, batch_dims=1) for k in range(3))
    sent = tf.where(bits % 16 == 0, components * (last - first + 1), 0)
    return tf.reduce_sum(sent) >= 64 * read_at(data, frame + 9)


def gif(file, data):
    """The first frame, at the corner of the screen: decoding leaves out the screen around it.

    A single loop visits blocks and the smaller blocks of their chains, to bound the number of its steps.
    """

    def step(position, chain, frame, end):
        mark = read(data, position, 1)[0]
        extension, image = (chain == _BETWEEN) & (mark == 0x21), (chain == _BETWEEN) & (mark == 0x2C)
        head = tf.where(image, 11 + _color_table(read(data, position + 9, 1)[0]), 2)
        after = position + tf.where(chain == _BETWEEN, head, _run_of_blocks(data, position, mark))
        whole = (chain == _FRAME) & (mark == 0)
        last = whole | ((chain == _BETWEEN) & ~extension & ~image)
        frame, end = tf.where(image, position, frame), tf.where(whole, after, end)
        chain = tf.where(mark == 0, tf.zeros_like(chain), chain)
        chain = tf.where(image, chain + _FRAME, tf.where(extension, chain + _EXTENSION, chain))
        return tf.where(last, size_of(data), after), chain, frame, end

    begin = 13 + _color_table(read(data, 10, 1)[0])
    _, _, frame, end = _walk(lambda position, *_: position < size_of(data), step, begin, _BETWEEN, 0, 0)
    whole = tf.cast((end > 0) & (end <= size_of(data)), tf.int64)
    ends = [position * whole for position in (frame + 1, frame + 5, end)]
    still = tf.strings.join([between(file, 0, ends[0]), b"\0\0\0\0", between(file, ends[1], ends[2]), b";"])
    width, height = little(data, frame + 5, 2) * whole, little(data, frame + 7, 2) * whole
    return _header(width, height, still, alpha=_white(still, data, begin, frame))


def _white(still, data, begin, frame):
    """A GIF with white color tables: of its first frame, only transparent pixels are decoded as black."""
    size = tf.cast(tf.strings.length(still), tf.int64)  # of one byte where no whole frame was read
    own = frame + 10 + _color_table(read(data, frame + 9, 1)[0])
    borders = [tf.minimum(tf.cast(position, tf.int64), size) for position in (13, begin, frame + 10, own)]
    tables = [between(b"\xff" * 768, 0, end - start) for start, end in (borders[:2], borders[2:])]
    other = [between(still, start, end) for start, end in ((0, borders[0]), borders[1:3], (borders[3], size))]
    return tf.strings.join([other[0], tables[0], other[1], tables[1], other[2]])


def _color_table(flags):
    return tf.where(flags >= 128, 3 * 2 ** (flags % 8 + 1), 0)


def _run_of_blocks(data, position, length):
    """Bytes in a run of blocks of one length, usually 255, from `position`; 1 for the empty block that ends a chain."""
    ahead = position + (length + 1) * tf.range(_BLOCKS_PER_STEP, dtype=tf.int64)
    same = tf.cast(read_at(data, ahead) == length, tf.int64)
    return tf.where(length == 0, tf.ones_like(length), (length + 1) * tf.reduce_sum(tf.math.cumprod(same)))


def bmp(file, data):
    """Uncompressed, with 8, 24 or 32 bits; the file is cut after its rows, since TensorFlow rejects further bytes."""
    begin, width, height = little(data, 10, 4), little(data, 18, 4), little(data, 22, 4)
    height = tf.minimum(height, 2**32 - height)  # negative if the rows are stored from top to bottom
    bits, compression = little(data, 28, 2), little(data, 30, 4)
    row = (bits // 8 * width + 3) // 4 * 4
    is_supported = ((bits == 8) | (bits == 24) | (bits == 32)) & ((compression == 0) | (compression == 3))
    is_whole = tf.cast(is_supported & (height <= (size_of(data) - begin) // tf.maximum(row, 1)), tf.int64)
    return _header(width * is_whole, height * is_whole, between(file, 0, (begin + row * height) * is_whole))


def webp(file, data):
    """Copy the first frame to a separate file, without the surrounding canvas."""

    def step(position, frame, exif, alpha):
        length = little(data, position + 4, 4)
        alpha = tf.where(spells(data, position, b"ALPH") & (frame == _NOT_FOUND), position, alpha)
        image = spells(data, position, b"VP8 ") | spells(data, position, b"VP8L")
        into_frame = spells(data, position, b"ANMF") & (frame == _NOT_FOUND)
        after = position + 8 + tf.where(into_frame, tf.constant(16, tf.int64), length + length % 2)
        exif = tf.where(spells(data, position, b"EXIF"), position + 8, exif)
        return after, tf.where(image, tf.minimum(frame, position), frame), exif, alpha

    riff = 8 + little(data, 4, 4)
    _, frame, exif, alpha = _walk(lambda position, *_: position < riff, step, 12, _NOT_FOUND, -1, -1)
    length = little(data, frame + 4, 4)
    end = frame + 8 + length + length % 2
    width, height = _webp_size(data, frame)
    # A file that was cut off and filled up ends in zeros, which no entropy coder writes for so long.
    is_filled = (length > 2 * ZEROS) & tf.reduce_all(read(data, frame + 8 + length - ZEROS, ZEROS) == 0)
    is_whole = tf.cast((end <= riff) & (riff <= size_of(data)) & ~is_filled, tf.int64)
    still = _riff(between(file, frame * is_whole, end * is_whole))
    exif = tf.where(spells(data, exif, b"Exif"), exif + 6, exif)
    first = tf.where(alpha < 0, frame, alpha)
    sides = [tf.strings.substr(_four_bytes(tf.maximum(side - 1, 0)), 0, 3) for side in (width, height)]
    canvas = tf.strings.join([b"VP8X\x0a\x00\x00\x00\x10\x00\x00\x00", *sides])  # announces a layer of alpha
    layers = _riff(canvas, between(file, first * is_whole, end * is_whole))
    return _header(width * is_whole, height * is_whole, still, exif, alpha=tf.where(alpha < 0, still, layers))


def _riff(*chunks):
    """A WebP file of some chunks."""
    content = tf.strings.join([b"WEBP", *chunks])
    return tf.strings.join([b"RIFF", _four_bytes(tf.strings.length(content)), content])


def _webp_size(data, frame):
    """Width and height of a lossy or a lossless bitstream, in 14 bits each."""
    lossy, sizes = little(data, frame + 14, 4), little(data, frame + 9, 4)
    width = tf.where(spells(data, frame, b"VP8 "), lossy % 2**14, sizes % 2**14 + 1)
    return width, tf.where(spells(data, frame, b"VP8 "), lossy // 2**16 % 2**14, sizes // 2**14 % 2**14 + 1)


def _four_bytes(number):
    """A number as a string of four bytes, the least significant byte first."""
    digits = number // [1, 2**8, 2**16, 2**24] % 256
    return tf.strings.reduce_join(tf.gather([bytes([k]) for k in range(256)], digits))
