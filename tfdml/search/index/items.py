"""The items of an index at one time: ids, vectors and metadata over all segments."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_unmasked
from tfdml.search.index.ids import are_storable, as_known, shown
from tfdml.search.index.segments import Segment, joined, metadata_of, tidy
from tfdml.search.index.tables import is_expression, mask_of


@dataclass(frozen=True, eq=False)
class Items:
    """The items of an index; a row is the position among those that are not removed.

    Attributes:
        segments: at least one `Segment`.
    """

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
        return _concatenated([segment.kept(segment.ids.values) for segment in self.segments])

    @property
    def vectors(self) -> np.ndarray:
        """`(n, dim)` float32, as they are compared."""
        return _concatenated([segment.kept(segment.gallery.vectors) for segment in self.segments])

    @cached_property
    def metadata(self) -> Any:
        """`pyarrow.Table` of n rows, or None."""
        return metadata_of(self.segments)

    def rows(self, ids: npt.ArrayLike) -> np.ndarray:
        """The row of each id, in the shape of the ids."""
        wanted = self.known(ids)
        numbers, places = self._located(wanted.ravel())
        rows = np.empty(wanted.size, np.int64)
        for number, segment in enumerate(self.segments):
            here = numbers == number
            rank = places[here] if segment.alive is None else (np.cumsum(segment.alive) - 1)[places[here]]
            rows[here] = self.starts[number] + rank
        return rows.reshape(wanted.shape)

    def known(self, ids: npt.ArrayLike) -> np.ndarray:
        """Ids of the kind of the index, checked to be there.

        Raises:
            ValueError: ids of the other kind, or that are not in the index.
        """
        ids = as_known(ids, self.segments[0].ids.kind)
        missing = ids.ravel()[~self._are_there(ids.ravel())]
        if len(missing):
            raise ValueError(
                f"Received {len(missing)} ids that are not in the index, such as {shown(missing[0])}. "
                "Add them first, or leave them out."
            )
        return ids.astype("U") if ids.dtype.kind == "O" else ids

    def _are_there(self, ids):
        """Which ids are in the index; those that no array of its ids can hold are not, and are put into none."""
        there = are_storable(ids, max(segment.ids.width for segment in self.segments))
        there[there] = self._located(ids[there].astype("U") if ids.dtype.kind == "O" else ids)[0] >= 0
        return there

    def present(self, ids: np.ndarray) -> np.ndarray:
        """Those of some ids that are in the index."""
        return ids[self._located(ids)[0] >= 0]

    def take(self, ids: np.ndarray) -> Segment:
        """A segment of some ids, in their order."""
        numbers, places = self._located(ids)
        parts = [(segment, np.flatnonzero(numbers == number)) for number, segment in enumerate(self.segments)]
        parts = [(segment.take(places[here]), here) for segment, here in parts if len(here)]
        order = np.argsort(np.concatenate([here for _, here in parts]))
        return joined([part for part, _ in parts]).take(order)

    def add(self, segment: Segment) -> "Items":
        """The items and those of a new segment."""
        return Items(tidy([*self.segments, segment]))

    def remove(self, ids: np.ndarray) -> "Items":
        """The items without some ids."""
        numbers, places = self._located(ids)
        return Items(
            tidy(
                segment.without(places[numbers == number]) if (numbers == number).any() else segment
                for number, segment in enumerate(self.segments)
            )
        )

    def mask(self, where: Any) -> np.ndarray:
        """`(n,)` bool of a mask or a pyarrow expression.

        Raises:
            ValueError: a mask of another form, or an expression that does not fit the metadata.
        """
        if is_expression(where):
            if self.metadata is None:
                raise ValueError(f"Received where={where}, but the index has no metadata. Pass a mask of booleans.")
            return mask_of(self.metadata, where)
        mask = _as_array(as_unmasked(where, "where"))
        if mask.dtype != bool or mask.shape != (len(self),):
            raise ValueError(
                f"Received where of shape {mask.shape}, {mask.dtype}, expected ({len(self)},) booleans, one per vector "
                "in the order of ids, or a pyarrow expression."
            )
        return mask

    def allowed(self, where: Any) -> list[np.ndarray | None]:
        """The vectors of each segment that may be found, `(its length,)` bool; None for all."""
        if where is None:
            return [segment.alive for segment in self.segments]
        parts = np.split(self.mask(where), self.starts[1:-1])
        return [_spread(segment.alive, part) for segment, part in zip(self.segments, parts, strict=True)]

    def _located(self, ids):
        """The number of the segment of each id, -1 for ids that are nowhere, and its row there."""
        numbers, places = np.full(len(ids), -1), np.zeros(len(ids), np.int64)
        for number, segment in enumerate(self.segments):
            rows = segment.find(ids)
            numbers[rows >= 0], places[rows >= 0] = number, rows[rows >= 0]
        return numbers, places


def _as_array(where):
    try:
        return np.asarray(where)
    except ValueError:  # Lists of several lengths are no array of booleans either.
        return np.asarray(where, object)


def _concatenated(parts):
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _spread(alive, mask):
    """A mask of the vectors that are not removed as one of all vectors of a segment."""
    if alive is None:
        return mask
    allowed = np.zeros(len(alive), bool)
    allowed[alive] = mask
    return allowed
