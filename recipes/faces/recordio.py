"""Images in the RecordIO files of MXNet, read by random access.

A record is the magic number, a word whose low 29 bits are the length of what follows and whose high 3 bits say whether
it is a whole record (0) or the first (1), a middle (2) or the last part (3) of one, and its bytes, filled up to a
multiple of 4. A record is divided where it holds the magic number, which is left out there. An image record begins with
24 bytes: flag, label and two ids; `flag` labels follow if it is above 0, then an encoded image.
"""

import os
import pathlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recipes.checks import require

_MAGIC = struct.pack("<I", 0xCED7230A)
_LENGTH = 2**29 - 1
_WHOLE, _LAST = 0, 3
_HEADER = struct.Struct("<IfQQ")  # flag, label, two ids


class ImageRecord(NamedTuple):
    """An image record: all of its labels, and the bytes of the image, empty for a record that only has labels."""

    labels: np.ndarray
    image: bytes


@dataclass(frozen=True, eq=False)
class RecordImages:
    """The encoded images of a `.rec` file, one per row; the file is opened for each read, and never read as a whole."""

    path: str
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, row: int) -> bytes:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[bytes]:
        return [record.image for record in read_records(self.path, self.offsets[np.asarray(rows, np.int64)])]


def read_offsets(path: str | os.PathLike[str]) -> dict[int, int]:
    """The byte offset of each key in an `.idx` file, whose lines are a key and an offset."""
    rows = [line.split() for line in pathlib.Path(path).read_text().splitlines() if line.strip()]
    wrong = [" ".join(row) for row in rows if len(row) != 2 or not all(map(str.isdecimal, row))]
    require(not wrong, f"the line {wrong[:1]} in {os.fspath(path)!r}", "a key and a byte offset, two whole numbers")
    offsets = {int(key): int(offset) for key, offset in rows}
    require(len(offsets) == len(rows), f"{os.fspath(path)!r} with a key on two lines", "each key once")
    return offsets


def read_records(path: str | os.PathLike[str], offsets: np.ndarray) -> list[ImageRecord]:
    """The image records at these offsets."""
    with pathlib.Path(path).open("rb") as file:
        return [_image_record(file, offset) for offset in offsets.tolist()]


def read_first_labels(path: str | os.PathLike[str], offsets: np.ndarray) -> np.ndarray:
    """The first label of each image record, `(n,)` float32, without its image."""
    with pathlib.Path(path).open("rb") as file:
        return np.array([_first_label(file, offset) for offset in offsets.tolist()], np.float32)


def _image_record(file, offset):
    payload = _payload(file, offset)
    flag, label, _, _ = _HEADER.unpack(_long_enough(file, offset, payload[: _HEADER.size], _HEADER.size))
    end = _HEADER.size + 4 * flag
    labels = np.frombuffer(_long_enough(file, offset, payload[_HEADER.size : end], 4 * flag), "<f4")
    return ImageRecord(labels if flag else np.array([label], np.float32), payload[end:])


def _first_label(file, offset):
    """The label in the header, or the first of those after it; a divided header is read as a whole record."""
    file.seek(offset)
    start = file.read(8 + _HEADER.size + 4)
    word = int.from_bytes(start[4:8], "little")
    if start[:4] != _MAGIC or word > _LENGTH or word < _HEADER.size + 4 or len(start) < 8 + _HEADER.size + 4:
        return _image_record(file, offset).labels[0]
    flag, label, _, _ = _HEADER.unpack(start[8:-4])
    return struct.unpack("<f", start[-4:])[0] if flag else label


def _payload(file, offset):
    """The bytes of a record, whose parts are joined by the magic number."""
    file.seek(offset)
    parts = []
    while True:
        start = _long_enough(file, offset, file.read(8), 8)
        require(start[:4] == _MAGIC, _at(file, offset), "a record. The two files do not belong together")
        kind, length = divmod(int.from_bytes(start[4:], "little"), _LENGTH + 1)
        parts.append(_long_enough(file, offset, file.read(length), length))
        file.seek(-length % 4, os.SEEK_CUR)
        if kind in (_WHOLE, _LAST):
            return _MAGIC.join(parts)


def _long_enough(file, offset, content, length):
    require(len(content) == length, f"{_at(file, offset)}, which ends early", "a whole record. Copy the file again")
    return content


def _at(file, offset):
    return f"{file.name!r} at byte {offset:,}"
