"""Image files listed in a table: CSV, Parquet, or a data frame."""

import collections
import csv
import functools
import math
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np

from tfdml._core.checks import require
from tfdml._core.checksums import FILE_TYPES
from tfdml._core.optional import optional_import
from tfdml._core.terminal import from_cells
from tfdml.datasets.images.fit import SHARES, are_shares, require_pixels
from tfdml.datasets.images.preprocessing import Preprocessing
from tfdml.datasets.labeled_set import LabeledSet
from tfdml.datasets.readers.text import (
    as_names,
    class_name,
    class_name_of,
    is_utf8,
    numbered,
    printable,
    read_utf8,
    warn_of_similar,
)
from tfdml.datasets.splits import as_split_names, with_shared_names, with_used_names

Loader = Callable[..., Any]
Table = str | os.PathLike | Mapping[str, Any] | Any

_MISSING = ("None", "nan", "NaT", "<NA>")  # how NumPy and pandas print values that are missing
_DIGITS = 19  # of numbers above int64
_MOST_DIGITS = 300  # of labels that are sorted by value
_NOT_A_FILE, _WITH_BACKSLASHES = "not a file", "with \\ in its path where this system has /"
_FILES = 2**16
_DELIMITERS = {".csv": ",", ".tsv": "\t"}

PROPOSED = ["path", "label", "probability", "similarity", "neighbor"]  # the columns of `tfdml propose`
_OF_EMBEDDINGS = {"row", "path", "label", "box", *FILE_TYPES}  # those of examples.csv


class _Options(TypedDict, total=False):
    """The options of `table` that do not change the type of its result."""

    root: str | os.PathLike | None
    path: str
    label: str | None
    split: str
    group: str | None
    box: Sequence[str] | None
    load: Loader | None
    on_error: Literal["error", "skip"]


@overload
def table(source: Table, *, splits: None = None, **options: Unpack[_Options]) -> LabeledSet: ...
@overload
def table(source: Table, *, splits: Sequence[str], **options: Unpack[_Options]) -> tuple[LabeledSet, ...]: ...
def table(
    source: Table,
    *,
    root: str | os.PathLike | None = None,
    path: str = "path",
    label: str | None = "label",
    split: str = "split",
    splits: Sequence[str] | None = None,
    group: str | None = None,
    box: Sequence[str] | None = None,
    load: Loader | None = None,
    on_error: Literal["error", "skip"] = "error",
) -> LabeledSet | tuple[LabeledSet, ...]:
    """Image files from the rows of a table.

    Labels are text or whole numbers; `class_names` are sorted, by value if all are whole numbers. Cells of a CSV file
    are text, so that the label 007 is not the label 7. Blanks around a label do not count, and neither does the
    spelling in Unicode: é may be one character or two. A warning names labels that differ in upper and lower case only.
    A row with an empty label has the label -1.

    Splits with a class in common share labels and `class_names`, as query and gallery need it; see `folder`.

    Example: rows with a split; training and test have no class in common.

        >>> for number in range(3):
        ...     keras.utils.save_img(f"{number}.png", np.zeros((8, 8, 3)))
        >>> rows = {"path": ["0.png", "1.png", "2.png"], "label": ["ant", "ant", "bee"]}
        >>> rows["split"] = ["train", "train", "test"]
        >>> train, test = tfdml.datasets.table(rows, splits=("train", "test"))
        >>> train.class_names, train.labels, test.class_names
        (('ant',), array([0, 0]), ('bee',))

    Args:
        source: path of a .csv or .tsv file with a line of column names (UTF-8), or of a .parquet file; or a data frame
            of pandas or polars, or a dict of columns.
        root: folder that the paths are relative to; by default the folder of the file, or the current one for a frame.
        path, label: column names. `label=None`: no row has a label.
        split: column name; used with `splits`.
        splits: values of the column `split`, in the order of the result. `skipped` of every part lists other rows.
        group: column name of the camera, the sequence or another group, text or whole numbers; None for no groups.
        box: four column names of the left, upper, right and lower border of the object, in pixels of the upright image;
            None for no boxes. Shares of the image, and boxes of left, upper, width and height, are an error where a
            tenth of the rows has them.
        load: function from a path to an example; `Preprocessing(size=224)` by default.
        on_error: a row that lacks another cell than the label, has text that is not UTF-8, a box of shares, or a path
            that is not a file inside `root`, also by a link: "error" raises an error that counts such rows by reason,
            "skip" lists them in `skipped`.

    Returns:
        `LabeledSet` of paths, in the order of the table, or with `splits` a tuple of them.

    Raises:
        ValueError: a source of another kind, or damaged; missing, repeated or uneven columns; a label, split or group
            that is a fraction, a float from 2**53 on or above 4,096 characters; a cell above 131,072 characters or a
            line with more cells than columns (it names the line); an empty split, and the rows of `on_error`.
    """
    require(on_error in ("error", "skip"), f"on_error={on_error!r}", "'error' or 'skip'")
    require(box is None or len(box) == 4, f"box={box!r}", "four column names: left, upper, right, lower")
    options = {"path": path, "label": label, "group": group, "split": None if splits is None else split}
    columns = _columns(source, {option: name for option, name in options.items() if name is not None}, box)
    names = None if splits is None else tuple(map(class_name, as_split_names(splits)))
    folder = os.path.dirname(os.fspath(source)) or "." if isinstance(source, str | os.PathLike) else "."
    folder = folder if root is None else os.fspath(root)
    rejected = list(_rejected(columns, names, folder))
    _require_usable(len(columns["path"]), rejected, on_error, folder)
    usable = np.delete(np.arange(len(columns["path"])), [row.number for row in rejected])
    skipped = tuple((row.name, row.reason) for row in rejected)
    labeled_set = _labeled_set(columns, usable, folder, load, skipped)
    warn_of_similar(labeled_set.class_names, stacklevel=2)
    return labeled_set if names is None else _split(labeled_set, usable, names, columns["split"])


