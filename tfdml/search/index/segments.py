"""Vectors of an index in segments that never change: adding makes a new one, removing marks rows.

So the time of an addition depends on its own size, and a concurrent search sees the index before or after a change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdml.search.index.ids import Ids
from tfdml.search.scores import Gallery

if TYPE_CHECKING:
    import pyarrow

_JOINED = 4  # Fewer segments are searched faster, more are joined less often.


@dataclass(frozen=True, eq=False)
class Segment:
    """Items of one addition, or joined.

    `ids` are `Ids`; a removed id may occur again in another segment. `alive` is `(n,)` bool, None if all are. With a
    `searcher`, an approximate search of the vectors, a segment keeps its rows.
    """

    gallery: Gallery
    ids: Ids
    metadata: "pyarrow.Table | None" = None
    alive: np.ndarray | None = None
    searcher: Any = None

    @cached_property
    def count(self) -> int:
        """Number of remaining vectors."""
        return len(self.ids) if self.alive is None else int(self.alive.sum())

    def alive_rows(self, column: Any) -> Any:
        """The entries of an array or a table, one per vector, of the remaining vectors."""
        if self.alive is None or column is None:
            return column
        return column[self.alive] if isinstance(column, np.ndarray) else column.filter(self.alive)

    def rank(self, rows: np.ndarray) -> np.ndarray:
        """The position of each row among the remaining ones."""
        return rows if self.alive is None else (np.cumsum(self.alive) - 1)[rows]

    def expand(self, mask: np.ndarray) -> np.ndarray:
        """A mask of the remaining vectors, `(count,)`, as one of all vectors, `(n,)`."""
        if self.alive is None:
            return mask
        allowed = np.zeros(len(self.alive), bool)
        allowed[self.alive] = mask
        return allowed

    def find(self, ids: np.ndarray) -> np.ndarray:
        """The row of each id, -1 for ids that are missing or removed: `(m,)` int64."""
        rows = self.ids.find(ids)
        return rows if self.alive is None else np.where(self.alive[rows], rows, -1)

    def take(self, rows: np.ndarray) -> "Segment":
        """A segment of these rows, in memory."""
        metadata = None if self.metadata is None else self.metadata.take(rows)
        return Segment(self.gallery.take(rows), Ids(self.ids.values[rows]), metadata)

    def with_types_of(self, other: "Segment") -> "Segment":
        """The segment, whose columns without a value have the types of another one."""
        if self.metadata is None or other.metadata is None or self.metadata.schema == other.metadata.schema:
            return self
        return replace(self, metadata=self.metadata.cast(other.metadata.schema))

    def without(self, rows: np.ndarray) -> "Segment":
        """The segment with these rows removed, too."""
        alive = np.ones(len(self.ids), bool) if self.alive is None else self.alive.copy()
        alive[rows] = False
        return replace(self, alive=alive)


def joined(segments: Sequence[Segment]) -> Segment:
    """One segment of the remaining vectors, in the same order, without a searcher."""
    if len(segments) == 1 and segments[0].alive is None:
        return replace(segments[0], searcher=None)
    galleries = [
        segment.gallery if segment.alive is None else segment.gallery.take(segment.alive) for segment in segments
    ]
    ids = Ids(np.concatenate([segment.alive_rows(segment.ids.values) for segment in segments]))
    return Segment(Gallery.joined(galleries), ids, metadata_of(segments))


def metadata_of(segments: Sequence[Segment]) -> "pyarrow.Table | None":
    """The metadata of the remaining vectors, or None."""
    if segments[0].metadata is None:
        return None
    import pyarrow

    return pyarrow.concat_tables([segment.alive_rows(segment.metadata) for segment in segments])


def compacted(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Compact segments with many removed rows; merge the last four while the first is below four times the last.

    So there are at most 3 log4(n) + 3 segments, and log4(n) copies of a vector. Segments with a searcher stay.
    """
    with_searcher, others = [], []
    for segment in segments:
        if segment.searcher is not None:
            with_searcher.append(segment)
        elif segment.count:
            others.append(joined([segment]) if 2 * segment.count < len(segment.ids) else segment)
        while len(others) >= _JOINED and others[-_JOINED].count < _JOINED * others[-1].count:
            others[-_JOINED:] = [joined(others[-_JOINED:])]
    return (*with_searcher, *others)
