"""Base class of indexes with add, update and remove."""

import copy
import numbers
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import atomic_write, only_writer, read_whole, version_of
from tfdml._core.checks import as_vectors, require, require_metric, require_whole
from tfdml._core.checksums import as_fingerprint, require_same_model, stated_model
from tfdml.search.blocks import MAX_BYTES
from tfdml.search.index.files import copy_links, files_of_index, read_manifest, seen, write_index
from tfdml.search.index.ids import Ids, as_item_ids
from tfdml.search.index.items import Items
from tfdml.search.index.segment_files import (
    read_fingerprint,
    read_items,
    read_settings,
    require_kind,
    write_items,
)
from tfdml.search.index.segments import Segment
from tfdml.search.index.shards import replaceable_files
from tfdml.search.index.tables import as_rows_of, as_table
from tfdml.search.nearest import means_of_best, merged
from tfdml.search.scores import Gallery
from tfdml.typing import FilePath, Filter, Metadata

if TYPE_CHECKING:
    import pyarrow

_ENTRY_BYTES = 96  # of a vector that is read to find items


class Index:
    """An index: vectors with their ids and metadata, changes of these, and a search.

    A change first checks its arguments: an error leaves the index as it was. One thread may change an index while
    others search: each search sees it before or after the change.

    Attributes:
        fingerprint: fingerprint of the model of the vectors; None if unknown. You may set it for an index that was
            saved without one.
    """

    kind: ClassVar[str]
    settings: ClassVar[tuple[str, ...]] = ("metric", "dim")
    files_at = staticmethod(files_of_index)

    _known: Mapping[str, Any] = MappingProxyType({})  # versions of folders that it was read from, or saved to

    def __init__(
        self,
        vectors: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        *,
        metric: str = "cosine",
        metadata: Metadata | None = None,
        max_bytes: int = MAX_BYTES,
        model: Any = None,
    ):
        require_metric(metric)
        self.fingerprint = as_fingerprint(stated_model(model, vectors))
        vectors = as_vectors(vectors, "vectors")
        self.metric, self.dim, self.max_bytes = metric, vectors.shape[1], max_bytes
        item_ids = Ids(as_item_ids(ids, len(vectors)))
        self._items = Items((Segment(self._gallery(vectors), item_ids, as_table(metadata, len(vectors))),))

    def __len__(self) -> int:
        return len(self._items)

    @property
    def ids(self) -> np.ndarray:
        """`(n,)` int64 or text, in the order of the index."""
        return self._items.ids

    @property
    def vectors(self) -> np.ndarray:
        """`(n, dim)` float32 in the order of `ids`: normalized for cosine, else unchanged.

        A copy or a view: do not write into it.
        """
        return self._items.vectors

    @property
    def metadata(self) -> "pyarrow.Table | None":
        """`pyarrow.Table` of n rows in the order of `ids`; None for an index without metadata."""
        return self._items.metadata

    def rows(self, ids: npt.ArrayLike) -> np.ndarray:
        """The row of each id, its position in `ids`, `vectors` and `metadata`.

            index.metadata.take(index.rows(neighbors[0]))

        Args:
            ids: ids of the index, of any shape; the result, int64, has the same.
        """
        return self._items.rows(ids)

    def mask(self, where: Filter) -> np.ndarray:
        """The vectors that pass a filter, `(n,)` bool in the order of `ids`; see `search`."""
        return self._items.mask(where)

    def item_numbers(self, items: str | None) -> np.ndarray:
        """The number of the item of each vector, `(n,)` int64 from 0 in the order of `ids`; see `search`.

        Metrics count items with `neighbors=index.item_numbers("product")[index.rows(ids)]`.
        """
        return self._items.numbers(items)

    def count(self, where: Filter | None = None, items: str | None = None) -> int:
        """The number of items of the vectors that pass a filter, the largest `k`; see `search`."""
        if items is None:
            return len(self) if where is None else int(self.mask(where).sum())
        return int(np.count_nonzero(self._counts(where, items)))

    def add(
        self,
        vectors: npt.ArrayLike,
        ids: npt.ArrayLike,
        *,
        metadata: Metadata | None = None,
        model: Any = None,
        other_model: bool = False,
    ) -> None:
        """Add vectors at the end.

        The time depends on the number of added vectors, not on the size of the index.

        Args:
            vectors: `(m, dim)` floats, finite.
            ids: `(m,)` ids of the kind of the index, not in it yet.
            metadata: the columns of the index, in any order, for these vectors.
            model: the model of the vectors, as in the constructor; None: the one that the vectors know.
            other_model: whether to accept vectors of another model.
        """
        self._require_model("vectors", stated_model(model, vectors), other_model)
        matrix = self._as_vectors(vectors)
        new_ids = self._as_new_ids(ids, len(matrix))
        table = as_rows_of(as_table(metadata, len(matrix)), self._metadata_example)
        self._items = self._items.add(Segment(self._gallery(matrix), new_ids, table))

    def remove(self, ids: npt.ArrayLike) -> None:
        """Remove vectors by their ids. One vector at least has to stay."""
        removed = self._as_existing_ids(ids)
        expected = "ids to keep at least one. Build a new index"
        require(len(removed) < len(self), f"all {len(removed)} ids of the index", expected)
        self._items = self._items.remove(removed)

    def update(
        self,
        ids: npt.ArrayLike,
        vectors: npt.ArrayLike | None = None,
        *,
        metadata: Metadata | None = None,
        model: Any = None,
        other_model: bool = False,
    ) -> None:
        """Replace vectors, metadata or both of ids that are in the index. They move to its end.

        Args:
            ids: `(m,)` distinct ids of the index.
            vectors: `(m, dim)` floats, finite; None keeps the vectors.
            metadata: as in `add`; None keeps it.
            model, other_model: as in `add`.
        """
        self._require_model("vectors", stated_model(model, vectors), other_model)
        updated = self._as_existing_ids(ids)
        if len(updated):
            old = self._items.take(updated)
            gallery = old.gallery if vectors is None else self._gallery(self._as_vectors(vectors, len(updated)))
            table = as_table(metadata, len(updated))
            table = old.metadata if table is None else as_rows_of(table, self._metadata_example)
            self._items = self._items.replace(updated, Segment(gallery, old.ids, table))

    def search(
        self,
        queries: npt.ArrayLike,
        k: int,
        *,
        where: Filter | None = None,
        items: str | None = None,
        best: int = 1,
        model: Any = None,
        other_model: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the `k` nearest vectors or items of every query, with `Scann` and `Faiss` approximately.

        Args:
            queries: `(q, dim)` floats, finite; `q` may be 0.
            k: number of neighbors, 1 to `len(self)`, or to the number of vectors that pass `where`, or of their items.
            where: the vectors to choose from: `(n,)` booleans in the order of `ids`, an expression of metadata columns,
                `pyarrow.compute.field("price") < 10`, or a dict of columns with a value or a list of values,
                `{"kind": ["shoe", "bag"], "price": 10}`, which all have to hold; None for all. Rows where an expression
                is null do not pass. The values of a dict have the type of the column, or are texts that mean them.
            items: column of the metadata with the item of each vector, such as the product of a photograph. Each item
                is found once, by its nearest vector, and `k` counts items. None: each vector is an item.
            best: number of nearest vectors of an item whose mean score is its score; fewer, if it has fewer. The ids
                are of nearest vectors.
            model, other_model: as in `add`, for the queries. The fingerprint of a Keras model takes the sha256 of its
                weights: compute it once for many searches.

        Returns:
            ids: `(q, k)` of the type of `ids`, nearest first, no id twice in a row; vectors with the same score are in
                the order of the index, with `Scann` in any order.
            scores: `(q, k)` float32. Cosine and dot product fall along a row; Euclidean distances rise.
        """
        self._require_model("queries", stated_model(model, queries), other_model)
        require_whole("best", best, 1)
        require(items is not None or best == 1, f"best={best} without items", "items, a column of the metadata")
        if items is not None:
            return copy.copy(self)._search_items(queries, k, where, items, best)  # one version, whatever is changed
        return self._search(self._neighbors, queries, k, where)

    def exactly(self) -> Self:
        """The index as it is now, whose `search` is exact."""
        return self

    def save(self, path: FilePath) -> None:
        """Write the index to a folder that `load` reads, atomically.

        It writes all vectors, also after a small change. A crash leaves the old or the new version. A folder that holds
        anything other than an index is an OSError. If this index was read from the folder, and an index of another
        model is there now, as after `migrate`, it raises a ValueError.
        """
        settings = {name: getattr(self, name) for name in self.settings}
        model = {} if self.fingerprint is None else {"model": self.fingerprint}
        manifest = {"kind": self.kind, **settings, **model}
        write = lambda folder: {**manifest, **write_items(folder, self._items)}  # noqa: E731
        self._known = {**self._known, **write_index(path, write, replaceable_files, self._known, self.fingerprint)}

    def exchange(self, path: Path, new: Path) -> bool:
        """Put the index in the folder `new` in the place of this one, in one step; False if `path` has changed.

        The new index keeps its own name, too, until no reader can have seen the old one alone.
        """
        with only_writer(path, "path", wait=True):
            if not seen(path).items() <= self._known.items():
                return False
            with atomic_write(path, replaceable_files) as folder:
                copy_links(new, folder)
        return True

    @staticmethod
    def version_at(path: FilePath) -> Any:
        """Numbers that change when the index at a path is replaced."""
        return version_of(Path(path).expanduser())

    @classmethod
    def load(cls, path: FilePath, *, max_bytes: int = MAX_BYTES, model: Any = None, other_model: bool = False) -> Self:
        """Read an index that `save` wrote; it returns the same neighbors with the same scores.

        It maps vectors into memory, after a check of their checksum.

        Args:
            path: folder of the index.
            max_bytes: bytes that a search may use in addition to the index and the results.
            model, other_model: as in `add`, for later queries.

        Raises:
            ValueError: as `tfdml.search.load`; an index of another kind.
        """
        index = read_whole(path, lambda folder: cls.read(folder, max_bytes))
        index._require_model("queries", model, other_model)
        return index

    @classmethod
    def read(cls, folder: Path, max_bytes: int = MAX_BYTES) -> Self:
        """As `load`, from a folder that no other process writes to at the same time."""
        version, manifest = seen(folder), read_manifest(folder)
        require_kind(manifest, cls.kind, folder)
        index = cls.__new__(cls)
        index._known = version
        index.metric, index.dim, index.max_bytes = *read_settings(folder, manifest), max_bytes
        index.fingerprint = read_fingerprint(folder, manifest)
        index._restore(folder, manifest)
        return index

    def _restore(self, folder, manifest):
        """Read the items; subclasses also read their settings."""
        self._items = read_items(folder, manifest)

    def _search(self, neighbors, queries, k, where=None):
        """As `search`, with a function `neighbors(segment, allowed, queries, k)` that searches one segment."""
        items, queries = self._items, self._as_vectors(queries, name="queries")
        counts = [
            (segment, allowed, len(segment.ids) if allowed is None else int(allowed.sum()))
            for segment, allowed in zip(items.segments, items.allowed(where), strict=True)
        ]
        _require_k(k, sum(count for _, _, count in counts), where)
        ids, values = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        for segment, allowed, count in counts:
            if count:
                rows, segment_values = neighbors(segment, allowed, queries, min(int(k), count))
                ids, values = merged(ids, values, segment.ids.values[rows], segment_values, k)
        return ids, -values if self.metric == "euclidean" else values

    def _search_items(self, queries, k, where, items, best):
        """As `search` with `items`: queries look for more vectors until no other item can be among their k."""
        where = None if where is None else self.mask(where)
        queries, item_numbers = self._as_vectors(queries, name="queries"), self.item_numbers(items)
        counts = self._counts(where, items)
        num_items, num_vectors = np.count_nonzero(counts), int(counts.sum())
        _require_k(k, num_items, where)
        most = min(num_vectors, (k - 1) * int(counts.max()) + 1) if best == 1 else num_vectors  # are of k items
        ids, scores = np.empty((len(queries), k), self.ids.dtype), np.empty((len(queries), k), np.float32)
        sign = -1 if self.metric == "euclidean" else 1

        def is_done(rows, size):
            near_ids, near_scores = self._search(self._neighbors, queries[rows], size, where)
            values = sign * near_scores
            means, is_whole = means_of_best(values, item_numbers[self.rows(near_ids)], counts, best)
            top = np.argsort(-means, axis=1, kind="stable")[:, :k]
            ids[rows] = np.take_along_axis(near_ids, top, axis=1)
            means, is_whole = np.take_along_axis(means, top, axis=1), np.take_along_axis(is_whole, top, axis=1)
            scores[rows] = sign * means
            return (size == most) | (is_whole.all(axis=1) & (means[:, -1] >= values[:, -1]))

        left, size = np.arange(len(queries)), min(most, -(-k * num_vectors // num_items))
        while len(left):
            num_pieces = min(len(left), -(-len(left) * size * _ENTRY_BYTES // self.max_bytes))
            left = left[~np.concatenate([is_done(rows, size) for rows in np.array_split(left, num_pieces)])]
            size = min(most, 4 * size)
        return ids, scores

    def _counts(self, where, items):
        item_numbers = self.item_numbers(items)
        return np.bincount(item_numbers if where is None else item_numbers[self.mask(where)], minlength=1)

    def _neighbors(self, segment, allowed, queries, k):
        """Rows of a segment `(q, k)` and their values; larger ones are nearer."""
        raise NotImplementedError

    def _gallery(self, vectors):
        return Gallery(vectors.copy() if self.metric == "dot" else vectors, self.metric)

    def _require_model(self, items, model, other_model):
        """Raise a ValueError if a model is stated, and the index has another one."""
        require_same_model(items, model, "the index", self.fingerprint, other_model=other_model)

    @property
    def _metadata_example(self):
        return self._items.segments[0].metadata

    def _as_vectors(self, vectors, count=None, name="vectors"):
        vectors = as_vectors(vectors, name)
        if vectors.shape[1] != self.dim:
            raise ValueError(f"Received {name} of dim {vectors.shape[1]}, expected {self.dim} as in the index.")
        require(count in (None, len(vectors)), f"{len(vectors)} vectors for {count} ids", "one per id")
        return vectors

    def _as_existing_ids(self, ids):
        """`(m,)` distinct ids of the index."""
        existing = self._items.as_existing_ids(ids)
        require(existing.ndim == 1, f"ids of shape {existing.shape}", "(m,)")
        return Ids(existing).values

    def _as_new_ids(self, ids, count):
        require(ids is not None, "ids=None", "an id per vector")
        new, kind = Ids(as_item_ids(ids, count)), self._items.segments[0].ids.kind
        require(new.kind == kind, f"ids of kind {new.kind}", f"{kind} as in the index")
        present = self._items.present(new.sorted)
        received = f"{len(present)} ids that are in the index, such as {present[:1].tolist()}"
        require(not len(present), received, "new ids. Pass these to update")
        return new


def _require_k(k, total, where):
    items_that_pass = f"the {total} items {'of the index' if where is None else 'that pass the filter'}"
    require(total > 0, "no items", "at least one. Change the filter, or add items")
    is_whole = isinstance(k, numbers.Integral) and not isinstance(k, bool)
    require(is_whole and 1 <= k <= total, f"k={k!r}", f"a whole number from 1 to {total}, {items_that_pass}")
