"""The files of `tfdml compare`: vectors in the forms that people have, and tables of labels and scores."""

import argparse
import csv
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml._core.stored import map_array
from tfdml.cli.arguments import DELIMITERS, split_member
from tfdml.cli.printing import as_usage_error, say
from tfdml.embedding.files import read_embeddings

_INDEXES = (".faiss", ".index")
_MOST_UNPACKED = 100  # bytes in memory for each one of a file: zeros take less, vectors and tables of scores do not
_SMALL = 2**26  # bytes that any file may take in memory
_ROW = 64  # bytes of a row of a table in memory, at least
_DIGITS = 18  # of the labels that are numbers; longer ones may exceed int64, and stay texts


class Files(Mapping):
    """Vectors by the name of the model: a file is read at each access, so that one model at a time is in memory."""

    def __init__(self, files: Mapping[str, str], column: str):
        self._files, self._column = files, column

    def __getitem__(self, name: str) -> np.ndarray:
        """The vectors of a file `(n, dim)`."""
        try:
            return _read_vectors(self._files[name], self._column)
        except Exception as error:  # of any library that reads files
            raise ValueError(f"{name}, {self._files[name]}: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _read_vectors(word, column):
    """The vectors of `.npy`, `.npz` with `::key`, `.parquet`, a faiss index, or what `tfdml embed` wrote."""
    path, key = split_member(word)
    suffix = path.suffix.lower()
    if path.is_dir():
        return read_embeddings(path).embeddings
    if suffix == ".npy":
        return map_array(path)
    if suffix == ".npz":
        return _read_member(path, key)
    if suffix == ".parquet":
        return _read_column(path, key or column)
    require(suffix in _INDEXES, f"a file that ends in {suffix!r}", f"{', '.join(_FORMS)} or what tfdml embed wrote")
    return _read_index(path)


_FORMS = (".npy", ".npz", ".parquet", *_INDEXES)


def _read_member(path, key):
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        received = f"{len(names)} arrays: {', '.join(names)}"
        require(
            key in names if key else len(names) == 1, received, "one, or its name behind the file, such as x.npz::a"
        )
        _require_size(path, "an array", archive.infolist()[names.index(key or names[0])].file_size)
    with np.load(path, allow_pickle=False) as arrays:
        return arrays[key or names[0]]


def _read_column(path, column):
    """A Parquet column of lists of one length as a matrix."""
    parquet = _parquet()
    schema, metadata = parquet.read_schema(path), parquet.read_metadata(path)
    require(column in schema.names, f"no column {column!r}", f"one of {', '.join(schema.names)}: --embedding-column")
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [chunk for group in groups for chunk in map(group.column, range(group.num_columns))]
    numbers = sum(chunk.num_values for chunk in chunks if chunk.path_in_schema.split(".")[0] == column)
    _require_size(path, "vectors", numbers * np.dtype(np.float32).itemsize)
    lists = parquet.read_table(path, columns=[column])[column].combine_chunks()
    require(lists.null_count == 0, f"{lists.null_count} rows without a vector", "one in each row")
    numbers = lists.flatten().to_numpy(zero_copy_only=False)
    require(len(lists) > 0 and len(numbers) % len(lists) == 0, "vectors of different lengths", "one length")
    return numbers.reshape(len(lists), -1)


def _require_size(path, what, size):
    """Raise a ValueError for more bytes than a file of this length can mean."""
    length = path.stat().st_size
    received = f"{what} of {size:,} bytes in memory in a file of {length:,}"
    require(size <= max(_MOST_UNPACKED * length, _SMALL), received, f"at most {_MOST_UNPACKED} times as much")


def _read_index(path):
    """The vectors of a faiss index in the order of their ids; a compressed index has approximate ones."""
    faiss = optional_import("faiss", feature="an index of faiss", extra="faiss")
    index = faiss.read_index(str(path))
    if hasattr(index, "make_direct_map"):
        index.make_direct_map()
    return index.reconstruct_n(0, index.ntotal)


def read_table(
    path: str,
    columns: Mapping[str, str],
    optional: Sequence[str] = (),
    *,
    count: int | None = None,
    is_log: bool = False,
) -> dict[str, list[Any]]:
    """Columns of a .csv, .tsv or .parquet table; `columns` are their names and the options that name them.

    Columns of `optional` are read where the table has them. A Parquet file is read if it has `count` rows, None for any
    number. A log is read whole. If its last line was cut, it is left out, and a line on stderr says so.
    """
    suffix = Path(path).suffix
    expected = "a table. numpy.savetxt('labels.csv', labels, '%s', header='label', comments='') makes one"
    require(suffix not in (".npy", ".npz"), "an array", expected)
    names, read = _open_parquet(path, count) if suffix == ".parquet" else _open_text(path, is_log)
    missing = ", ".join(f"{column!r} ({option})" for column, option in columns.items() if column not in names)
    separator = DELIMITERS.get(suffix, ",")
    form = "" if suffix == ".parquet" else f". Its first line names the columns, with {separator!r} between them"
    require(not missing, f"a table without {missing}", f"some of {', '.join(names)}{form}")
    others = names if is_log else [column for column in optional if column in names]
    return read(list(dict.fromkeys([*columns, *others])))


def read_labels(
    options: argparse.Namespace, argument: str, by: Sequence[str], vectors: Files
) -> tuple[np.ndarray, list[str] | None, dict[str, list[Any]]]:
    """Labels, image files if `--path-column` names them, and the columns `by` of a table that an option names."""
    path = getattr(options, argument)
    columns = dict.fromkeys(by, "--by") | {options.label_column: "--label-column"}
    columns |= {} if options.path_column is None else {options.path_column: "--path-column"}
    count = len(next(iter(vectors.values()))) if path.endswith(".parquet") else None
    with as_usage_error(f"--{argument.replace('_', '-')} {path}"):
        table = read_table(path, columns, count=count)
        blank = [row for row, label in enumerate(table[options.label_column]) if label in (None, "")]
        require(not blank, f"{len(blank):,} rows without a label, such as row {min(blank, default=0)}", "one in each")
    files = None if options.path_column is None else _beside(path, table[options.path_column])
    labels = np.array([str(label) for label in table[options.label_column]])
    are_whole = all(text.isdecimal() and len(text) <= _DIGITS and text == str(int(text)) for text in labels.tolist())
    return labels.astype(np.int64) if are_whole else labels, files, {name: table[name] for name in by}


def _beside(table, paths):
    """Paths relative to the folder of a table where such files exist; other paths do not change."""
    folder = Path(table).parent
    return [str(folder / path) if (folder / path).is_file() else str(path) for path in paths]


def _open_text(path, is_log):
    """The names of the columns of a text, and a function that returns some of them."""
    try:
        names, rows = _rows_of_text(path, is_log)
    except UnicodeDecodeError as error:
        raise ValueError("Received a file that is no text in UTF-8, expected one. Save it as UTF-8.") from error
    require(len(set(names)) == len(names), f"columns {', '.join(names)}", "each name once")
    return names, lambda chosen: {name: [row[names.index(name)] for row in rows] for name in chosen}


def _rows_of_text(path, is_log):
    """The names of the columns, and the rows below; a last line of a log that was cut is left out, and said."""
    lines: list[list[str]] = []
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=DELIMITERS.get(Path(path).suffix, ","), strict=True)
        names, problem = [], ""
        try:
            for row in filter(None, rows):
                names = names or row
                problem = "" if len(row) == len(names) else f"{len(row)} values"
                if problem:
                    break
                lines.append(row)
        except csv.Error as error:
            problem = str(error)
        is_last = next(file, None) is None
    if problem:
        advice = ". A full disk or a killed process leaves such a line: remove it" if is_log else ""
        expected = f"{len(names)}: {', '.join(names)}{advice}"
        require(is_log and is_last and not _ends_in_a_line(path), f"line {rows.line_num} with {problem}", expected)
        say(f"{path}: line {rows.line_num}, the last one, was cut and is left out")
    return names, lines[1:]


def _ends_in_a_line(path):
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _open_parquet(path, count):
    """The names of the columns of a Parquet file of so many rows, and a function that reads some of them."""
    parquet = _parquet()
    schema, rows = parquet.read_schema(path), parquet.read_metadata(path).num_rows
    require(count in (None, rows), f"{rows:,} rows", f"{count or 0:,}, one for each vector")
    if count is None:
        _require_size(Path(path), "a table", _ROW * rows)

    def read(names):
        lists = [name for name in names if schema.field(name).type.num_fields]
        require(not lists, f"lists in {', '.join(lists)}", "texts and numbers")
        table = parquet.read_table(path, columns=names)
        return {name: table[name].to_pylist() for name in names}

    return schema.names, read


def _parquet():
    return optional_import("pyarrow.parquet", feature=".parquet", extra="tables")
