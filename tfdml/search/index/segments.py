"""Vectors of an index in segments that never change: adding makes a new one, removing marks rows.

So an addition takes the time of the vectors that are added, a search in another thread sees the index before or after a
change, and a file that holds a segment is written once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tfdml.search.index.ids import Ids
from tfdml.search.scores import Gallery

_JOINED = 4  # Fewer segments are searched faster, more are joined less often.


@dataclass(frozen=True, eq=False)
class Segment:
    """Some items of an index.

    Attributes:
        gallery: `Gallery` of n vectors.
        ids: `Ids` of the vectors; those of removed vectors may be those of vectors in other segments.
        metadata: `pyarrow.Table` of n rows, or None.
        alive: `(n,)` bool, False for removed vectors; None if there are none.
        searcher: an approximate search of the vectors, or None. Such a segment keeps its rows.
        written: the files that hold the parts of this segment, see `tfdml.search.files`.
    """

    gallery: Gallery
    ids: Ids
    metadata: Any = None
    alive: np.ndarray | None = None
    searcher: Any = None
    written: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def count(self) -> int:
        """Number of vectors that are not removed."""
        return len(self.ids) if self.alive is None else int(self.alive.sum())

    def kept(self, column: Any) -> Any:
        """The entries of an array or a table, one per vector, whose vectors are not removed."""
        if self.alive is None or column is None:
            return column
        return column[self.alive] if isinstance(column, np.ndarray) else column.filter(self.alive)

    def find(self, ids: np.ndarray) -> np.ndarray:
        """The row of each id, -1 for ids that are not there or are removed: `(m,)` int64."""
        rows = self.ids.find(ids)
        return rows if self.alive is None else np.where(self.alive[rows], rows, -1)

    def take(self, rows: np.ndarray) -> "Segment":
        """A segment of some rows, in memory."""
        metadata = None if self.metadata is None else self.metadata.take(rows)
        return Segment(self.gallery.take(rows), Ids(self.ids.values[rows]), metadata)

    def without(self, rows: np.ndarray) -> "Segment":
        """The segment with some more rows removed."""
        alive = np.ones(len(self.ids), bool) if self.alive is None else self.alive.copy()
        alive[rows] = False
        written = {part: file for part, file in self.written.items() if part != "alive"}
        return replace(self, alive=alive, written=written)

    def compact(self) -> "Segment":
        """The segment without its removed rows."""
        return self if self.alive is None else joined([self])


def joined(segments: Sequence[Segment]) -> Segment:
    """One segment of the vectors that are not removed, in the same order, without a searcher."""
    if len(segments) == 1 and segments[0].alive is None:
        return replace(segments[0], searcher=None)
    forms = [segment.kept(segment.gallery.form) for segment in segments]
    gallery = Gallery.joined(forms, [segment.gallery for segment in segments])
    ids = Ids(np.concatenate([segment.kept(segment.ids.values) for segment in segments]))
    return Segment(gallery, ids, metadata_of(segments))


def metadata_of(segments: Sequence[Segment]) -> Any:
    """The metadata of the vectors that are not removed, or None."""
    if segments[0].metadata is None:
        return None
    import pyarrow

    return pyarrow.concat_tables([segment.kept(segment.metadata) for segment in segments])


def tidy(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Copies segments that are mostly removed, and joins the last four while the first of them is less than four times
    as long as the last.

    So there are at most 3 log4(n) + 3 segments, and a vector is copied log4(n) times. Segments with a searcher stay.
    """
    fixed, kept = [], []
    for segment in segments:
        if segment.searcher is not None:
            fixed.append(segment)
        elif segment.count:
            kept.append(segment.compact() if 2 * segment.count < len(segment.ids) else segment)
        while len(kept) >= _JOINED and kept[-_JOINED].count < _JOINED * kept[-1].count:
            kept[-_JOINED:] = [joined(kept[-_JOINED:])]
    return (*fixed, *kept)
