"""Image files listed in a table: CSV, Parquet, or a data frame."""

import collections
import csv
import functools
import math
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np

from tfdml._core.checks import require
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.preprocessing import Preprocessing
from tfdml.datasets.readers.text import is_utf8, printable, read_utf8
from tfdml.datasets.splits import as_split_names, with_shared_names

Loader = Callable[..., Any]
Table = str | os.PathLike | Mapping[str, Any] | Any

_MISSING = ("None", "nan", "NaT", "<NA>")  # how NumPy and pandas print values that are missing
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


@overload
def table(
    source: Table,
    *,
    root: str | os.PathLike | None = None,
    path: str = "path",
    label: str = "label",
    split: str = "split",
    splits: None = None,
    group: str | None = None,
    box: Sequence[str] | None = None,
    load: Loader | None = None,
    on_error: Literal["error", "skip"] = "error",
) -> LabeledSet: ...
@overload
def table(
    source: Table,
    *,
    root: str | os.PathLike | None = None,
    path: str = "path",
    label: str = "label",
    split: str = "split",
    splits: Sequence[str],
    group: str | None = None,
    box: Sequence[str] | None = None,
    load: Loader | None = None,
    on_error: Literal["error", "skip"] = "error",
) -> tuple[LabeledSet, ...]: ...
def table(
    source: Table,
    *,
    root: str | os.PathLike | None = None,
    path: str = "path",
    label: str = "label",
    split: str = "split",
    splits: Sequence[str] | None = None,
    group: str | None = None,
    box: Sequence[str] | None = None,
    load: Loader | None = None,
    on_error: Literal["error", "skip"] = "error",
) -> LabeledSet | tuple[LabeledSet, ...]:
    """Image files from the rows of a table.

        photos = table("photos.csv")                                         # columns path and label
        train, query, gallery = table("photos.parquet", splits=("train", "query", "gallery"), group="camera")

    Labels are text or whole numbers; `class_names` are sorted, by value if all are whole numbers. Cells of a CSV file
    are text, so that the label 007 is not the label 7.

    Splits with a class in common have the same labels and `class_names`, those of all their classes, as query and
    gallery need it. A split that has no class in common with another has its own.

    Args:
        source: path of a .csv or .tsv file with a line of column names (UTF-8), or of a .parquet file; or a data frame
            of pandas or polars, or a dict of columns.
        root: folder that the paths are relative to; by default the folder of the file, or the current one for a frame.
        path, label: column names.
        split: column name; used with `splits`.
        splits: values of the column `split`, in the order of the result. Rows with other values are in `skipped` of
            every part.
        group: column name of the camera, the sequence or another group, text or whole numbers; None for no groups.
        box: four column names of the left, upper, right and lower border of the object, in pixels of the upright image;
            None for no boxes.
        load: function from a path to an example; `Preprocessing(size=224)` by default.
        on_error: what to do with rows without a path, label, split, group or box, with text that is not UTF-8, with a
            path outside `root`, with a link on the path that leads out of `root`, and with a path that is not a file:
            raise an error that counts them by reason ("error"), or list them in `skipped` with the reason ("skip").

    Returns:
        `LabeledSet` of paths, in the order of the table, or with `splits` a tuple of them.

    Raises:
        ImportError: a Parquet file without pyarrow: `pip install tfdml[tables]`.
        ValueError: a source or a file of another kind, a missing column, columns of different lengths, a line with more
            cells than columns, an open quote or a cell above 131,072 characters (the error names the line), a text file
            that is not UTF-8, a damaged Parquet file, a split without rows, no row that can be used, and the rows that
            `on_error` is about.
    """
    require(on_error in ("error", "skip"), f"on_error={on_error!r}", "'error' or 'skip'")
    require(box is None or len(box) == 4, f"box={box!r}", "four column names: left, upper, right, lower")
    wanted = {"path": path, "label": label, "group": group, "split": None if splits is None else split}
    columns = _columns(source, {option: name for option, name in wanted.items() if name is not None}, box)
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    names = None if splits is None else as_split_names(splits)
    elsewhere = {} if names is None else _in_other_splits(rows, names)
    base = _root(source, root)
    real_path = functools.cache(os.path.realpath)  # The rows have few folders.
    reasons = {i: _problem(row, base, real_path) for i, row in enumerate(rows) if i not in elsewhere}
    problems = {i: reason for i, reason in reasons.items() if reason}
    _require_usable(rows, problems, elsewhere, on_error)
    skipped = sorted((elsewhere | problems).items())
    kept = [row for i, row in enumerate(rows) if i not in problems and i not in elsewhere]
    whole = _set_of(kept, base, load, tuple((_name_of(i, rows[i]), reason) for i, reason in skipped))
    return whole if names is None else _parts(whole, kept, names, _values(rows, "split"))