class _Rejected(NamedTuple):
    """A row that is left out: a problem, or a row of another split."""

    number: int
    name: str
    reason: str
    is_problem: bool


def _rejected(columns, splits, root):
    real_path = functools.cache(os.path.realpath)  # The rows have few folders,

    @functools.lru_cache(_FILES)  # and a row for each box of a file.
    def file_problem(path):
        return _file_problem(_file(root, path), root, real_path)

    for number, cell in enumerate(columns["path"]):
        name = None if splits is None else _split_name(columns["split"][number])
        is_usable_split = name is None or name in splits
        reason = _problem(columns, number, file_problem) if is_usable_split else f"split {name!r}"
        if reason:
            path = f"row {number}" if is_missing(cell) else printable(str(cell))
            yield _Rejected(number, path, reason, is_usable_split)


def _require_usable(num_rows, rejected, on_error, root):
    """Raise the ValueError of a table without a usable row, and, with "error", of a table with a problem."""
    problems = [row for row in rejected if row.is_problem]
    counts = collections.Counter(row.reason for row in problems).most_common()
    first = {row.reason: row.name for row in reversed(problems)}
    reasons = "; ".join(f"{count:,} {reason}, first {first[reason]}" for reason, count in counts)
    received = f"a table of {num_rows:,} rows"
    if problems:
        received += f"; {len(problems):,} cannot be used: {reasons}"
    if _NOT_A_FILE in first:
        received += f". Files were looked for in {os.path.join(root, '')!r}, to which paths are relative"
    require(num_rows > len(rejected), received, "at least one row that can be used")
    advice = "a file below root= in every row. Correct them, or pass on_error='skip' to list them in skipped"
    require(not problems or on_error == "skip", received, advice)


