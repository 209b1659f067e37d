"""Headers of image files, and the part to decode, as `headers`, in plain Python: for Pillow.

A file is cut down to what its pixels need: one frame, without texts, color profiles and Exif blocks.
"""

import struct
import zlib
from typing import Any, Literal, NamedTuple

import numpy as np

from tfdml.datasets.images import MAX_SCANS
from tfdml.datasets.images.exif import ENTRY, LONG, ORIENTATION, SHORT
from tfdml.datasets.images.headers import MAX_BLOCKS, MAX_SEGMENT, ZEROS


class Still(NamedTuple):
    """Width, height and file to decode; `layers` are a WebP with its layer of alpha; else as `headers.Header`."""

    width: int = 0
    height: int = 0
    file: bytes = b""
    exif: int = -1
    frame: int = -1
    scans: int = 0
    layers: bytes = b""


def number(data: bytes, start: int, count: int, order: Literal["little", "big"] = "little") -> int:
    """Unsigned number of `count` bytes; all bytes after the end of the file are zero."""
    return int.from_bytes(data[start : start + count].ljust(count, b"\0"), order)


def _jpeg(data):
    """Segments before the frame are left out where they hold no tables, but for those of JFIF and Adobe."""
    position, exif, pieces = 2, -1, [data[:2]]
    for _ in range(MAX_BLOCKS):
        marker = number(data, position + 1, 1)
        after = position + 2 + number(data, position + 2, 2, "big")
        if position < 0 or marker in (0xD9, 0xDA):
            break
        if data[position : position + 1] != b"\xff" or marker == 0xFF:
            after = data.find(b"\xff", position + 1)  # decoders skip stray bytes
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _whole_jpeg(b"".join([*pieces, data[position:]]), sum(map(len, pieces)), exif)
        elif not 0xE1 <= marker <= 0xED and marker != 0xFE:
            pieces.append(data[position:after])
        elif data[position + 4 : position + 10] == b"Exif\0\0" and marker == 0xE1 and exif < 0:
            exif = position + 10
        position = after
    return Still()


def _whole_jpeg(file, frame, exif):
    """As `headers._scans` and `headers._are_all`."""
    positions, codes, end = jpeg_markers(file, frame)
    is_segment = (codes >= 0xC0) & ((codes < 0xD0) | (codes > 0xD9)) & (codes < 0xFF)
    near = positions[is_segment & (positions < end) & (positions > end - MAX_SEGMENT)].tolist()
    is_whole = all(start + 2 + number(file, start + 2, 2, "big") <= end for start in near)
    scans, sent = positions[(codes == 0xDA) & (positions < end)].tolist(), 0
    for start in scans[:MAX_SCANS]:
        components = number(file, start + 4, 1)
        first, last, bits = file[start + 5 + 2 * components :][:3].ljust(3, b"\0")
        sent += components * (last - first + 1) * (bits % 16 == 0)
    is_whole &= sent >= 64 * number(file, frame + 9, 1)
    height, width = (number(file, frame + offset, 2, "big") * is_whole for offset in (5, 7))
    return Still(width, height, file, exif, frame, len(scans))


