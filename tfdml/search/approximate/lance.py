"""Nearest neighbors in a table of LanceDB: ids and metadata in memory, vectors read from disk as they are needed."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import as_writable_path, require_replaceable, version_of
from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml.search.approximate.base import Approximate, chosen_leaves, chosen_method, optional_whole, rescored
from tfdml.search.blocks import MAX_BYTES, slices
from tfdml.search.exact import exact_neighbors
from tfdml.search.index.ids import Ids
from tfdml.search.index.items import Items
from tfdml.search.index.segments import Segment
from tfdml.search.nearest import merged
from tfdml.search.scores import Gallery
from tfdml.typing import FilePath, Metadata

_ID, _VECTOR = "id", "embedding"  # columns; the others are metadata
_VERSIONS = "_versions"  # a folder of a table
_SETTINGS = "tfdml"  # a key of the metadata of the schema
_ROWS = 2**16  # vectors of a block
_RESERVED = {_ID, _VECTOR, "_rowid", "_rowaddr", "_rowoffset", "_distance", "query_index"}
_NEEDS = {"feature": "tfdml.search.Lance", "extra": "lance"}
_MANY = 4  # A filter that at least a quarter passes is applied after the search for candidates.
_SPARE = 1.5  # times as many candidates as have the wanted number of allowed ones on average
_DISTANCES = {"cosine": "L2", "euclidean": "L2", "dot": "dot"}  # Vectors are normalized for cosine.
_KEPT = timedelta(minutes=10)  # earlier versions under a saved index, for their readers
_SECONDS_TO_LEAVE = 2.0  # for servers, which look each second, before the files of a table are removed


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

    _items: "_TableItems"

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
        table = _table_of(self._items.segments[0], self._state())
        uri = "memory://table" if path is None else _free(path)
        dataset = _lance().write_dataset(table, uri, mode="create")
        self._make_cells(dataset)
        self._items = _TableItems.of(dataset)

    def rebuild(self, **settings: Any) -> None:
        """Join the files of the table, and make the cells again, of all vectors.

        Args:
            settings: `method`, `leaves`, `leaves_to_search` and `rescore`, as in the constructor.
        """

        def change(dataset):
            dataset.optimize.compact_files()
            self._write_settings(dataset)
            self._make_cells(dataset)

        self._choose(**settings)
        self._items = self._items.changed(change)

    def save(self, path: FilePath) -> None:
        """Write a copy to a folder or a URL, or the settings, if `path` is the table itself.

        A table of an index in a folder gets the copy as its next version, and keeps earlier ones for ten minutes. A
        table at a URL is not replaced: Lance raises an OSError.
        """
        dataset, uri = self._items.table.dataset, _uri_of(path)
        if uri == dataset.uri:
            self._items = self._items.changed(self._write_settings)
        elif "://" not in uri and self.is_at(uri):
            received = f"path={str(path)!r}, which another writer changes at the same time"
            require(self._write_over(_opened(uri)), received, "one writer. Save the index again")
        else:
            rows = dataset.scanner(scan_in_order=True).to_reader()
            written = _lance().write_dataset(rows, _free(uri), mode="create")
            self._write_settings(written)
            self._make_cells(written)

    def exchange(self, path: Path, new: Path) -> bool:
        """Make all items of another table its next version; False if this index is not of the latest one.

        Who reads the other table has a moment to leave it.
        """
        is_replaced = type(self).read(new)._write_over(self._items.table.dataset)
        time.sleep(_SECONDS_TO_LEAVE if is_replaced else 0)
        return is_replaced

    def _write_over(self, old):
        """Make all items the next version of a table; False if it has a later version than `old`."""
        rows = self._items.table.dataset.scanner(scan_in_order=True).to_reader()
        schema = rows.schema.with_metadata(_as_metadata(self._state()))
        fragments = _lance("lance.fragment").write_fragments(rows, old.uri, mode="overwrite")
        operation = _lance().LanceOperation.Overwrite(schema, fragments)
        try:
            written = _lance().LanceDataset.commit(old.uri, operation, read_version=old.version, max_retries=0)
        except _lance("lance.commit").CommitConflictError:
            for file in (file for fragment in fragments for file in fragment.files):
                (Path(old.uri) / "data" / file.path).unlink()
            return False
        self._make_cells(written)
        written.cleanup_old_versions(older_than=_KEPT)
        return True

    @staticmethod
    def is_at(path: FilePath) -> bool:
        """Whether a path is a URL, which only a table has, or the folder of a table."""
        return "://" in str(path) or (Path(path).expanduser() / _VERSIONS).is_dir()

    @staticmethod
    def version_at(path: FilePath) -> Any:
        """Numbers that each change of the table changes."""
        folder = Path(path).expanduser()
        return _opened(path).version if "://" in str(path) else (version_of(folder), version_of(folder / _VERSIONS))

    @staticmethod
    def files_at(folder: Path) -> frozenset[str]:
        """Names of the files of the table in its folder, and of no others."""
        names = (file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
        return frozenset(name for name in names if re.match("_[a-z]+/|data/", name))

    @classmethod
    def read(cls, folder: Path, max_bytes: int = MAX_BYTES) -> Self:
        """The index in a table, at its latest version."""
        dataset, index = _opened(folder), cls.__new__(cls)
        index.__dict__ |= _settings_of(dataset) | {"max_bytes": max_bytes, "_items": _TableItems.of(dataset)}
        return index

    def _state(self):
        return {name: getattr(self, name) for name in (*self.settings, "fingerprint")}

    def _choose(self, method="auto", leaves=None, leaves_to_search=None, rescore=None):
        method = chosen_method(self.methods, method, "exact" if len(self) < 20_000 else "partitioned")
        leaves, leaves_to_search = chosen_leaves(method, leaves, leaves_to_search, len(self))
        self.rescore = optional_whole(rescore, "rescore")
        self.method, self.leaves, self.leaves_to_search = method, leaves, leaves_to_search

    def _write_settings(self, dataset):
        dataset.update_schema_metadata(_as_metadata(self._state()))

    def _make_cells(self, dataset):
        """Make the cells of a table; a search is exact until they are there."""
        if self.leaves:
            options = {"metric": _DISTANCES[self.metric], "num_partitions": self.leaves, "replace": True}
            dataset.create_index(_VECTOR, "IVF_SQ", **options)

    def _effort(self, segment, allowed, k):
        share, num_candidates = 1.0 if allowed is None else allowed.mean(), max(k, self.rescore or k + 10)
        if share * _MANY < 1:
            return num_candidates, len(segment.ids)  # exact
        return min(len(segment.ids), int(num_candidates * (1 if allowed is None else _SPARE / share))), num_candidates

    def _approximate_neighbors(self, segment, allowed, queries, num_requested, num_rescored):
        vectors, rows = segment.gallery, np.zeros((len(queries), num_requested), np.int64)
        nearest = {"q": vectors.take(np.arange(1)).scores(queries).queries, "k": num_requested, "column": _VECTOR}
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


@dataclass(frozen=True, eq=False)
class _TableVectors:
    """The vectors of one version of a table: an array `(n, dim)`, and a `Gallery`, that stay on disk."""

    dataset: Any
    metric: str
    shape: tuple[int, int]

    @property
    def vectors(self) -> "_TableVectors":
        """Itself, as the vectors of a `Gallery`."""
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or np.float32, copy=False)

    def __getitem__(self, rows: Any) -> np.ndarray:
        rows = np.arange(len(self))[rows]
        column = self.dataset.take(rows.reshape(-1).tolist(), columns=[_VECTOR])[_VECTOR].combine_chunks()
        return column.flatten().to_numpy(zero_copy_only=False).reshape(*rows.shape, -1)

    def take(self, rows: np.ndarray) -> Gallery:
        """A gallery of these rows, in memory."""
        if self.metric == "euclidean":
            return Gallery(self[rows], self.metric)
        return Gallery.from_augmented(self[rows], self.metric, None)  # normalized for cosine already

    def blocks(self, allowed: np.ndarray | None, max_bytes: int) -> Iterator[tuple[np.ndarray, Gallery]]:
        """The rows that are allowed, None for all, some at a time, each time with a gallery of their vectors."""
        rows = np.arange(len(self)) if allowed is None else np.flatnonzero(allowed)
        size = max(1, min(_ROWS, max_bytes // (32 * self.shape[1])))
        return ((rows[block], self.take(rows[block])) for block in slices(len(rows), size))


class _TableItems(Items):
    """The items of one version of a table. A change is one commit, and makes the next version."""

    @classmethod
    def of(cls, dataset: Any) -> "_TableItems":
        """Read the ids and the metadata of a table."""
        names = [name for name in dataset.schema.names if name != _VECTOR]
        table = dataset.scanner(columns=names, with_row_id=True, scan_in_order=True).to_table()
        values, settings = table[_ID].to_numpy(), _settings_of(dataset)
        ids = Ids(values.astype("U") if values.dtype.kind == "O" else values)
        metadata = table.drop_columns([_ID, "_rowid"]).replace_schema_metadata(None) if len(names) > 1 else None
        vectors: Any = _TableVectors(dataset, settings["metric"], (len(ids), settings["dim"]))
        searcher = Ids(table["_rowid"].to_numpy()) if settings["leaves"] else None
        return cls((Segment(vectors, ids, metadata, searcher=searcher),))

    @property
    def table(self) -> _TableVectors:
        """The vectors, with the table that they are in."""
        vectors: Any = self.segments[0].gallery
        return vectors

    def add(self, segment: Segment) -> "_TableItems":
        """The items with a new segment at the end."""
        return self._typed(segment.metadata).changed(lambda dataset: dataset.insert(_table_of(segment)))

    def _typed(self, table):
        """The items, whose columns without a value have the types of another table: an item more has no other ones."""
        schema = None if table is None else self.metadata.schema
        fields = [] if table is None else [each for each in table.schema if each.type != schema.field(each.name).type]

        def change(dataset):
            dataset.drop_columns([field.name for field in fields])
            dataset.add_columns(fields)

        return self.changed(change) if fields else self

    def remove(self, ids: np.ndarray) -> "_TableItems":
        """The items without these ids."""
        return self.changed(lambda dataset: dataset.delete(_among(ids)))

    def replace(self, ids: np.ndarray, segment: Segment) -> "_TableItems":
        """The items without these ids and with a segment at the end, in one commit."""
        items = self._typed(segment.metadata)

        def update(dataset):
            new = _lance("lance.fragment").write_fragments(_table_of(segment), dataset)
            rest = {fragment.fragment_id: fragment.delete(_among(ids)) for fragment in dataset.get_fragments()}
            gone, changed = [number for number in rest if not rest[number]], [one for one in rest.values() if one]
            operation = _lance().LanceOperation.Update(gone, changed, new)
            _lance().LanceDataset.commit(dataset, operation, read_version=dataset.version)

        return items.changed(update)

    def changed(self, change: Callable[[Any], Any]) -> "_TableItems":
        """The items after a change of the table; a ValueError if another writer has changed it since it was read."""
        self._require_latest()
        old = self.table.dataset
        dataset = old.checkout_version(old.version)  # searches go on in the old one
        try:
            change(dataset)
        except (OSError, RuntimeError):  # as Lance raises in a conflict
            self._require_latest()
            raise
        return _TableItems.of(dataset.checkout_version(dataset.latest_version))

    def _require_latest(self):
        old, latest = self.table.dataset, self.table.dataset.latest_version
        received = f"an index of version {old.version} of {old.uri!r}, which another writer has changed"
        require(latest == old.version, received, f"version {latest}. Load it, and repeat the change")


def _uri_of(path: FilePath) -> str:
    """A path or a URL as the text by which Lance names a table."""
    return str(path) if "://" in str(path) else os.path.realpath(Path(path).expanduser())


def _opened(path: FilePath) -> Any:
    """The Lance table of an index."""
    try:
        dataset = _lance().dataset(_uri_of(path))
        _settings_of(dataset)
    except (OSError, ValueError, KeyError, TypeError) as error:
        received = f"Received path={str(path)!r}, expected a table that tfdml.search.Lance wrote"
        raise ValueError(f"{received}: {error!r}. Choose another path.") from error
    return dataset


def _settings_of(dataset: Any) -> dict[str, Any]:
    """The settings of an index in the metadata of the schema of its table."""
    return json.loads(dataset.schema.metadata[_SETTINGS.encode()])


def _lance(module="lance"):
    """The package, or a module of it, imported at the first use."""
    return optional_import(module, **_NEEDS)


def _as_metadata(settings):
    return {_SETTINGS: json.dumps(settings)}


def _table_of(segment: Segment, settings: dict[str, Any] | None = None) -> Any:
    """A segment in memory as a `pyarrow.Table`, with the settings of an index for a new table."""
    pyarrow = optional_import("pyarrow", **_NEEDS)
    vectors, metadata = np.ascontiguousarray(segment.gallery.vectors, np.float32), segment.metadata
    columns = {} if metadata is None else {name: metadata[name] for name in metadata.column_names}
    reserved = [name for name in columns if name in _RESERVED or not name or {".", "`", "\0"} & set(name)]
    require(not reserved, f"metadata with columns {reserved}", "other names, which a table can have. Rename them")
    columns[_ID] = pyarrow.array(segment.ids.values)
    columns[_VECTOR] = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    return pyarrow.table(columns, metadata=settings and _as_metadata(settings))


def _among(ids):
    """The SQL text of a filter for these ids."""
    texts = ["'" + text.replace("'", "''") + "'" for text in ids.tolist()] if ids.dtype.kind == "U" else ids.astype(str)
    return f"{_ID} IN ({', '.join(texts)})" if len(texts) else "false"


def _free(path):
    """A path or URL as Lance names it; a FileExistsError for a folder with files."""
    if "://" not in str(path):  # Lance looks at a URL
        require_replaceable(as_writable_path(path), lambda folder: frozenset())
    return _uri_of(path)