def _set_of(rows, root, load, skipped):
    """The set of rows that can all be used."""
    labels = [_text(row["label"], "label") for row in rows]
    names = sorted(set(labels), key=_order(labels))
    number_of = {name: number for number, name in enumerate(names)}
    return LabeledSet(
        paths=np.array([_file(root, row) for row in rows]),
        labels=np.array([number_of[label] for label in labels], np.int64),
        class_names=tuple(names),
        boxes=np.array([row["box"] for row in rows], np.float64) if "box" in rows[0] else None,
        groups=_ids([row["group"] for row in rows]) if "group" in rows[0] else None,
        load=load or Preprocessing(size=224),
        skipped=skipped,
    )


def _parts(whole, rows, splits, found):
    """The sets of the splits; `found` are all values of their column."""
    split_of = np.array([_text(row["split"], "split") for row in rows])
    empty = [name for name in splits if name not in split_of]
    received = f"splits={splits!r} and no row of {', '.join(empty)} that can be used"
    require(not empty, received, f"values of the column, which has {', '.join(sorted(set(found.values())))}")
    parts = [whole.take(split_of == name) for name in splits]
    parts = [part.select_classes(np.unique(part.labels)) for part in parts]
    return with_shared_names(parts, key=_order(whole.class_names))


def _order(names):
    """The key by which names are sorted: their values if all are whole numbers."""
    return int if all(name.isdecimal() for name in names) else None


def _ids(groups):
    """Groups as int64: whole numbers as they are, others numbered in the order of their text."""
    texts = [_text(group, "group") for group in groups]
    if all(text.isdecimal() for text in texts):
        return np.array([int(text) for text in texts], np.int64)
    return np.unique(texts, return_inverse=True)[1]


def _in_other_splits(rows, splits):
    """The rows of splits that are not asked for, each with this reason."""
    return {i: f"split {name!r}" for i, name in _values(rows, "split").items() if name not in splits}


def _values(rows, option):
    """Row number -> text of a cell that is not empty."""
    return {i: _text(row[option], option) for i, row in enumerate(rows) if not _is_missing(row[option])}


def _problem(row, root, real_path):
    """The reason why a row cannot be used; empty if it can. `real_path` follows the links of a folder."""
    for option in ("path", "label", "split", "group"):
        if option in row and _is_missing(row[option]):
            return f"no {option}"
        if option in row and not is_utf8(str(row[option])):
            return f"a {option} that is not UTF-8"
    if "box" in row and not _is_box(row["box"]):
        return "no box"
    return _file_problem(_file(root, row), root, real_path)


def _file_problem(file, root, real_path):
    """The reason why a file cannot be used; empty if it can."""
    if not _is_below(os.path.abspath(file), os.path.abspath(root)):
        return "outside root"
    if not os.path.isfile(file):
        return "not a file"
    folder, name = os.path.split(file)
    real = os.path.realpath(file) if os.path.islink(file) else os.path.join(real_path(folder), name)
    return "" if _is_below(real, real_path(root)) else "a link out of root"


def _is_below(path, folder):
    return path.startswith(os.path.join(folder, ""))


def _file(root, row):
    return os.path.normpath(os.path.join(root, str(row["path"])))


def _is_box(values):
    try:
        return all(math.isfinite(float(value)) for value in values)
    except (TypeError, ValueError):
        return False


def _is_missing(value):
    """Whether a cell is empty: blank text, None, NaN or the like."""
    return not value.strip() if isinstance(value, str) else str(value) in _MISSING


def _text(value, option):
    """A label, a split or a group as text."""
    if isinstance(value, float):
        require(value.is_integer(), f"{option} {value!r}", "text or a whole number")
        return str(int(value))
    return str(value)


