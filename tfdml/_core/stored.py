"""JSON, arrays and archives of arrays that other programs may have stored, read with bounds; faults name the file."""

import json
import math
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tfdml._core.checks import require
from tfdml.typing import FilePath

_ALIGNMENT = 64  # bytes, of the tensors of TensorFlow


def map_array(path: Path) -> np.memmap:
    """The array in a `.npy` file, mapped read-only; no memory is allocated, whatever its header says."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except OSError:
        raise
    except Exception as error:  # Each damage of a header fails in its own way.
        raise ValueError(f"Received {str(path)!r}, which is not a .npy file ({error}). Write it again.") from error
    size, expected = path.stat().st_size, array.offset + array.nbytes
    if size != expected:
        raise ValueError(f"Received {str(path)!r} of {size:,} bytes, expected {expected:,} by its header.")
    return array


class BoundedReader:
    """A file of another program, read in memory bounded by its length: Python allocates what `read` is asked for.

    More bytes than `most` in one `read` are a ValueError; None for all that there are.
    """

    def __init__(self, file: BinaryIO, most: int | None = None):
        self._file, self._size = file, os.fstat(file.fileno()).st_size
        self._most = self._size if most is None else most
        self.name, self.seek, self.tell, self.readline = file.name, file.seek, file.tell, file.readline

    def read(self, length: int = -1) -> bytes:
        """At most `length` bytes, or all that are left."""
        left = max(0, self._size - self._file.tell())
        length = left if length < 0 else min(length, left)
        require(length <= self._most, f"{length:,} bytes in one piece", f"at most {self._most:,}")
        return self._file.read(length)


def require_unpacked_size(archive: zipfile.ZipFile, most: int) -> None:
    """Raise a ValueError if the members of an archive, unpacked, take more than a number of bytes."""
    total = sum(member.file_size for member in archive.infolist())
    require(total <= most, f"members of {total:,} bytes, unpacked", f"at most {most:,} by the length of the file")


def read_arrays(path: FilePath, *, most_times: int = 1) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name, none of which is a pickle.

    They may take `most_times` the length of the file, 1 where none is compressed, else it is a ValueError. A damaged
    file is an EOFError, a KeyError, a zipfile.BadZipFile or a zlib.error.
    """
    with open(path, "rb") as file:
        with zipfile.ZipFile(file) as archive:
            require_unpacked_size(archive, most_times * os.fstat(file.fileno()).st_size)
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Some rows of a memory map, in any order."""

    array: np.memmap
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.take(np.asarray(self.array), self.rows[rows], axis=0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, and the shape of each."""
        return len(self.rows), *self.array.shape[1:]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype:
        """Type of the numbers."""
        return self.array.dtype


def is_on_disk(array: Any) -> bool:
    """Whether `array` is a memory map or rows of one; a copy of a part of a map is in memory."""
    return isinstance(array, MappedRows) or (isinstance(array, np.memmap) and getattr(array, "_mmap", None) is not None)


def read_rows(array: Any, rows: np.ndarray) -> np.ndarray:
    """Rows `(...)` of an array on disk, `(..., *shape[1:])`, at an address that TensorFlow takes without a copy."""
    if isinstance(array, MappedRows):
        array, rows = array.array, array.rows[rows]
    out = _aligned((*np.shape(rows), *array.shape[1:]), array.dtype)
    return np.take(np.asarray(array), rows, axis=0, out=out, mode="clip")  # Other modes copy what they read.


def _aligned(shape, dtype):
    """An array without content whose address is a multiple of 64."""
    size = math.prod(shape) * dtype.itemsize
    buffer = np.empty(size + _ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    return buffer[start : start + size].view(dtype).reshape(shape)


def rows_on_disk(array: Any, rows: np.ndarray) -> MappedRows:
    """Rows `(m,)` of an array on disk, none of which is read."""
    return MappedRows(array.array, array.rows[rows]) if isinstance(array, MappedRows) else MappedRows(array, rows)


def parsed_json(text: str | bytes, source: str, form: type = dict) -> Any:
    """The value of a JSON text or of UTF-8 bytes; a ValueError names its source if it has another form."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ValueError(f"Received {source}, which is not JSON ({reason}). Write it again.") from error
    if not isinstance(value, form):
        raise ValueError(
            f"Received {source} with a {type(value).__name__}, expected a {form.__name__}. Write it again."
        )
    return value


def read_json(path: Path, form: type = dict) -> Any:
    """The value of a JSON file, as `parsed_json`."""
    return parsed_json(path.read_bytes(), repr(str(path)), form)