def _labeled_set(columns, usable, root, load, skipped):
    cells = columns.get("label")
    labels = [None if cells is None or is_missing(cells[row]) else class_name_of(cells[row], "label") for row in usable]
    names = sorted(set(labels) - {None}, key=_order(set(labels) - {None}))
    number_of = {None: -1} | {name: number for number, name in enumerate(names)}
    return LabeledSet(
        paths=as_names([_file(root, columns["path"][row]) for row in usable]),
        labels=np.array([number_of[label] for label in labels], np.int64),
        class_names=tuple(names),
        boxes=columns["box"][usable] if "box" in columns else None,
        groups=_ids([columns["group"][row] for row in usable]) if "group" in columns else None,
        load=load or Preprocessing(size=224),
        skipped=skipped,
    )


def _split(labeled_set, usable, names, cells):
    split_of = as_names([_split_name(cells[row]) for row in usable])
    empty = [name for name in names if name not in split_of]
    received = f"splits={names!r} and no row of {', '.join(empty)} that can be used"
    values = sorted({name for name in map(_split_name, cells) if name is not None})
    require(not empty, received, f"values of the column, which has {', '.join(values)}")
    sets = [with_used_names(labeled_set.take(split_of == name)) for name in names]
    return with_shared_names(sets, key=_order(labeled_set.class_names))


def _split_name(cell):
    """The split of a row; None for an empty cell."""
    return None if is_missing(cell) else class_name_of(cell, "split")


def _order(names):
    """The sort key of names: their values if all are whole numbers."""
    return int if all(name.isdecimal() and len(name) <= _MOST_DIGITS for name in names) else None


def _ids(groups):
    """Groups as int64: whole numbers unchanged, others numbered in the order of their text."""
    texts = [class_name_of(group, "group") for group in groups]
    if all(text.isdecimal() and len(text) < _DIGITS for text in texts):
        return np.array([int(text) for text in texts], np.int64)
    return numbered(texts)[0]


def _problem(columns, number, file_problem):
    for option in [option for option in ("path", "label", "split", "group") if option in columns]:
        cell = columns[option][number]
        if option != "label" and is_missing(cell):
            return f"no {option}"
        if not is_utf8(str(cell)):
            return f"a {option} that is not UTF-8"
    if "box" in columns and not np.isfinite(columns["box"][number]).all():
        return "no box"
    if "box" in columns and are_shares(columns["box"][number]):
        return SHARES
    return file_problem(columns["path"][number])


def _file_problem(file, root, real_path):
    if not _is_below(os.path.abspath(file), os.path.abspath(root)):
        return "outside root"
    if not os.path.isfile(file):
        return _WITH_BACKSLASHES if os.path.isfile(file.replace("\\", "/")) else _NOT_A_FILE
    folder, name = os.path.split(file)
    real = os.path.realpath(file) if os.path.islink(file) else os.path.join(real_path(folder), name)
    return "" if _is_below(real, real_path(root)) else "a link out of root"


def _is_below(path, folder):
    return path.startswith(os.path.join(folder, ""))


def _file(root, path):
    return os.path.normpath(os.path.join(root, str(path)))


def _borders(cells):
    """A column of borders as float64 `(n,)`; NaN where a cell is no number."""
    return np.array([_as_float(cell) for cell in cells], np.float64)


def _as_float(cell):
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan


def is_missing(value):
    """Whether a cell is empty: blank text, None, NaN or the like."""
    return not value.strip() if isinstance(value, str) else str(value) in _MISSING


def _columns(source, names, box):
    """Option -> list of cells; "box" -> `(n, 4)` float64, NaN where a cell is no number."""
    available, read = open_table(source)
    missing = [f"{name!r} (box)" for name in box or () if name not in available]
    missing += [f"{name!r} ({option}=)" for option, name in names.items() if name not in available]
    received = f"a table with the columns {', '.join(map(repr, available))} and without {', '.join(missing)}"
    require(not missing, received, "these columns. Name the columns of your table, for example label='class'")
    repeated = [name for name in dict.fromkeys([*names.values(), *(box or ())]) if available.count(name) > 1]
    require(not repeated, f"a table with several columns {repeated[:1]}", "different names. Rename the others")
    columns = {option: read(name) for option, name in names.items()}
    borders = [_borders(read(name)) for name in box or ()]
    lengths = {len(column) for column in [*columns.values(), *borders]}
    require(len(lengths) == 1, f"columns of {' and '.join(map(str, sorted(lengths)))} rows", "the same length")
    if not box:
        return columns
    require_pixels(boxes := np.stack(borders, axis=1), box)
    return columns | {"box": boxes}


