"""Arrays on disk, of which only the rows that are asked for are read."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_ALIGNMENT = 64  # bytes, of the tensors of TensorFlow


def map_array(path: Path) -> np.memmap:
    """The array in a `.npy` file, mapped read-only; no memory is allocated, whatever its header says.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file has another form, or another length than its header says.
    """
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


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Some rows of a memory map, in any order.

    Attributes:
        array: `(n, ...)` memory map.
        rows: `(m,)` int64.
    """

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
