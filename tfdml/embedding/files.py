"""Files of embeddings: a Parquet file, or a folder of `.npy` and `.csv` files."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.atomic import as_writable_path, atomic_write, read_whole, require_replaceable
from tfdml._core.checks import is_labeled_set, names_of_labels, require
from tfdml._core.checksums import FILE_TYPES, SIZE, SUMS, require_checksums, write_checksums
from tfdml._core.stored import map_array, parsed_json, read_json
from tfdml._core.terminal import as_cells, from_cells
from tfdml.embedding.in_memory import Problem
from tfdml.embedding.vectors import with_model
from tfdml.typing import FilePath

_EMBEDDINGS, _EXAMPLES, _SKIPPED = "embeddings.npy", "examples.csv", "skipped.csv"
_MODEL, _FINGERPRINT = "model.json", "fingerprint"
_TYPES = {"row": "int64", "path": "string", "label": "string", "box": "list<element: double>", **FILE_TYPES}

Chunks = Iterable[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Embeddings:
    """Embeddings that `write_embeddings` wrote; `read_embeddings` describes its attributes."""

    embeddings: np.ndarray
    rows: np.ndarray
    paths: np.ndarray | None
    labels: np.ndarray | None
    class_names: tuple[str, ...]
    boxes: np.ndarray | None
    skipped: tuple[Problem, ...]
    fingerprint: str
    files: dict[str, list[Any]]

    def __len__(self) -> int:
        """Number of embeddings."""
        return len(self.rows)


def read_embeddings(path: FilePath) -> Embeddings:
    """Read what `write_embeddings` wrote.

    Example:

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(inputs))
        >>> skipped = tfdml.models.write_embeddings(model, np.array([[3.0, 4.0], [0.0, 2.0]]), "stored")
        >>> stored = tfdml.models.read_embeddings("stored")
        >>> stored.embeddings.round(4), stored.rows
        (array([[0.6, 0.8],
               [0. , 1. ]], dtype=float32), array([0, 1]))

    Returns:
        A record whose length is n, the number of embeddings. Row i of every column is embedding i:

        * `embeddings`: `(n, dim)` float32 that know their model; of a memory map where they are in a folder.
        * `rows`: `(n,)` int64, row numbers in the embedded set.
        * `paths`: `(n,)` str, the files, or the names of a source of the set; None where it has none.
        * `labels`: `(n,)` int64, indices into `class_names`, -1 for an example without a label; None for an array.
        * `class_names`: tuple of str, sorted; empty without labels.
        * `boxes`: `(n, 4)` float64, the embedded boxes; None for whole images.
        * `skipped`: tuple of `(row, name, reason)`: the examples that could not be loaded.
        * `fingerprint`: the `fingerprint` of the model and, if the set had one, of its preprocessing.
        * `files`: lists `_root`, `_size` and `_checksum`, for `tfdml index` to recognize the files; None in them where
            it does not, and empty without paths.

    Raises:
        ValueError: a file of another form, or that has changed: it compares all files of a folder with `SHA256SUMS`, at
        1 to 2 GB per second of a core. In a Parquet file, columns have checksums, and `skipped` has none.
    """
    path = Path(path).expanduser()
    if path.suffix == ".parquet" and path.is_file():
        return _read_parquet(path)
    return read_whole(path, _read_folder)


def as_target(path: FilePath) -> Path:
    """A place where embeddings can be written without loss of other files, else the errors of `write_embeddings`."""
    target = as_writable_path(path)
    if target.suffix == ".parquet":
        require_replaceable(target)
        _require_embeddings(target)
        return target
    is_folder = target.suffix not in (".npy", ".npz", ".csv", ".tsv")
    require(is_folder, f"path={str(path)!r}", "a .parquet file, or a folder for .npy and .csv files")
    require_replaceable(target, listed_files)
    return target


def _require_embeddings(path):
    arrow, parquet = _arrow()
    try:
        schema = parquet.read_schema(path) if path.exists() else None
    except (OSError, arrow.ArrowInvalid):
        schema = arrow.schema([])
    if schema is not None and not _are_embeddings(schema):
        raise FileExistsError(
            f"Received path={str(path)!r}, a file other than embeddings, expected a new name or earlier embeddings. "
            "Choose another path, or move the file."
        )


def _are_embeddings(schema):
    vectors = [field.type for field in schema if field.name == "embedding"]
    others = all(str(field.type) == _TYPES.get(field.name) for field in schema if field.name != "embedding")
    is_matrix = len(vectors) == 1 and hasattr(vectors[0], "list_size") and str(vectors[0].value_type) == "float"
    is_of_model = {b"skipped", _FINGERPRINT.encode()} <= (schema.metadata or {}).keys()
    return is_of_model and "row" in schema.names and others and is_matrix


def listed_files(folder: Path) -> frozenset[str]:
    """Names of the files of embeddings in a folder; empty where its tables are no tables of embeddings."""
    headers = {_EXAMPLES: list(_TYPES), _SKIPPED: ["row", "name", "reason"]}
    is_ours = all(_begins(folder / name, columns) for name, columns in headers.items())
    model = {_MODEL} if _is_of_model(folder / _MODEL) else set()
    return frozenset({_EMBEDDINGS, *headers, *model, SUMS}) if is_ours else frozenset()


def _is_of_model(path):
    try:
        return set(read_json(path)) == {_FINGERPRINT}
    except (OSError, ValueError):
        return False


def _begins(path, columns):
    """Whether the first line of a table names a `row` and only these columns."""
    try:
        with _opened(path, "r") as file:
            names = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return False
    return names[:1] == ["row"] and set(names) <= set(columns)


def write(
    path: Path,
    data: Any,
    chunks: Chunks,
    shape: tuple[int, int],
    skipped: tuple[Problem, ...],
    fingerprint: str,
    files: Mapping[str, list[Any]] | None = None,
    start: int = 0,
) -> None:
    """Write embeddings to a new Parquet file or folder, by chunks of embeddings `(n, dim)` and rows `(n,)`.

    `files` are the columns of `file_columns` for the rows of a set from `start` on.
    """
    columns = partial(_columns, data, files=files or {}, start=start)
    write_to = _write_parquet if path.suffix == ".parquet" else _write_folder
    write_to(path, columns, chunks, shape, skipped, fingerprint)


def metadata_of(stored: Embeddings) -> Any:
    """The metadata of an index of embeddings, a `pyarrow.Table`; None where they have neither paths nor labels.

    These are the path and what is known of the file, the class as `label`, and the box.
    """
    unknown = [None] * len(stored)
    files = {name: stored.files.get(name, unknown) for name in FILE_TYPES}
    columns = {} if stored.paths is None else {"path": stored.paths.tolist(), **files}
    columns |= {} if stored.labels is None else {"label": names_of_labels(stored)}
    columns |= {} if stored.boxes is None else {"box": stored.boxes.tolist()}
    if not columns:
        return None
    arrow, _ = _arrow()
    kinds = _TYPES | {"box": arrow.list_(arrow.float64())}
    return arrow.table({name: arrow.array(values, kinds[name]) for name, values in columns.items()})


def rewrite(path: FilePath, stored: Embeddings) -> None:
    """Write embeddings again in one step, such as with other rows, in the form that their path has."""
    path = Path(path).expanduser()
    with atomic_write(path, None if path.suffix == ".parquet" else listed_files) as new:
        shape = (len(stored), stored.embeddings.shape[1])
        write(new, stored, [(stored.embeddings, stored.rows)], shape, stored.skipped, stored.fingerprint)


def _columns_of_stored(stored, rows):
    """The columns of embeddings that were read, with positions for their rows."""
    positions = np.searchsorted(stored.rows, rows)
    labels = [] if stored.labels is None else stored.labels[positions].tolist()
    names = [None if label < 0 else stored.class_names[label] for label in labels]
    columns = {
        "row": rows.tolist(),
        "path": None if stored.paths is None else stored.paths[positions].tolist(),
        "label": None if stored.labels is None else names,
        "box": None if stored.boxes is None else stored.boxes[positions].tolist(),
        **{name: [values[position] for position in positions] for name, values in stored.files.items()},
    }
    return {name: column for name, column in columns.items() if column is not None}


def _columns(data, rows, files, start):
    """The columns that describe some examples: name -> list."""
    if isinstance(data, Embeddings):
        return _columns_of_stored(data, rows)
    columns = {"row": rows.tolist()}
    if getattr(data, "names", None) is not None:
        columns["path"] = data.names[rows].tolist()
    if is_labeled_set(data):
        columns["label"] = [None if label < 0 else data.class_names[label] for label in data.labels[rows]]
    if getattr(getattr(data, "load", None), "boxes", False):
        columns["box"] = data.boxes[rows].tolist()
    return columns | {name: [values[row - start] for row in rows] for name, values in files.items()}


def _write_folder(folder, columns, chunks, shape, skipped, fingerprint):
    folder.mkdir()
    form = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False, "shape": shape}
    with (folder / _EMBEDDINGS).open("wb") as file, _opened(folder / _EXAMPLES, "w") as text:
        np.lib.format.write_array_header_1_0(file, form)
        lines = csv.writer(text)
        lines.writerow(columns(np.arange(0)))
        for embeddings, rows in chunks:
            file.write(np.ascontiguousarray(embeddings).data)
            lines.writerows(map(as_cells, zip(*columns(rows).values(), strict=True)))
    with _opened(folder / _SKIPPED, "w") as text:
        csv.writer(text).writerows(map(as_cells, [("row", "name", "reason"), *skipped]))
    (folder / _MODEL).write_text(json.dumps({_FINGERPRINT: fingerprint}))
    write_checksums(folder)


def _opened(path, mode):
    return path.open(mode, newline="", encoding="utf-8")


def _read_folder(folder):
    if not (folder / _EMBEDDINGS).is_file():
        raise FileNotFoundError(
            f"Received path={str(folder)!r}, expected embeddings that write_embeddings wrote: a .parquet file, or a "
            f"folder with {_EMBEDDINGS}."
        )
    require_checksums(folder)
    try:
        return _embeddings(*_read_files(folder))
    except (KeyError, OverflowError, TypeError, ValueError, csv.Error) as error:
        received = f"Received path={str(folder)!r} with files that cannot be read ({error})"
        raise ValueError(f"{received}, expected embeddings as they were written. Copy or write them again.") from error


def _read_files(folder):
    """The embeddings of a folder, its columns by name, the lines of skipped examples, and the fingerprint."""
    names, *lines = _read_lines(folder / _EXAMPLES)
    _, *skipped = _read_lines(folder / _SKIPPED)
    columns = dict(zip(names, zip(*lines, strict=True), strict=True))
    return map_array(folder / _EMBEDDINGS), columns, skipped, read_json(folder / _MODEL)[_FINGERPRINT]


def _read_lines(path):
    """The lines of a table, all of them whole, with the written texts."""
    with _opened(path, "r") as file:
        text = file.read()
    require(text.endswith("\n"), f"{path.name} whose last line has no end", "the file as it was written")
    return map(from_cells, csv.reader(io.StringIO(text, newline=""), strict=True))


def _write_parquet(path, columns, chunks, shape, skipped, fingerprint):
    arrow, parquet = _arrow()
    kinds = _TYPES | {"box": arrow.list_(arrow.float64())}
    fields = [(name, kinds[name]) for name in columns(np.arange(0))]
    schema = arrow.schema([*fields, ("embedding", arrow.list_(arrow.float32(), shape[1]))])
    schema = schema.with_metadata({"skipped": json.dumps(skipped), _FINGERPRINT: fingerprint})
    with parquet.ParquetWriter(path, schema, write_page_checksum=True) as file:
        for embeddings, rows in chunks:
            vectors = arrow.FixedSizeListArray.from_arrays(arrow.array(embeddings.reshape(-1)), shape[1])
            typed = [arrow.array(values, kinds[name]) for name, values in columns(rows).items()]
            file.write_table(arrow.table([*typed, vectors], schema=file.schema))


def _read_parquet(path):
    arrow, parquet = _arrow()
    try:
        file = parquet.ParquetFile(path, page_checksum_verification=True)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise ValueError(
            f"Received path={str(path)!r}, which is not a Parquet file: {error}. Write it again."
        ) from error
    names = file.schema_arrow.names
    received = f"path={str(path)!r}, a Parquet file with the columns {', '.join(names)}"
    require(_are_embeddings(file.schema_arrow), received, "a file that write_embeddings wrote")
    try:
        return _embeddings(*_read_columns(file))
    except (arrow.ArrowException, KeyError, OSError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"Received path={str(path)!r}, which is damaged ({error}). Write it again.") from error


def _read_columns(file):
    """The embeddings of a Parquet file, its other columns by name, skipped examples, and the fingerprint."""
    columns = {name: file.read([name])[name].to_pylist() for name in file.schema_arrow.names if name != "embedding"}
    filled = columns.keys() - {"label", *FILE_TYPES}
    require(not any(None in columns[name] for name in filled), "empty cells", "a value in each")
    vectors = [batch["embedding"].flatten().to_numpy() for batch in file.iter_batches(columns=["embedding"])]
    shape = file.metadata.num_rows, file.schema_arrow.field("embedding").type.list_size
    skipped = parsed_json(file.schema_arrow.metadata[b"skipped"], "skipped", list)
    fingerprint = file.schema_arrow.metadata[_FINGERPRINT.encode()].decode()
    return np.concatenate(vectors).reshape(shape), columns, skipped, fingerprint


def _arrow():
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("A Parquet file is written and read by pyarrow: pip install tfdml[tables].") from error
    return pyarrow, parquet


def _embeddings(embeddings, columns, skipped, fingerprint):
    shape = (len(columns["row"]), *embeddings.shape[1:2])
    is_matrix = embeddings.dtype == np.float32 and embeddings.ndim == 2 and embeddings.shape == shape
    require(is_matrix, f"{embeddings.dtype} of shape {embeddings.shape}", f"float32 of shape ({shape[0]}, dim)")
    boxes = [json.loads(box) if isinstance(box, str) else box for box in columns.get("box", ())]
    texts = [text or None for text in columns.get("label", ())]
    names = sorted(set(texts) - {None})
    number_of = {None: -1} | {name: number for number, name in enumerate(names)}
    return Embeddings(
        embeddings=with_model(embeddings, fingerprint),
        rows=np.array(columns["row"], np.int64),
        paths=np.array(columns["path"]) if "path" in columns else None,
        labels=np.array([number_of[text] for text in texts], np.int64) if "label" in columns else None,
        class_names=tuple(names),
        boxes=np.array(boxes, np.float64).reshape(-1, 4) if "box" in columns else None,
        skipped=tuple((int(row), name, reason) for row, name, reason in skipped),
        fingerprint=fingerprint,
        files={name: _known(name, columns[name]) for name in FILE_TYPES if name in columns},
    )


def _known(name, values):
    """Values of a column of the files; in a folder, texts; None for an empty one."""
    return [None if value in (None, "") else int(value) if name == SIZE else value for value in values]
