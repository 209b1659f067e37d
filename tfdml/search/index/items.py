"""The items of an index at one time: ids, vectors and metadata over all segments."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_unmasked, require
from tfdml.search.index.ids import are_storable, as_lookup_ids, shown
from tfdml.search.index.segments import Segment, compacted, joined, metadata_of
from tfdml.search.index.tables import is_expression, mask_of, mask_of_values
from tfdml.typing import Filter

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, eq=False)
class Items:
    """The items of an index in segments; a row is the position among the remaining items."""

    segments: tuple[Segment, ...]

    @cached_property
    def starts(self) -> np.ndarray:
        """The first row of each segment, and the number of all rows."""
        return np.cumsum([0, *(segment.count for segment in self.segments)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def ids(self) -> np.ndarray:
        """`(n,)` int64 or text."""
        return _concatenated([segment.alive_rows(segment.ids.values) for segment in self.segments])

    @property
    def vectors(self) -> np.ndarray:
        """`(n, dim)` float32, ready to compare."""
        return _concatenated([segment.alive_rows(segment.gallery.vectors) for segment in self.segments])

    @cached_property
    def metadata(self) -> "pyarrow.Table | None":
        """`pyarrow.Table` of n rows, or None."""
        return metadata_of(self.segments)

    @cached_property
    def _numbers(self):
        return {}

    def numbers(self, column: str | None) -> np.ndarray:
        """The number of the item of each vector, `(n,)` int64: the place of its value in a column; None: rows."""
        if column is None:
            return np.arange(len(self))
        if column not in self._numbers:
            table: Any = self.metadata
            names = () if table is None else table.column_names
            require(column in names, f"items={column!r}", f"a column of the metadata: {', '.join(names) or 'none'}")
            values = table[column].combine_chunks()
            received = f"items={column!r} of type {values.type}, without a value for {values.null_count} vectors"
            is_whole = values.type.num_fields == 0 and values.null_count == 0
            require(is_whole, received, "numbers or text, one for each vector. Update the others, or remove them")
            self._numbers[column] = values.dictionary_encode().indices.to_numpy().astype(np.int64)
        return self._numbers[column]

    def rows(self, ids: npt.ArrayLike) -> np.ndarray:
        """The row of each id, in the shape of the ids."""
        ids = self.as_existing_ids(ids)
        numbers, segment_rows = self._locate(ids.ravel())
        rows = np.empty(ids.size, np.int64)
        for number, segment in enumerate(self.segments):
            here = numbers == number
            rows[here] = self.starts[number] + segment.rank(segment_rows[here])
        return rows.reshape(ids.shape)

    def as_existing_ids(self, ids: npt.ArrayLike) -> np.ndarray:
        """Ids of the index, of any shape; others are a ValueError."""
        ids = as_lookup_ids(ids, self.segments[0].ids.kind)
        missing = ids.ravel()[~self._are_present(ids.ravel())]
        if len(missing):
            raise ValueError(
                f"Received {len(missing)} ids that are not in the index, such as {shown(missing[0])}. "
                "Add them first, or leave them out."
            )
        return ids.astype("U") if ids.dtype.kind == "O" else ids

    def _are_present(self, ids):
        """Whether each id is in the index; it does not look up texts that no array of its ids can hold."""
        present = are_storable(ids, max(segment.ids.width for segment in self.segments))
        present[present] = self._locate(ids[present].astype("U") if ids.dtype.kind == "O" else ids)[0] >= 0
        return present

    def present(self, ids: np.ndarray) -> np.ndarray:
        """The ids that are in the index."""
        return ids[self._locate(ids)[0] >= 0]

    def take(self, ids: np.ndarray) -> Segment:
        """A segment of these ids, in their order."""
        numbers, rows = self._locate(ids)
        positions = [np.flatnonzero(numbers == number) for number in range(len(self.segments))]
        pieces = [segment.take(rows[here]) for segment, here in zip(self.segments, positions, strict=True) if len(here)]
        return joined(pieces).take(np.argsort(np.concatenate(positions)))

    def add(self, segment: Segment) -> "Items":
        """The items with a new segment at the end."""
        return Items(compacted([*(each.with_types_of(segment) for each in self.segments), segment]))

    def remove(self, ids: np.ndarray) -> "Items":
        """The items without these ids."""
        numbers, rows = self._locate(ids)
        return Items(
            compacted(
                segment.without(rows[numbers == number]) if (numbers == number).any() else segment
                for number, segment in enumerate(self.segments)
            )
        )

    def replace(self, ids: np.ndarray, segment: Segment) -> "Items":
        """The items without these ids, and with a new segment at the end."""
        return self.remove(ids).add(segment)

    def mask(self, where: Filter) -> np.ndarray:
        """`(n,)` bool of a mask, a pyarrow expression, or a dict of columns and values."""
        if is_expression(where) or isinstance(where, Mapping):
            if self.metadata is None:
                raise ValueError(f"Received where={where}, but the index has no metadata. Pass a mask of booleans.")
            is_dict = isinstance(where, Mapping)
            return mask_of_values(self.metadata, where) if is_dict else mask_of(self.metadata, where)
        mask = _as_array(as_unmasked(where, "where"))
        if mask.dtype != bool or mask.shape != (len(self),):
            raise ValueError(
                f"Received where of shape {mask.shape}, {mask.dtype}, expected ({len(self)},) booleans, one per vector "
                "in the order of ids, a pyarrow expression, or a dict of columns and values."
            )
        return mask

    def allowed(self, where: Filter | None) -> list[np.ndarray | None]:
        """Whether a search may return each vector of each segment, `(its length,)` bool; None for all."""
        if where is None:
            return [segment.alive for segment in self.segments]
        masks = np.split(self.mask(where), self.starts[1:-1])
        return [segment.expand(mask) for segment, mask in zip(self.segments, masks, strict=True)]

    def _locate(self, ids):
        """The number of the segment of each id, -1 if it is in none, and its row there."""
        numbers, rows = np.full(len(ids), -1), np.zeros(len(ids), np.int64)
        for number, segment in enumerate(self.segments):
            segment_rows = segment.find(ids)
            is_here = segment_rows >= 0
            numbers[is_here], rows[is_here] = number, segment_rows[is_here]
        return numbers, rows


def _as_array(where):
    try:
        return np.asarray(where)
    except ValueError:  # Lists of several lengths are no array of booleans either.
        return np.asarray(where, object)


def _concatenated(arrays):
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
