"""The items of an index in a Lance table: ids and metadata in memory, vectors read from disk as they are needed."""

import json
import os
import shutil
import tempfile
import weakref
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
_OF_LANCE = ("_rowid", "_rowaddr", "_distance", "query_index")
_SETTINGS = b"tfdml"  # a key of the metadata of the schema
VERSIONS = "_versions"  # a folder of a table
_ROWS = 2**16  # vectors of a block
_FEW = 8  # An eighth of the rows is read by their numbers faster than all are read in order.


class TemporaryFolder:
    """A folder that is removed together with the last object that holds this one."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="tfdml-lance-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class TableVectors:
    """The vectors of one version of a Lance table, `(n, dim)`, as an array or a `Gallery` that stays on disk.

    `home` is the `TemporaryFolder` of the table, None for a table that stays.
    """

    dataset: Any
    metric: str
    count: int
    home: Any = None

    def __len__(self) -> int:
        return self.count

    @property
    def shape(self) -> tuple[int, int]:
        """Number of vectors, and their dim."""
        return self.count, self.dataset.schema.field(VECTOR).type.list_size

    @property
    def vectors(self) -> "TableVectors":
        """Itself, as the vectors of a `Gallery`."""
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.concatenate([vectors for _, vectors in self._read(_ROWS)]).astype(dtype or np.float32, copy=False)

    def __getitem__(self, rows: Any) -> np.ndarray:
        picked = np.arange(self.count)[rows]
        column = self.dataset.take(np.atleast_1d(picked).tolist(), columns=[VECTOR])[VECTOR]
        return _matrix(column.combine_chunks(), self.shape[1]).reshape(*picked.shape, -1)

    def take(self, rows: np.ndarray) -> Gallery:
        """A gallery of these rows, in memory."""
        return self._gallery(self[rows])

    def blocks(self, allowed: np.ndarray | None, max_bytes: int) -> Iterator[tuple[np.ndarray, Gallery]]:
        """The rows that are allowed, None for all, in order, some at a time, each with a gallery of their vectors."""
        size = max(1, min(_ROWS, max_bytes // (32 * self.shape[1])))
        if allowed is not None and allowed.sum() * _FEW <= self.count:
            few = np.flatnonzero(allowed)
            yield from ((few[part], self.take(few[part])) for part in slices(len(few), size))
            return
        for start, vectors in self._read(size):
            kept = slice(None) if allowed is None else allowed[start : start + len(vectors)]
            rows = np.arange(start, start + len(vectors))[kept]
            if len(rows):
                yield rows, self._gallery(vectors[kept])

    def _read(self, size):
        """All vectors, at most `size` at a time, each with the number of its first row."""
        start = 0
        for batch in self.dataset.scanner(columns=[VECTOR], batch_size=size, scan_in_order=True).to_batches():
            yield start, _matrix(batch[VECTOR], self.shape[1])
            start += len(batch)

    def _gallery(self, vectors):
        """The table has normalized vectors for cosine: they are not normalized again."""
        if self.metric == "euclidean":
            return Gallery(vectors, self.metric)
        return Gallery.from_augmented(vectors, self.metric, None)


class TableItems(Items):
    """The items of one version of a Lance table. A change is one commit, and makes the next version."""

    @classmethod
    def write(
        cls, uri: str, blocks: Iterator[Segment], settings: dict[str, Any], mode: str, home: Any = None
    ) -> "TableItems":
        """Write segments to a new table, or, with the mode "overwrite", as the next version of one."""
        first = next(blocks)
        schema = _table(first).schema.with_metadata({_SETTINGS: json.dumps(settings)})
        batches = (batch for block in (first, *blocks) for batch in _table(block).to_batches())
        reader = optional_import("pyarrow", feature="tfdml.search.Lance", extra="lance").RecordBatchReader
        new = reader.from_batches(schema, batches)
        return cls.of(lance().write_dataset(new, uri, mode=mode), home)

    @classmethod
    def of(cls, dataset: Any, home: Any = None) -> "TableItems":
        """Read the ids and the metadata of a table."""
        names = [name for name in dataset.schema.names if name != VECTOR]
        table = dataset.scanner(columns=names, with_row_id=True, scan_in_order=True).to_table()
        table = table.replace_schema_metadata(None)
        values = table[ID].to_numpy()
        ids = Ids(values.astype("U") if values.dtype.kind == "O" else values)
        metadata = table.drop_columns([ID, "_rowid"]) if len(names) > 1 else None
        settings = settings_of(dataset)
        vectors: Any = TableVectors(dataset, settings["metric"], len(ids), home)
        searcher = Ids(table["_rowid"].to_numpy()) if settings["leaves"] else None
        return cls((Segment(vectors, ids, metadata, searcher=searcher),))

    @property
    def table(self) -> TableVectors:
        """The vectors, with the table that they are in."""
        gallery: Any = self.segments[0].gallery
        return gallery

    def blocks(self) -> Iterator[Segment]:
        """All items as segments in memory."""
        for rows, _ in self.table.blocks(None, 2**29):
            yield self.segments[0].take(rows)

    def add(self, segment: Segment) -> "TableItems":
        """The items with a new segment at the end."""
        return self.changed(lambda dataset: dataset.insert(_table(segment)))

    def remove(self, ids: np.ndarray) -> "TableItems":
        """The items without these ids."""
        return self.changed(lambda dataset: dataset.delete(_among(ids)))

    def replace(self, ids: np.ndarray, segment: Segment) -> "TableItems":
        """The items without these ids and with a segment at the end, in one commit."""

        def update(dataset):
            from lance.fragment import write_fragments

            new = write_fragments(_table(segment), dataset)
            rest = {fragment.fragment_id: fragment.delete(_among(ids)) for fragment in dataset.get_fragments()}
            change = lance().LanceOperation.Update(
                removed_fragment_ids=[number for number, fragment in rest.items() if fragment is None],
                updated_fragments=[fragment for fragment in rest.values() if fragment is not None],
                new_fragments=new,
            )
            return lance().LanceDataset.commit(dataset, change, read_version=dataset.version)

        return self.changed(update)

    def changed(self, change: Callable[[Any], Any]) -> "TableItems":
        """The items after a change of the table; a ValueError if another writer has changed it since it was read."""
        old, dataset = self.table.dataset, lance().dataset(self.table.dataset.uri)
        is_same = dataset.version == old.version and dataset.schema.equals(old.schema, check_metadata=True)
        received = f"an index of version {old.version} of {old.uri!r}, which another writer has changed since"
        require(is_same, received, "the latest version. Load it again, and repeat the change")
        change(dataset)
        return TableItems.of(lance().dataset(old.uri), self.table.home)


def is_lance_table(path: FilePath) -> bool:
    """Whether a path is a URL, which only a table has, or the folder of a table."""
    return "://" in str(path) or (Path(path).expanduser() / VERSIONS).is_dir()


def uri_of(path: FilePath) -> str:
    """A path or a URL as the text that a table is known by."""
    return str(path) if "://" in str(path) else os.path.realpath(Path(path).expanduser())


def open_table(path: FilePath) -> Any:
    """The Lance table of an index at a path or a URL."""
    try:
        dataset = lance().dataset(uri_of(path))
        settings_of(dataset)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"Received path={str(path)!r}, expected a Lance table that tfdml.search.Lance wrote ({error})."
        ) from error
    return dataset


def settings_of(dataset: Any) -> dict[str, Any]:
    """The settings of an index in the metadata of the schema of its table."""
    return json.loads(dataset.schema.metadata[_SETTINGS])


def with_settings(settings: dict[str, Any]) -> Callable[[Any], Any]:
    """A change of a table to other settings, for `TableItems.changed`."""
    return lambda dataset: dataset.update_schema_metadata({_SETTINGS.decode(): json.dumps(settings)})


def require_columns(metadata: Any) -> None:
    """Raise a ValueError for metadata with a name that a table needs."""
    names = {ID, VECTOR, *_OF_LANCE} & set([] if metadata is None else metadata.column_names)
    require(not names, f"metadata with columns {sorted(names)}", "other names, since the table has these. Rename them")


def lance() -> Any:
    """The package, imported at the first use."""
    return optional_import("lance", feature="tfdml.search.Lance", extra="lance")


def _table(segment):
    """A segment in memory as rows of the table."""
    import pyarrow

    metadata, vectors = segment.metadata, np.ascontiguousarray(segment.gallery.vectors, np.float32)
    columns = {
        ID: pyarrow.array(segment.ids.values),
        VECTOR: pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1]),
    }
    return pyarrow.table(
        columns | {name: metadata[name] for name in ([] if metadata is None else metadata.column_names)}
    )


def _matrix(column, dim):
    """A column of vectors as `(n, dim)` float32."""
    return column.flatten().to_numpy(zero_copy_only=False).reshape(-1, dim)


def _among(ids):
    """The SQL text of a filter for these ids."""
    quoted = ("'" + text.replace("'", "''") + "'" for text in ids.tolist()) if ids.dtype.kind == "U" else ids.tolist()
    return f"{ID} IN ({', '.join(map(str, quoted))})"
