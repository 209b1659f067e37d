"""Ids of the items of an index: int64 or text.

NumPy text holds as many characters for every id as the longest one has, 4 bytes each. So ids have at most `LONGEST`
characters, and ids to look up stay Python texts until a check of their length.
"""

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, as_unmasked, require

LONGEST = 1024  # characters of an id
_SHOWN = 60  # characters of an id in an error message


class Ids:
    """Distinct ids `(n,)`, also `sorted` in ascending order, and the row of each."""

    def __init__(self, values):
        self.values = values
        self._order = np.argsort(values, kind="stable")
        self.sorted = values[self._order]
        repeated = np.flatnonzero(self.sorted[1:] == self.sorted[:-1])
        if len(repeated):
            example = shown(self.sorted[repeated[0]])
            raise ValueError(f"Received ids that repeat, such as {example}, expected distinct ids.")

    def __len__(self):
        return len(self.values)

    @property
    def kind(self):
        """ "int64" or "text"."""
        return "text" if self.values.dtype.kind == "U" else "int64"

    @property
    def width(self):
        """Number of characters of a text; 0 for int64."""
        return self.values.dtype.itemsize // 4 if self.kind == "text" else 0

    def find(self, values):
        """The row of each of `(m,)` ids of the same kind, -1 for missing ids: `(m,)` int64."""
        rows = np.full(len(values), -1)
        fits = np.strings.str_len(values) <= self.width if self.kind == "text" else np.ones(len(values), bool)
        values = values[fits].astype(self.values.dtype)
        positions = np.minimum(np.searchsorted(self.sorted, values), len(self) - 1)
        rows[fits] = np.where(self.sorted[positions] == values, self._order[positions], -1)
        return rows


def as_item_ids(ids: npt.ArrayLike | None, count: int) -> np.ndarray:
    """Check the ids of `count` vectors: `(count,)` int64 or text, row numbers if `ids` is None."""
    if count == 0:
        raise ValueError("Received no vectors, expected at least one.")
    if ids is None:
        return np.arange(count)
    array = _as_entries(ids)
    if array.dtype.kind != "O":
        return as_ids(array, "ids", count)
    if array.shape != (count,):
        raise ValueError(f"Received ids of shape {array.shape}, expected ({count},): one id per row.")
    _require_storable(array)
    return array.astype("U")


def as_lookup_ids(ids: npt.ArrayLike, kind: str) -> np.ndarray:
    """Ids to look up, of any shape and of the kind of the index: int64, or Python texts of any length."""
    array = _as_entries(ids)
    if array.size == 0:
        return np.zeros(array.shape, np.int64 if kind == "int64" else object)
    received = "text" if array.dtype.kind == "O" else "int64"
    require(received == kind, f"ids of kind {received}", f"{kind} as in the index")
    return array if kind == "text" else as_ids(array.ravel(), "ids").reshape(array.shape)


def are_storable(ids: np.ndarray, width: int) -> np.ndarray:
    """Whether NumPy text of this width can hold each id, `(m,)` bool; True for int64."""
    if ids.dtype.kind != "O":
        return np.ones(len(ids), bool)
    return np.array([len(text) <= width and text[-1:] != "\0" for text in ids], bool)


def shown(item_id: object) -> str:
    """An id for an error message: short, and of printable characters."""
    text = str(item_id)
    start = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:_SHOWN])
    return start if len(text) <= _SHOWN else f"{start}... of {len(text):,} characters"


def _as_entries(ids):
    """Ids as an array of integers or of Python texts, of any shape; no array is as wide as the longest text."""
    ids = as_unmasked(ids, "ids")
    array = np.asarray(ids) if hasattr(ids, "__array__") else _as_objects(ids)
    if array.dtype.kind not in "UTO":
        require(array.dtype.kind in "iu" or not array.size, f"ids of dtype {array.dtype}", _EXPECTED)
        return array
    array = array.astype(object)
    types = {_type_name(entry_type) for entry_type in set(map(type, array.flat))}
    require(len(types) < 2, f"ids of types {', '.join(sorted(types))}", _EXPECTED)
    require(types <= {"str", "int"}, f"ids of type {''.join(types)}", _EXPECTED)
    return _as_integers(array) if types == {"int"} else array


_EXPECTED = "integers alone or text alone. Convert them, or number them with np.unique(ids, return_inverse=True)[1]"


def _as_objects(ids):
    try:
        return np.asarray(ids, object)
    except ValueError as error:
        raise ValueError(f"Received ids that are not an array ({error}), expected one id per row.") from error


def _type_name(entry_type):
    """ "str", "int" for all integers, or the name of another type."""
    if issubclass(entry_type, str):
        return "str"
    is_integer = issubclass(entry_type, int | np.integer) and entry_type is not bool
    return "int" if is_integer else entry_type.__name__


def _as_integers(array):
    try:
        return array.astype(np.int64)
    except OverflowError as error:
        raise ValueError(
            f"Received ids up to {max(array.flat)}, expected -2**63 to 2**63 - 1. Renumber them."
        ) from error


def _require_storable(texts):
    """Raise a ValueError unless NumPy text and a file can hold these texts unchanged."""
    longest = max(texts, key=len)
    require(len(longest) <= LONGEST, f"the id {shown(longest)}", f"at most {LONGEST:,} characters. Shorten it")
    zero = next((text for text in texts if "\0" in text), None)
    require(zero is None, f"the id {zero!r}", "ids without the character 0, which NumPy drops at the end")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"Received ids with the character {error.object[error.start]!r}, expected text that UTF-8 can encode."
        ) from error
