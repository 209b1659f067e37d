"""Arrays on disk, of which only the rows that are asked for are read."""

from dataclasses import dataclass
from typing import Any

import numpy as np


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


def rows_on_disk(array: Any, rows: np.ndarray) -> MappedRows:
    """Rows `(m,)` of an array on disk, none of which is read."""
    return MappedRows(array.array, array.rows[rows]) if isinstance(array, MappedRows) else MappedRows(array, rows)
