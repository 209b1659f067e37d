"""What `Exact` and `Scann` share: items that come and go, and a search over their segments."""

from os import PathLike
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_vectors, require, require_metric, require_whole
from tfdml.search.index.files import write_index
from tfdml.search.index.ids import Ids, as_item_ids
from tfdml.search.index.items import Items
from tfdml.search.index.saved import write_items
from tfdml.search.index.segments import Segment
from tfdml.search.index.tables import as_rows_of, as_table
from tfdml.search.nearest import merged
from tfdml.search.scores import Gallery

_NEW = "new ids. Pass these to update"
_KEPT = "ids to keep at least one. Build a new index"


class Index:
    """An index: vectors, their ids and metadata, which change, and a search.

    A change first checks its arguments: an error leaves the index as it was. One thread may change an index while
    others search: each search sees it before or after the change.
    """

    kind: ClassVar[str]
    settings: ClassVar[tuple[str, ...]] = ("metric", "dim")
    metric: str
    dim: int
    memory: int
    _items: Items

    def __len__(self) -> int:
        return len(self._items)

    @property
    def ids(self) -> np.ndarray:
        """`(n,)` int64 or text, in the order of the index."""
        return self._items.ids

    @property
    def vectors(self) -> np.ndarray:
        """`(n, dim)` float32 in the order of `ids`: normalized for cosine, else as they were given.

        A copy or a view: do not write into it.
        """
        return self._items.vectors

    @property
    def metadata(self) -> Any:
        """`pyarrow.Table` of n rows in the order of `ids`; None for an index without metadata."""
        return self._items.metadata

    def rows(self, ids: npt.ArrayLike) -> np.ndarray:
        """The row of each id, its position in `ids`, `vectors` and `metadata`.

            index.metadata.take(index.rows(found[0]))

        Args:
            ids: ids of the index, of any shape.

        Returns:
            int64 of the same shape.

        Raises:
            ValueError: ids that are not in the index.
        """
        return self._items.rows(ids)

    def mask(self, where: Any) -> np.ndarray:
        """The vectors that pass a filter, `(n,)` bool in the order of `ids`; see `search`."""
        return self._items.mask(where)

    def add(self, vectors: npt.ArrayLike, ids: npt.ArrayLike, *, metadata: Any = None) -> None:
        """Adds vectors at the end.

        It takes the time of the vectors that are added, not of those that are there.

        Args:
            vectors: `(m, dim)` floats, finite.
            ids: `(m,)` ids of the kind of the index, not in it yet.
            metadata: the columns of the index, in any order, for these vectors.

        Raises:
            ValueError: vectors of another dim or not finite; ids that repeat, are in the index or are of the other
                kind; metadata with other columns or types.
        """
        matrix = self._as_vectors(vectors)
        new = self._new_ids(ids, len(matrix))
        table = as_rows_of(as_table(metadata, len(matrix)), self._columns)
        self._items = self._items.add(Segment(self._gallery(matrix), new, table))

    def remove(self, ids: npt.ArrayLike) -> None:
        """Removes vectors by their ids.

        Raises:
            ValueError: ids that repeat or are not in the index, or are all of its ids.
        """
        gone = self._known(ids)
        require(len(gone) < len(self), f"all {len(gone)} ids of the index", _KEPT)
        self._items = self._items.remove(gone)

    def update(self, ids: npt.ArrayLike, vectors: npt.ArrayLike | None = None, *, metadata: Any = None) -> None:
        """Replaces vectors, metadata or both of ids that are in the index. They move to its end.

        Args:
            ids: `(m,)` ids of the index.
            vectors: `(m, dim)` floats, finite; None leaves the vectors as they are.
            metadata: as in `add`; None leaves it as it is.

        Raises:
            ValueError: ids that repeat or are not in the index; otherwise as `add`.
        """
        known = self._known(ids)
        if len(known):
            old = self._items.take(known)
            gallery = old.gallery if vectors is None else self._gallery(self._as_vectors(vectors, len(known)))
            given = as_table(metadata, len(known))
            table = old.metadata if given is None else as_rows_of(given, self._columns)
            self._items = self._items.remove(known).add(Segment(gallery, old.ids, table))

    def search(self, queries: npt.ArrayLike, k: int, *, where: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Finds the `k` nearest vectors of every query, with `Scann` approximately.

        Args:
            queries: `(q, dim)` floats, finite; `q` may be 0.
            k: number of neighbors, 1 to `len(self)`, or to the number of vectors that pass `where`.
            where: the vectors that may be found: `(n,)` booleans in the order of `ids`, or an expression of metadata
                columns, `pyarrow.compute.field("price") < 10`; None for all. Rows where it is null do not pass.

        Returns:
            ids: `(q, k)` of the type of `ids`, nearest first, no id twice in a row; vectors with the same score are in
                the order of the index, with `Scann` in any order.
            scores: `(q, k)` float32. Cosine and dot product fall along a row; Euclidean distances rise.

        Raises:
            ValueError: queries of a different dim or not finite; k out of range; a filter of another form; scores
                beyond the range of float32.
        """
        return self._search(self._neighbors, queries, k, where)

    def save(self, folder: str | PathLike) -> None:
        """Writes the index to a folder that `load` reads, atomically.

        Saving to the folder that the index was loaded from or saved to writes what has changed since, and links the
        other files. A crash leaves the old or the new version.

        Raises:
            OSError: the folder cannot be written, or holds anything other than an index.
        """
        about = {name: getattr(self, name) for name in self.settings}
        write_index(folder, lambda files: {"kind": self.kind, **about, **write_items(files, self._items)})

    def _search(self, neighbors, queries, k, where=None):
        """As `search`, where `neighbors(segment, allowed, queries, k)` finds those in a segment."""
        items, queries = self._items, self._as_vectors(queries, name="queries")
        parts = [part for part in zip(items.segments, items.allowed(where), strict=True) if _count(*part)]
        require_whole("k", k, 1, sum(_count(*part) for part in parts))
        found, values = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        for segment, allowed in parts:
            rows, more = neighbors(segment, allowed, queries, min(int(k), _count(segment, allowed)))
            found, values = merged(found, values, segment.ids.values[rows], more, k)
        return found, -values if self.metric == "euclidean" else values

    def _neighbors(self, segment, allowed, queries, k):
        """Rows of a segment `(q, k)` and their scores, of which larger ones are nearer."""
        raise NotImplementedError

    def _start(self, vectors, ids, metric, metadata, memory):
        """Takes the first items."""
        require_metric(metric)
        vectors = as_vectors(vectors, "vectors")
        self.metric, self.dim, self.memory = metric, vectors.shape[1], memory
        ids = Ids(as_item_ids(ids, len(vectors)))
        self._items = Items((Segment(self._gallery(vectors), ids, as_table(metadata, len(vectors))),))

    def _gallery(self, vectors):
        """A `Gallery` of new vectors."""
        return Gallery(vectors.copy() if self.metric == "dot" else vectors, self.metric)

    @property
    def _columns(self):
        """A table with the columns of the metadata, or None."""
        return self._items.segments[0].metadata

    def _as_vectors(self, vectors, count=None, name="vectors"):
        vectors = as_vectors(vectors, name)
        if vectors.shape[1] != self.dim:
            raise ValueError(f"Received {name} of dim {vectors.shape[1]}, expected {self.dim} as in the index.")
        require(count in (None, len(vectors)), f"{len(vectors)} vectors for {count} ids", "one per id")
        return vectors

    def _known(self, ids):
        """Distinct ids of the index."""
        known = self._items.known(ids)
        require(known.ndim == 1, f"ids of shape {known.shape}", "(m,)")
        return Ids(known).values

    def _new_ids(self, ids, count):
        """Ids of the kind of the index that are not in it."""
        require(ids is not None, "ids=None", "an id per vector")
        new, kind = Ids(as_item_ids(ids, count)), self._items.segments[0].ids.kind
        require(new.kind == kind, f"ids of kind {new.kind}", f"{kind} as in the index")
        there = self._items.present(new.sorted)
        require(not len(there), f"{len(there)} ids that are in the index, such as {there[:1].tolist()}", _NEW)
        return new


def _count(segment, allowed):
    """Number of vectors of a segment that may be found."""
    return len(segment.ids) if allowed is None else int(allowed.sum())
