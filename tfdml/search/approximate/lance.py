"""Nearest neighbors in a table of LanceDB, which may be larger than memory."""

import copy
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import as_writable_path
from tfdml.search.approximate.base import Approximate, chosen_leaves, chosen_method, optional_whole, rescored
from tfdml.search.blocks import MAX_BYTES, slices
from tfdml.search.exact import exact_neighbors
from tfdml.search.index.lance_items import (
    VECTOR,
    TableItems,
    TemporaryFolder,
    is_lance_table,
    open_table,
    require_columns,
    settings_of,
    uri_of,
    with_settings,
)
from tfdml.search.nearest import merged
from tfdml.typing import FilePath, Metadata

_QUERIES = 1024  # whose candidates are read together
_MANY = 4  # A filter that at least a quarter passes is applied after the search for candidates.
_SPARE = 1.5  # candidates, over the number that passes such a filter on average
_INDEX = "cells"  # its name in the table
_KEPT = timedelta(minutes=10)  # earlier versions under a saved index, for their readers


class Lance(Approximate):
    """Nearest neighbors in a table of LanceDB, behind the interface of `Exact`: vectors stay on disk or at a URL.

    The table has the columns `id`, `embedding` and those of the metadata, and states metric, model and settings in the
    metadata of its schema. Memory holds ids and metadata. The number of vectors determines the method:

    * below 20,000 vectors `"exact"`: a search reads all vectors, and its results equal those of `Exact` to the last
      bit;
    * from 20,000 `"partitioned"`: Lance proposes `rescore` candidates from int8 codes in the `leaves_to_search` nearest
      of `leaves` k-means cells. They are read, and scored as in `Exact`.

    A query always gets `k` neighbors, as with `Faiss`. If fewer than a quarter of the vectors pass a filter, they are
    read and compared. Vectors that were added since the last `rebuild` are searched, too.

    **Changes are in the table at once**, each as one version. `save` writes a copy, or the settings into the table of
    the index itself. Without `path`, the table is in a temporary folder, and ends with the index. One writer changes a
    table at a time: an index whose table another one has changed refuses changes until it is loaded again.

    Example:

        >>> index = tfdml.search.Lance([[1.0, 0.0], [0.6, 0.8]], ids=["a", "b"], path="shop/products.lance")
        >>> index.add([[0.0, 1.0]], ["c"])
        >>> tfdml.search.load("shop/products.lance").search([[0.0, 2.0]], k=2)[0].tolist()
        [['c', 'b']]

    Args:
        vectors, ids, metric, metadata, max_bytes, model: as for `Exact`. No metadata may be named `id` or `embedding`.
        path: folder `database/table.lance`, or a URL such as `s3://bucket/table.lance`, of a new table.
        method: "auto", "exact" or "partitioned".
        leaves: number of cells; the square root of n by default.
        leaves_to_search: number of cells searched per query, a quarter of them by default.
        rescore: number of candidates per query; k + 10 by default, never fewer than k.

    Source: Pace et al., Lance: Efficient Random Access in Columnar Storage through Adaptive Structural Encodings, 2025.
    """

    kind: ClassVar[str] = "lance"
    methods: ClassVar[tuple[str, ...]] = ("exact", "partitioned")

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
        require_columns(self.metadata)
        self._choose(method, leaves, leaves_to_search, rescore)
        home: Any = TemporaryFolder() if path is None else None
        place = uri_of(f"{home.path}/items.lance" if path is None else path)
        _require_free(place)
        self._items = TableItems.write(place, iter(self._items.segments), self._settings(), "create", home)
        self._train()

    def rebuild(
        self,
        *,
        method: str = "auto",
        leaves: int | None = None,
        leaves_to_search: int | None = None,
        rescore: int | None = None,
    ) -> None:
        """Join the files of the table, and train the cells again, of all vectors.

        Args:
            method, leaves, leaves_to_search, rescore: as in the constructor, by default for the current size.
        """
        self._choose(method, leaves, leaves_to_search, rescore)
        self._items = self._items.changed(lambda dataset: dataset.optimize.compact_files())
        self._items = self._items.changed(with_settings(self._settings()))
        self._train()

    def save(self, path: FilePath) -> None:
        """Write a copy to a folder or a URL, or the settings into the own table, if `path` is its place.

        A table of an index that is there gets the copy as its next version, and keeps earlier ones for ten minutes.
        """
        place = uri_of(path)
        if place == self._items.table.dataset.uri:
            self._items = self._items.changed(with_settings(self._settings()))
            return
        mode = "overwrite" if is_lance_table(place) and open_table(place) else "create"
        if mode == "create":
            _require_free(place)
        copied = copy.copy(self)
        copied._items = TableItems.write(place, self._items.blocks(), self._settings(), mode)
        copied._train()
        copied._items.table.dataset.cleanup_old_versions(older_than=_KEPT)

    @classmethod
    def read(cls, folder: Path, max_bytes: int = MAX_BYTES) -> Self:
        """The index in a table, at its latest version."""
        dataset = open_table(folder)
        index = cls.__new__(cls)
        index.__dict__ |= settings_of(dataset)
        index.max_bytes, index._items = max_bytes, TableItems.of(dataset)
        return index

    def _settings(self):
        return {name: getattr(self, name) for name in (*self.settings, "fingerprint")}

    def _choose(self, method, leaves, leaves_to_search, rescore):
        """Check and set the settings of a search."""
        method = chosen_method(self.methods, method, "exact" if len(self) < 20_000 else "partitioned")
        leaves, leaves_to_search = chosen_leaves(method, leaves, leaves_to_search, len(self))
        self.rescore = optional_whole(rescore, "rescore")
        self.method, self.leaves, self.leaves_to_search = method, leaves, leaves_to_search

    def _train(self):
        """Make the index of cells in the table, or drop it; the table's searches are exact until it is there."""
        if self.leaves:
            metric = "dot" if self.metric == "dot" else "L2"  # vectors are normalized for cosine
            options = {"name": _INDEX, "metric": metric, "num_partitions": self.leaves, "replace": True}
            self._items = self._items.changed(lambda dataset: dataset.create_index(VECTOR, "IVF_SQ", **options))
        elif any(index.name == _INDEX for index in self._items.table.dataset.describe_indices()):
            self._items = self._items.changed(lambda dataset: dataset.drop_index(_INDEX))

    def _effort(self, segment, allowed, k):
        share = 1.0 if allowed is None else max(1, allowed.sum()) / len(allowed)
        num_candidates = max(k, self._chosen_rescore(k))
        spare = 1.0 if allowed is None else _SPARE
        return min(len(segment.ids), int(np.ceil(spare * num_candidates / share))), num_candidates

    def _chosen_rescore(self, k):
        return self.rescore or k + 10

    def _neighbors(self, segment, allowed, queries, k):
        if allowed is not None and allowed.sum() * _MANY < len(allowed):
            return self._exact_neighbors(segment, allowed, queries, k)
        return super()._neighbors(segment, allowed, queries, k)

    def _approximate_neighbors(self, segment, allowed, queries, num_requested, num_rescored):
        found = [self._candidates(segment, queries[part], num_requested) for part in slices(len(queries), _QUERIES)]
        rows, values = map(np.concatenate, zip(*found, strict=True))
        return rows, values

    def _candidates(self, segment, queries, count):
        """Rows and values `(q, count)` of the candidates for some queries; NaN values where there are fewer."""
        vectors = segment.gallery
        nearest = {"column": VECTOR, "q": vectors.take(np.arange(1)).scores(queries).queries, "k": count}
        nearest |= {"nprobes": self.leaves_to_search, "metric": "dot" if self.metric == "dot" else "L2"}
        table = vectors.dataset.scanner(nearest=nearest, columns=["_distance"], with_row_id=True).to_table()
        query = table["query_index"].to_numpy()
        column = np.arange(len(query)) - np.searchsorted(query, query)
        rows, values = np.zeros((len(queries), count), np.int64), np.full((len(queries), count), np.nan, np.float32)
        rows[query, column] = segment.searcher.find(table["_rowid"].to_numpy())
        values[query, column] = 0
        distinct, places = np.unique(rows, return_inverse=True)
        places, values = rescored(vectors.take(distinct).scores(queries), places.reshape(rows.shape), values)
        return distinct[places], values

    def _exact_neighbors(self, segment, allowed, queries, k):
        rows, values = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        for block, gallery in segment.gallery.blocks(allowed, self.max_bytes):
            found, scores = exact_neighbors(gallery, None, queries, min(k, len(block)), self.max_bytes)
            rows, values = merged(rows, values, block[found], scores, k)
        return rows, values


def _require_free(place):
    """Raise a FileExistsError for a folder with files."""
    if "://" not in place:  # Lance looks at a URL
        folder = as_writable_path(place)
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise FileExistsError(f"Received path={place!r}, where there are files. Load it, or choose another path.")
