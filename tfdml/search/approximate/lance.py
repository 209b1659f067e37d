"""Nearest neighbors in a table of LanceDB, which may be larger than memory."""

import copy
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import as_writable_path, require_replaceable
from tfdml.search.approximate.base import Approximate, chosen_leaves, chosen_method, optional_whole, rescored
from tfdml.search.blocks import MAX_BYTES
from tfdml.search.exact import exact_neighbors
from tfdml.search.index.lance_items import (
    VECTOR,
    TableItems,
    is_lance_table,
    lance,
    open_table,
    replaced,
    settings_of,
    table_of,
    uri_of,
)
from tfdml.search.nearest import merged
from tfdml.typing import FilePath, Metadata

_MANY = 4  # A filter that at least a quarter passes is applied after the search for candidates.
_SPARE = 1.5  # times as many candidates as have the wanted number of allowed ones on average
_DISTANCES = {"cosine": "L2", "euclidean": "L2", "dot": "dot"}  # Vectors are normalized for cosine.
_KEPT = timedelta(minutes=10)  # earlier versions under a saved index, for their readers


class Lance(Approximate):
    """Nearest neighbors in a table of LanceDB, behind the interface of `Exact`: vectors stay on disk or at a URL.

    The columns of the table are `id`, `embedding` and the metadata; its schema states model and settings. Memory holds
    ids and metadata. The number of vectors determines the method:

    * below 20,000 `"exact"`: each search reads all vectors. Ids and scores equal those of `Exact` to the last bit;
    * from 20,000 `"partitioned"`: Lance proposes `rescore` candidates from int8 codes in the `leaves_to_search` nearest
      of `leaves` k-means cells. They are read, and scored as by `Exact`.

    A query always gets `k` neighbors. Where less than a quarter of the vectors passes a filter, these are compared.
    Vectors that were added since `rebuild` are found, too.

    **A change is in the table at once**, as a version. `save` writes a copy, or the settings, if `path` is the table
    itself. Without `path`, the table is in memory. A change of a table that another writer has changed is a
    ValueError.

    Example:

        >>> index = tfdml.search.Lance([[1.0, 0.0], [0.6, 0.8]], ["a", "b"], path="shop/products.lance")
        >>> index.add([[0.0, 1.0]], ["c"])
        >>> tfdml.search.load("shop/products.lance").search([[0.0, 2.0]], k=2)[0].tolist()
        [['c', 'b']]

    Args:
        vectors, ids, metric, metadata, max_bytes, model: as for `Exact`.
        path: folder `database/table.lance`, or URL such as `s3://bucket/table.lance`, of a new table.
        method: "auto", "exact" or "partitioned".
        leaves, leaves_to_search: as for `Faiss`.
        rescore: number of candidates per query; k + 10 by default, never fewer than k.
    """

    kind: ClassVar[str] = "lance"
    methods: ClassVar[tuple[str, ...]] = ("exact", "partitioned")
    max_queries: ClassVar[int] = 1024  # whose candidates are read together

    _items: TableItems

    def __init__(
        self,
        vectors: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        *,
        path: FilePath | None = None,
        metric: str = "cosine",
        metadata: Metadata | None = None,
        max_bytes: int = MAX_BYTES,
        model: Any = None,
        method: str = "auto",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
    ):
        super().__init__(vectors, ids, metric=metric, metadata=metadata, max_bytes=max_bytes, model=model)
        self._choose(method, leaves, leaves_to_search, rescore)
        table = table_of(self._items.segments[0], self._state())
        uri = "memory://table" if path is None else _free(path)
        self._items = TableItems.of(lance().write_dataset(table, uri, mode="create"))
        self._train()

    def rebuild(self, **settings: Any) -> None:
        """Join the files of the table, and make the cells again, of all vectors.

        Args:
            settings: `method`, `leaves`, `leaves_to_search` and `rescore`, as in the constructor.
        """
        self._choose(**settings)
        self._items = self._items.changed(lambda dataset: dataset.optimize.compact_files()).with_settings(self._state())
        self._train()

    def save(self, path: FilePath) -> None:
        """Write a copy to a folder or a URL, or the settings, if `path` is the table itself.

        A table of an index in a folder gets the copy as its next version, and keeps earlier ones for ten minutes. A
        table at a URL is not replaced: Lance raises an OSError.
        """
        dataset, uri = self._items.table.dataset, uri_of(path)
        if uri == dataset.uri:
            self._items = self._items.with_settings(self._state())
            return
        is_there = "://" not in uri and is_lance_table(uri)
        mode, uri = ("overwrite", open_table(uri).uri) if is_there else ("create", _free(uri))
        written = lance().write_dataset(dataset.scanner(scan_in_order=True).to_reader(), uri, mode=mode)
        copied = copy.copy(self)
        copied._items = TableItems.of(written).with_settings(self._state())
        copied._train()
        written.cleanup_old_versions(older_than=_KEPT)

    def replace(self, old: "Lance") -> bool:
        """Make all items the next version of the table of another index; False if that is not its latest version."""
        written = replaced(self._items.table.dataset, old._items.table.dataset, self._state())
        if written is not None:
            self._make_cells(written)
            written.cleanup_old_versions(older_than=_KEPT)
        return written is not None

    @classmethod
    def read(cls, folder: Path, max_bytes: int = MAX_BYTES) -> Self:
        """The index in a table, at its latest version."""
        dataset, index = open_table(folder), cls.__new__(cls)
        index.__dict__ |= settings_of(dataset) | {"max_bytes": max_bytes, "_items": TableItems.of(dataset)}
        return index

    def _state(self):
        return {name: getattr(self, name) for name in (*self.settings, "fingerprint")}

    def _choose(self, method="auto", leaves=None, leaves_to_search=None, rescore=None):
        method = chosen_method(self.methods, method, "exact" if len(self) < 20_000 else "partitioned")
        leaves, leaves_to_search = chosen_leaves(method, leaves, leaves_to_search, len(self))
        self.rescore = optional_whole(rescore, "rescore")
        self.method, self.leaves, self.leaves_to_search = method, leaves, leaves_to_search

    def _train(self):
        """Make the cells of the table; a search is exact until they are there."""
        if self.leaves:
            self._items = self._items.changed(self._make_cells)

    def _make_cells(self, dataset):
        if self.leaves:
            options = {"metric": _DISTANCES[self.metric], "num_partitions": self.leaves, "replace": True}
            dataset.create_index(VECTOR, "IVF_SQ", **options)

    def _effort(self, segment, allowed, k):
        share, num_candidates = 1.0 if allowed is None else allowed.mean(), max(k, self.rescore or k + 10)
        if share * _MANY < 1:
            return num_candidates, len(segment.ids)  # exact
        return min(len(segment.ids), int(num_candidates * (1 if allowed is None else _SPARE / share))), num_candidates

    def _approximate_neighbors(self, segment, allowed, queries, num_requested, num_rescored):
        vectors, rows = segment.gallery, np.zeros((len(queries), num_requested), np.int64)
        nearest = {"q": vectors.take(np.arange(1)).scores(queries).queries, "k": num_requested, "column": VECTOR}
        nearest |= {"metric": _DISTANCES[self.metric], "nprobes": self.leaves_to_search}
        table = vectors.dataset.scanner(nearest=nearest, columns=["_distance"], with_row_id=True).to_table()
        query, values = table["query_index"].to_numpy(), np.full(rows.shape, np.nan, np.float32)
        column = np.arange(len(query)) - np.searchsorted(query, query)
        rows[query, column], values[query, column] = segment.searcher.find(table["_rowid"].to_numpy()), 0
        distinct, positions = np.unique(rows, return_inverse=True)
        scores, positions = vectors.take(distinct).scores(queries), positions.reshape(rows.shape)
        positions, values = rescored(scores, positions, values)
        return distinct[positions], values

    def _exact_neighbors(self, segment, allowed, queries, k):
        rows, values = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        for block, gallery in segment.gallery.blocks(allowed, self.max_bytes):
            columns, scores = exact_neighbors(gallery, None, queries, min(k, len(block)), self.max_bytes)
            rows, values = merged(rows, values, block[columns], scores, k)
        return rows, values


def _free(path):
    """A path or URL as Lance names it; a FileExistsError for a folder with files."""
    if "://" not in str(path):  # Lance looks at a URL
        require_replaceable(as_writable_path(path), lambda folder: frozenset())
    return uri_of(path)