def jpeg_markers(file: bytes, frame: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Positions and codes of the markers after the frame header of a JPEG, and of its end mark (EOI), 0 for none."""
    data = np.frombuffer(file, np.uint8)
    positions = frame + np.flatnonzero(data[frame:-1] == 0xFF)
    codes = data[positions + 1]
    return positions, codes, int(np.append(positions[codes == 0xD9], 0)[0])


def _png(data):
    """The chunks that the pixels need, each with its checksum; an eXIf chunk may be before or behind the pixels."""
    position, kind, exif, pieces, is_whole = 8, b"", -1, [data[:8]], True
    while position < len(data) and kind != b"IEND":
        size, kind = 12 + number(data, position, 4, "big"), data[position + 4 : position + 8]
        chunk = data[position : position + size]
        if kind == b"eXIf" and exif < 0:
            exif = position + 8
        elif kind[:1].isupper() or kind == b"tRNS":
            is_whole &= len(chunk) == size and zlib.crc32(chunk[4:-4]) == number(chunk, size - 4, 4, "big")
            pieces.append(chunk)
        position += size
    width, height = (number(data, offset, 4, "big") * (data[8:16] == b"\0\0\0\rIHDR") for offset in (16, 20))
    return Still(width, height, b"".join(pieces) * (is_whole and kind == b"IEND"), exif)


def _gif(data):
    """The first frame, at the corner of a screen of its size."""
    position, steps = 13 + _color_table(number(data, 10, 1)), 0
    while steps < MAX_BLOCKS and data[position : position + 1] in (b"!", b","):
        frame, is_frame = position, data[position] == ord(",")
        position += 11 + _color_table(number(data, position + 9, 1)) if is_frame else 2
        steps, before = steps + 2, 0
        while length := number(data, position, 1):
            steps, before, position = steps + (length != before), length, position + 1 + length
        position += 1
        if is_frame and position <= len(data):
            screen = data[frame + 5 : frame + 9]
            file = data[:6] + screen + data[10 : frame + 1] + bytes(4) + data[frame + 5 : position] + b";"
            return Still(*struct.unpack("<HH", screen), file)
    return Still()


def _color_table(flags):
    return 3 * 2 ** (flags % 8 + 1) if flags >= 128 else 0


def _bmp(data):
    """Uncompressed, with 8, 24 or 32 bits, and whole."""
    begin, width, height = (number(data, offset, 4) for offset in (10, 18, 22))
    height = min(height, 2**32 - height)  # negative if the rows are stored from top to bottom
    bits, compression = number(data, 28, 2), number(data, 30, 4)
    row = (bits // 8 * width + 3) // 4 * 4
    is_whole = bits in (8, 24, 32) and compression in (0, 3) and height <= (len(data) - begin) // max(row, 1)
    return Still(width * is_whole, height * is_whole, data)


def _webp(data):
    """The first frame and its layer of alpha, without the surrounding canvas."""
    riff, position, frame, exif, alpha = 8 + number(data, 4, 4), 12, -1, -1, -1
    for _ in range(MAX_BLOCKS):
        kind, length = data[position : position + 4], number(data, position + 4, 4)
        if position >= riff:
            break
        alpha = position if kind == b"ALPH" and frame < 0 else alpha
        exif = position + 8 if kind == b"EXIF" else exif
        into_frame = kind == b"ANMF" and frame < 0
        frame = position if kind in (b"VP8 ", b"VP8L") and frame < 0 else frame
        position += 8 + (16 if into_frame else length + length % 2)
    length = number(data, frame + 4, 4)
    end = frame + 8 + length + length % 2
    is_filled = length > 2 * ZEROS and not any(data[frame + 8 + length - ZEROS :][:ZEROS])
    if frame < 0 or not end <= riff <= len(data) or is_filled:
        return Still()
    lossy, sizes = number(data, frame + 14, 4), number(data, frame + 9, 4)
    width, height = sizes % 2**14 + 1, sizes // 2**14 % 2**14 + 1
    if data[frame : frame + 4] == b"VP8 ":
        width, height = lossy % 2**14, lossy // 2**16 % 2**14
    exif += 6 * (data[exif : exif + 4] == b"Exif")
    canvas = (struct.pack("<I", max(side - 1, 0))[:3] for side in (width, height))
    layers = _riff(b"VP8X\x0a\0\0\0\x10\0\0\0", *canvas, data[alpha:end]) if alpha >= 0 else b""
    return Still(width, height, _riff(data[frame:end]), exif, layers=layers)


def _riff(*chunks):
    """A WebP file of some chunks."""
    content = b"".join([b"WEBP", *chunks])
    return b"".join([b"RIFF", struct.pack("<I", len(content)), content])


READERS = (lambda data: Still(), _jpeg, _png, _gif, _bmp, _webp)  # by `reasons.STARTS`, after another file


def orientation(data: bytes, start: int) -> int:
    """The orientation, 1 to 8, by a TIFF header at `start`, negative for none; 1 if it cannot be read."""
    orders: dict[bytes, Any] = {b"MM\0*": "big", b"II*\0": "little"}
    order = orders.get(data[start : start + 4]) if start >= 0 else None
    if order is None:
        return 1
    first = start + number(data, start + 4, 4, order)
    count = min(number(data, first, 2, order), (len(data) - first) // ENTRY)
    for entry in range(first + 2, first + 2 + ENTRY * count, ENTRY):
        tag, kind = (number(data, entry + offset, 2, order) for offset in (0, 2))
        if tag == ORIENTATION and kind in (SHORT, LONG):
            value = number(data, entry + 8, 4 if kind == LONG else 2, order)
            return value if 1 <= value <= 8 else 1
    return 1
