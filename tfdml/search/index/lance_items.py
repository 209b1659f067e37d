"""The items of an index in a Lance table: ids and metadata in memory, vectors read from disk as they are needed."""

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml.search.blocks import slices
from tfdml.search.index.ids import Ids
from tfdml.search.index.items import Items
from tfdml.search.index.segments import Segment
from tfdml.search.scores import Gallery
from tfdml.typing import FilePath

ID, VECTOR = "id", "embedding"  # columns; the others are metadata
VERSIONS = "_versions"  # a folder of a table
_SETTINGS = "tfdml"  # a key of the metadata of the schema
_ROWS = 2**16  # vectors of a block
_RESERVED = {ID, VECTOR, "_rowid", "_rowaddr", "_rowoffset", "_distance", "query_index"}


@dataclass(frozen=True, eq=False)
class TableVectors:
    """The vectors of one version of a table: an array `(n, dim)`, and a `Gallery`, that stay on disk."""

    dataset: Any
    metric: str
    shape: tuple[int, int]

    @property
    def vectors(self) -> "TableVectors":
        """Itself, as the vectors of a `Gallery`."""
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or np.float32, copy=False)

    def __getitem__(self, rows: Any) -> np.ndarray:
        rows = np.arange(len(self))[rows]
        column = self.dataset.take(rows.reshape(-1).tolist(), columns=[VECTOR])[VECTOR].combine_chunks()
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


class TableItems(Items):
    """The items of one version of a table. A change is one commit, and makes the next version."""

    @classmethod
    def of(cls, dataset: Any) -> "TableItems":
        """Read the ids and the metadata of a table."""
        names = [name for name in dataset.schema.names if name != VECTOR]
        table = dataset.scanner(columns=names, with_row_id=True, scan_in_order=True).to_table()
        values, settings = table[ID].to_numpy(), settings_of(dataset)
        ids = Ids(values.astype("U") if values.dtype.kind == "O" else values)
        metadata = table.drop_columns([ID, "_rowid"]).replace_schema_metadata(None) if len(names) > 1 else None
        vectors: Any = TableVectors(dataset, settings["metric"], (len(ids), settings["dim"]))
        searcher = Ids(table["_rowid"].to_numpy()) if settings["leaves"] else None
        return cls((Segment(vectors, ids, metadata, searcher=searcher),))

    @property
    def table(self) -> TableVectors:
        """The vectors, with the table that they are in."""
        vectors: Any = self.segments[0].gallery
        return vectors

    def add(self, segment: Segment) -> "TableItems":
        """The items with a new segment at the end."""
        return self._typed(segment.metadata).changed(lambda dataset: dataset.insert(table_of(segment)))

    def _typed(self, table):
        """The items, whose columns without a value have the types of another table: an item more has no other ones."""
        schema = None if table is None else self.metadata.schema
        fields = (
            [] if table is None else [field for field in table.schema if field.type != schema.field(field.name).type]
        )

        def change(dataset):
            dataset.drop_columns([field.name for field in fields])
            dataset.add_columns(fields)

        return self.changed(change) if fields else self

    def remove(self, ids: np.ndarray) -> "TableItems":
        """The items without these ids."""
        return self.changed(lambda dataset: dataset.delete(_among(ids)))

    def replace(self, ids: np.ndarray, segment: Segment) -> "TableItems":
        """The items without these ids and with a segment at the end, in one commit."""

        items = self._typed(segment.metadata)

        def update(dataset):
            new = optional_import("lance.fragment", **_NEEDS).write_fragments(table_of(segment), dataset)
            rest = {fragment.fragment_id: fragment.delete(_among(ids)) for fragment in dataset.get_fragments()}
            gone, changed = [number for number in rest if not rest[number]], [one for one in rest.values() if one]
            operation = lance().LanceOperation.Update(gone, changed, new)
            lance().LanceDataset.commit(dataset, operation, read_version=dataset.version)

        return items.changed(update)

    def changed(self, change: Callable[[Any], Any]) -> "TableItems":
        """The items after a change of the table; a ValueError if another writer has changed it since it was read."""
        self._require_latest()
        old = self.table.dataset
        dataset = old.checkout_version(old.version)  # searches go on in the old one
        try:
            change(dataset)
        except (OSError, RuntimeError):  # as Lance raises in a conflict
            self._require_latest()
            raise
        return TableItems.of(dataset.checkout_version(dataset.latest_version))

    def _require_latest(self):
        old, latest = self.table.dataset, self.table.dataset.latest_version
        received = f"an index of version {old.version} of {old.uri!r}, which another writer has changed"
        require(latest == old.version, received, f"version {latest}. Load it, and repeat the change")

    def with_settings(self, settings: dict[str, Any]) -> "TableItems":
        """The items with these settings in their table."""
        return self.changed(lambda dataset: dataset.update_schema_metadata({_SETTINGS: json.dumps(settings)}))