def open_table(source):
    """Column names, and a function from a name to the list of the cells of a column."""
    if isinstance(source, str | os.PathLike):
        path = pathlib.Path(source)
        require(path.is_file(), f"source={str(path)!r}, which is not a file", "a table: .csv, .tsv or .parquet")
        suffix = path.suffix.lower()
        if suffix == ".parquet":
            return _open_parquet(path)
        expected = ".csv, .tsv or .parquet. Read other files yourself and pass the data frame"
        require(suffix in _DELIMITERS, f"source={str(path)!r}", expected)
        return _open_text(path, _DELIMITERS[suffix])
    is_table = isinstance(source, Mapping) or hasattr(source, "columns")
    require(is_table, f"a table of type {type(source).__name__}", "a path, a data frame or a dict of columns")

    def read_column(name):
        column = source[name]  # an array of a list would turn NaN among texts into the text nan
        return list(column) if isinstance(column, list | tuple) else np.asarray(column).tolist()

    return list(getattr(source, "columns", source)), read_column


def _open_parquet(path):
    parquet = optional_import("pyarrow.parquet", feature="A Parquet file", extra="tables")

    def read_column(name):
        return _read_parquet(path, lambda file: parquet.read_table(file, columns=[name])[name].to_pylist())

    return _read_parquet(path, parquet.read_schema).names, read_column


def _read_parquet(path, read):
    """`read(file)` of a Parquet file, or the ValueError of a damaged one."""
    try:
        with path.open("rb") as file:
            return read(file)
    except Exception as error:  # Each damage fails in its own way.
        raise ValueError(
            f"Received {str(path)!r}, which cannot be read as Parquet ({error}), expected a whole file. Write it again."
        ) from error


def _open_text(path, delimiter):
    lines = _lines(path, delimiter)
    names = next(lines, [])
    other = next((character for character in ";\t,|" if len(names) == 1 and character in names[0]), None)
    received = f"{str(path)!r} with the first line {names[:1]}, whose cells are separated by {other!r}"
    require(other is None, received, f"{delimiter!r}. Write it again, or read it yourself and pass the data frame")
    require(len(set(names)) == len(names), f"{str(path)!r} with the columns {names}", "different column names")
    if names == PROPOSED or (names[:1] == ["row"] and set(names) <= _OF_EMBEDDINGS):
        lines = map(from_cells, lines)
    columns, long = _cells_by_column(len(names), lines)
    received = f"{str(path)!r} with {len(names)} columns and more cells in {len(long)} rows, first in row {long[:1]}"
    require(not long, received, "one cell per column. Quote cells that contain the delimiter")
    return names, lambda name: columns[names.index(name)]


def _cells_by_column(width, lines):
    """A list of cells for each column; equal cells are one text; and the rows with more cells."""
    columns, long, text_of = [[] for _ in range(width)], [], dict[str, str]()
    for number, cells in enumerate(filter(None, lines)):
        for column, cell in zip_longest(columns, cells[:width], fillvalue=""):
            column.append(text_of.setdefault(cell, cell))
        long += [number] * (len(cells) > width)
    return columns, long


def _lines(path, delimiter):
    """The cells of each line of a text file; a quoted cell may continue over several lines."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        start = 1
        try:
            for cells in lines:
                yield cells
                start = lines.line_num + 1
        except UnicodeDecodeError:
            read_utf8(path)  # raises the error that names the line, or the size
            raise
        except csv.Error as error:
            raise ValueError(
                f"Received line {start} of {str(path)!r}, which cannot be read ({error}), expected cells of at most "
                f"{csv.field_size_limit():,} characters whose quotes are closed. Correct the file, or read it yourself "
                "and pass the data frame."
            ) from error
