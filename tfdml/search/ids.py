"""Ids of the items of an index: int64 or text."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._checks import as_ids, as_unmasked


class Ids:
    """Distinct ids, and where each of them is.

    Args:
        values: `(n,)` int64 or text, see `as_item_ids`.

    Attributes:
        values: `(n,)` as given.
        sorted: the same in ascending order; sorted ids are found faster than others.

    Raises:
        ValueError: ids that repeat.
    """

    def __init__(self, values):
        self.values = values
        self._order = np.argsort(values, kind="stable")
        self.sorted = values[self._order]
        again = np.flatnonzero(self.sorted[1:] == self.sorted[:-1])
        if len(again):
            raise ValueError(f"Received ids that repeat, such as {self.sorted[again[0]]}. Give every vector its own.")

    def __len__(self):
        return len(self.values)

    @property
    def kind(self):
        """ "int64" or "text"."""
        return "text" if self.values.dtype.kind == "U" else "int64"

    def find(self, values):
        """The row of each of some ids of the same kind, -1 for ids that are not there: `(m,)` int64."""
        place = np.minimum(np.searchsorted(self.sorted, values), len(self) - 1)
        return np.where(self.sorted[place] == values, self._order[place], -1)


def as_item_ids(ids: npt.ArrayLike | None, count: int) -> np.ndarray:
    """Checks the ids of `count` vectors: `(count,)` int64 or text, row numbers where `ids` is None."""
    if count == 0:
        raise ValueError("Received no vectors, expected at least one.")
    if ids is None:
        return np.arange(count)
    text = as_text(ids)
    if text is None:
        return as_ids(ids, "ids", count)
    if text.shape != (count,):
        raise ValueError(f"Received ids of shape {text.shape}, expected ({count},): one id per row.")
    return text


def as_known(ids: npt.ArrayLike, kind: str) -> np.ndarray:
    """Ids to look up, of any shape and of the kind of the index.

    Raises:
        ValueError: the ids are of the other kind.
    """
    text = as_text(ids)
    array = np.asarray(as_unmasked(ids, "ids")) if text is None else text
    if array.size == 0:
        return np.zeros(array.shape, np.int64 if kind == "int64" else "U1")
    if (kind == "text") != (text is not None) or array.dtype.kind not in "iuU":
        raise ValueError(f"Received ids of dtype {array.dtype}, expected {kind} as in the index.")
    return array if kind == "text" else as_ids(array.ravel(), "ids").reshape(array.shape)


def as_text(ids: Any) -> np.ndarray | None:
    """A copy of the ids as NumPy text if all of them are text, else None."""
    array = np.asarray(as_unmasked(ids, "ids"))
    if array.dtype.kind in "UT":
        return array.astype("U")
    if array.dtype.kind == "O" and array.size and all(isinstance(one, str) for one in array.flat):
        return array.astype("U")
    return None
