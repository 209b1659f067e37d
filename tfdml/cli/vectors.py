"""The files of `tfdml compare`: vectors in the forms that people have, and tables of labels and scores."""

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml.cli.names import DELIMITERS, split_member
from tfdml.cli.printing import as_usage_error
from tfdml.embedding.files import read_embeddings

_INDEXES = (".faiss", ".index")


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
        return np.load(path, mmap_mode="r")
    if suffix == ".npz":
        return _read_member(path, key)
    if suffix == ".parquet":
        return _read_column(path, key or column)
    require(suffix in _INDEXES, f"a file that ends in {suffix!r}", f"{', '.join(_FORMS)} or what tfdml embed wrote")
    return _read_index(path)


_FORMS = (".npy", ".npz", ".parquet", *_INDEXES)


def _read_member(path, key):
    with np.load(path) as arrays:
        names = arrays.files
        received = f"{len(names)} arrays: {', '.join(names)}"
        require(
            key in names if key else len(names) == 1, received, "one, or its name behind the file, such as x.npz::a"
        )
        return arrays[key or names[0]]


def _read_column(path, column):
    """A Parquet column of lists of one length as a matrix."""
    parquet = optional_import("pyarrow.parquet", feature=".parquet", extra="tables")
    names = parquet.read_schema(path).names
    require(column in names, f"no column {column!r}", f"one of {', '.join(names)}: --embedding-column")
    lists = parquet.read_table(path, columns=[column])[column].combine_chunks()
    require(lists.null_count == 0, f"{lists.null_count} rows without a vector", "one in each row")
    numbers = lists.flatten().to_numpy(zero_copy_only=False)
    require(len(lists) > 0 and len(numbers) % len(lists) == 0, "vectors of different lengths", "one length")
    return numbers.reshape(len(lists), -1)


def _read_index(path):
    """The vectors of a faiss index in the order of their ids; those of a compressed index are approximate."""
    faiss = optional_import("faiss", feature="an index of faiss", extra="faiss")
    index = faiss.read_index(str(path))
    if hasattr(index, "make_direct_map"):
        index.make_direct_map()
    return index.reconstruct_n(0, index.ntotal)


def read_table(path: str, columns: Mapping[str, str], optional: Sequence[str] | None = ()) -> dict[str, np.ndarray]:
    """Columns of a .csv, .tsv or .parquet table as texts; `columns` are their names and the options that name them.

    Columns of `optional` are read where the table has them; None reads all.
    """
    table = _read_parquet(path) if path.endswith(".parquet") else _read_text(path)
    missing = ", ".join(f"{column!r} ({option})" for column, option in columns.items() if column not in table)
    require(not missing, f"a table without {missing}", f"some of {', '.join(table)}")
    others = table if optional is None else optional
    read = dict.fromkeys([*columns, *(column for column in others if column in table)])
    return {column: np.array([str(value) for value in table[column]]) for column in read}


def read_labels(
    options: argparse.Namespace, argument: str, by: Sequence[str]
) -> tuple[np.ndarray, list[str] | None, dict[str, np.ndarray]]:
    """Labels, image files if `--path-column` names them, and the columns `by` of a table that an option names."""
    path = getattr(options, argument)
    columns = dict.fromkeys(by, "--by") | {options.label_column: "--label-column"}
    columns |= {} if options.path_column is None else {options.path_column: "--path-column"}
    with as_usage_error(f"--{argument.replace('_', '-')} {path}"):
        table = read_table(path, columns)
    files = None if options.path_column is None else _beside(path, table[options.path_column])
    labels = table[options.label_column]
    are_whole = all(text.isdecimal() and text == str(int(text)) for text in labels)
    return labels.astype(np.int64) if are_whole else labels, files, {name: table[name] for name in by}


def _beside(table, paths):
    """Paths relative to the folder of a table, where they are there, else as they are."""
    folder = Path(table).parent
    return [str(folder / path) if (folder / path).is_file() else str(path) for path in paths]


def _read_text(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, delimiter=DELIMITERS.get(Path(path).suffix, ","), strict=True)
        columns: dict[str, list[Any]] = {name: [] for name in rows.fieldnames or ()}
        for row in rows:
            require(None not in row and None not in row.values(), f"line {rows.line_num} of another length", "a table")
            for name, values in columns.items():
                values.append(row[name])
    return columns


def _read_parquet(path):
    parquet = optional_import("pyarrow.parquet", feature=".parquet", extra="tables")
    return parquet.read_table(path).to_pydict()