def _require_usable(rows, problems, elsewhere, on_error):
    """Raise the ValueError of a table without a row that can be used, and with "error" of one with other rows."""
    counts = collections.Counter(problems.values()).most_common()
    first = {reason: _name_of(i, rows[i]) for i, reason in sorted(problems.items(), reverse=True)}
    found = "; ".join(f"{count:,} {reason}, first {first[reason]}" for reason, count in counts)
    received = f"a table of {len(rows):,} rows" + (
        f", of which {len(problems):,} cannot be used: {found}" * bool(found)
    )
    require(len(rows) > len(problems) + len(elsewhere), received, "at least one row that can be used")
    advice = "a label and a file below root in every row. Correct them, or pass on_error='skip' to list them in skipped"
    require(not problems or on_error == "skip", received, advice)


def _name_of(number, row):
    """How a row is identified: by its path if it has one, else by its number from 0."""
    return f"row {number}" if _is_missing(row["path"]) else printable(str(row["path"]))


def _root(source, root):
    if root is not None:
        return os.fspath(root)
    return os.path.dirname(os.fspath(source)) or "." if isinstance(source, str | os.PathLike) else "."


def _columns(source, wanted, box):
    """Option -> list of cells; "box" -> list of tuples of four."""
    known, read = _opened(source)
    missing = [f"{name!r} (box)" for name in box or () if name not in known]
    missing += [f"{name!r} ({option}=)" for option, name in wanted.items() if name not in known]
    received = f"a table with the columns {', '.join(map(repr, known))} and without {', '.join(missing)}"
    require(not missing, received, "these columns. Name those of your table, for example label='class'")
    columns = {option: read(name) for option, name in wanted.items()}
    sides = [read(name) for name in box or ()]
    lengths = {len(column) for column in [*columns.values(), *sides]}
    require(len(lengths) == 1, f"columns of {' and '.join(map(str, sorted(lengths)))} rows", "the same length")
    return columns | ({"box": list(zip(*sides, strict=True))} if box else {})


def _opened(source):
    """Column names, and a function from a name to the list of the cells of a column."""
    if isinstance(source, str | os.PathLike):
        return _opened_file(pathlib.Path(source))
    received = f"a table of type {type(source).__name__}"
    require(
        isinstance(source, Mapping) or hasattr(source, "columns"),
        received,
        "a path, a data frame or a dict of columns",
    )
    return list(getattr(source, "columns", source)), lambda name: np.asarray(source[name]).tolist()


def _opened_file(path):
    require(path.is_file(), f"source={str(path)!r}, which is not a file", "a table: .csv, .tsv or .parquet")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _opened_parquet(path)
    expected = ".csv, .tsv or .parquet. Read other files yourself and pass the data frame"
    require(suffix in _DELIMITERS, f"source={str(path)!r}", expected)
    return _opened_text(path, _DELIMITERS[suffix])


def _opened_parquet(path):
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("A Parquet file is read by pyarrow: pip install tfdml[tables].") from error
    return _whole(path, parquet.read_schema).names, lambda name: _whole(
        path, lambda file: parquet.read_table(file, columns=[name])[name].to_pylist()
    )


def _whole(path, read):
    """`read(file)` of a Parquet file, or the ValueError of a damaged one."""
    try:
        with path.open("rb") as file:
            return read(file)
    except Exception as error:  # Each damage fails in its own way.
        raise ValueError(
            f"Received {str(path)!r}, which cannot be read as Parquet ({error}), expected a whole file. Write it again."
        ) from error


def _opened_text(path, delimiter):
    lines = _lines(path, delimiter)
    names = next(lines, [])
    require(len(set(names)) == len(names), f"{str(path)!r} with the columns {names}", "different column names")
    rows = [cells + [""] * (len(names) - len(cells)) for cells in lines if cells]
    long = [number for number, cells in enumerate(rows) if len(cells) > len(names)]
    received = f"{str(path)!r} with {len(names)} columns and more cells in {len(long)} rows, first in row {long[:1]}"
    require(not long, received, "one cell per column. Quote cells that contain the delimiter")
    return names, lambda name: [cells[names.index(name)] for cells in rows]


def _lines(path, delimiter):
    """The cells of each line of a text file; a quoted cell may continue over several lines."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        while (cells := _next_line(path, lines)) is not None:
            yield cells


def _next_line(path, lines):
    """The cells of the next line; None at the end."""
    start = lines.line_num + 1
    try:
        return next(lines, None)
    except UnicodeDecodeError:
        read_utf8(path)  # raises the error that names the line
        raise
    except csv.Error as error:
        raise ValueError(
            f"Received line {start} of {str(path)!r}, which cannot be read ({error}), expected cells of at most "
            f"{csv.field_size_limit():,} characters whose quotes are closed. Correct the file, or read it yourself and "
            "pass the data frame."
        ) from error