def is_lance_table(path: FilePath) -> bool:
    """Whether a path is a URL, which only a table has, or the folder of a table."""
    return "://" in str(path) or (Path(path).expanduser() / VERSIONS).is_dir()


def files_of_table(folder: Path) -> frozenset[str]:
    """Names of the files of a table in its folder, and of no others."""
    names = (file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    return frozenset(name for name in names if re.match("_[a-z]+/|data/", name))


def uri_of(path: FilePath) -> str:
    """A path or a URL as the text by which Lance names a table."""
    return str(path) if "://" in str(path) else os.path.realpath(Path(path).expanduser())


def open_table(path: FilePath) -> Any:
    """The Lance table of an index."""
    try:
        dataset = lance().dataset(uri_of(path))
        settings_of(dataset)
    except (OSError, ValueError, KeyError, TypeError) as error:
        received = f"Received path={str(path)!r}, expected a table that tfdml.search.Lance wrote"
        raise ValueError(f"{received}: {error!r}. Choose another path.") from error
    return dataset


def replaced(dataset: Any, old: Any, settings: dict[str, Any]) -> Any:
    """The next version of a table `old`: all rows of another one; None if `old` is not its latest version."""
    rows, overwrite = dataset.scanner(scan_in_order=True).to_reader(), {"mode": "overwrite"}
    schema = rows.schema.with_metadata({_SETTINGS: json.dumps(settings)})
    fragments = optional_import("lance.fragment", **_NEEDS).write_fragments(rows, old.uri, **overwrite)
    operation = lance().LanceOperation.Overwrite(schema, fragments)
    try:
        return lance().LanceDataset.commit(old.uri, operation, read_version=old.version, max_retries=0)
    except optional_import("lance.commit", **_NEEDS).CommitConflictError:
        for file in (file for fragment in fragments for file in fragment.files):
            (Path(old.uri) / "data" / file.path).unlink()
        return None


def settings_of(dataset: Any) -> dict[str, Any]:
    """The settings of an index in the metadata of the schema of its table."""
    return json.loads(dataset.schema.metadata[_SETTINGS.encode()])


_NEEDS = {"feature": "tfdml.search.Lance", "extra": "lance"}


def lance() -> Any:
    """The package, imported at the first use."""
    return optional_import("lance", **_NEEDS)


def table_of(segment: Segment, settings: dict[str, Any] | None = None) -> Any:
    """A segment in memory as a `pyarrow.Table`, with the settings of an index for a new table."""
    pyarrow = optional_import("pyarrow", **_NEEDS)
    vectors, metadata = np.ascontiguousarray(segment.gallery.vectors, np.float32), segment.metadata
    columns = {} if metadata is None else {name: metadata[name] for name in metadata.column_names}
    reserved = [name for name in columns if name in _RESERVED or not name or {".", "`", "\0"} & set(name)]
    require(not reserved, f"metadata with columns {reserved}", "other names, which a table can have. Rename them")
    columns[ID] = pyarrow.array(segment.ids.values)
    columns[VECTOR] = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    return pyarrow.table(columns, metadata=settings and {_SETTINGS: json.dumps(settings)})


def _among(ids):
    """The SQL text of a filter for these ids."""
    texts = ["'" + text.replace("'", "''") + "'" for text in ids.tolist()] if ids.dtype.kind == "U" else ids.astype(str)
    return f"{ID} IN ({', '.join(texts)})" if len(texts) else "false"
