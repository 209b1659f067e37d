"""Metadata of an index: Arrow tables with one row per vector."""

import bisect
import datetime
import difflib
import numbers
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from tfdml._core.checks import require
from tfdml._core.optional import optional_import
from tfdml.typing import FilePath, Filter, Metadata

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.compute

_COMPARED = 2**14  # rows that are Python objects at the same time, and values that may be close to another one
_NUM_EXAMPLES = 5  # values that an error names
_LONGEST = 200  # characters of a value in an error
_DURATION = re.compile(r"(?:(-?\d+) days?,? \+?)?(\d+):(\d\d):(\d\d)(?:\.(\d{1,9}))?")  # of Python and pandas
_NULLS = {"None", "nan", "NaT", "<NA>"}
_ALIKE = {str, bytes, bool, int, float, datetime.date}  # Python types of which Arrow keeps each value


def as_table(metadata: Metadata | None, count: int) -> "pyarrow.Table | None":
    """Convert metadata to a `pyarrow.Table` of `count` rows; None stays None.

    Python values that change in the type of their column are a ValueError: a time of day among dates, a truth value
    among numbers, times of several zones. A field that a record lacks is null.
    """
    if metadata is None:
        return None
    pyarrow, objects = _pyarrow(), {}
    try:
        table, objects = (metadata, {}) if isinstance(metadata, pyarrow.Table) else _table_of(pyarrow, metadata)
    except (TypeError, ValueError, OverflowError, pyarrow.ArrowException) as error:
        raise ValueError(
            f"Received metadata that is not a table ({error}). Pass a pyarrow.Table, a pandas.DataFrame, or a dict "
            "with a list per column."
        ) from error
    if len(table) != count:
        raise ValueError(f"Received metadata of {len(table)} rows, expected {count}: one per vector.")
    names = table.column_names
    if len(set(names)) < len(names):
        raise ValueError(f"Received metadata with columns {names}, expected distinct names. Rename those that repeat.")
    for number, values in objects.items():
        column, row = table[number], _first_changed(values, table[number])
        if row is not None:
            received = f"metadata with {_short(values[row])} in column {names[number]!r}"
            stored = f"{_short(column[row].as_py())} in its type {column.type}"
            expected = "values of one type and time zone. Convert them, or pass a pyarrow.Table"
            require(False, f"{received}, which is {stored}", expected)
    return table.replace_schema_metadata(None)


def _table_of(pyarrow, metadata):
    """The table of a data frame or a dict of columns, and the columns of mixed Python values by their numbers.

    The row names of a filtered frame are no column.
    """
    if hasattr(metadata, "iloc"):  # of pandas
        table = pyarrow.Table.from_pandas(metadata, preserve_index=False)
        columns = [metadata.iloc[:, number] for number in range(metadata.shape[1])]
    elif isinstance(metadata, Mapping):
        columns = [values if hasattr(values, "__len__") else list(values) for values in metadata.values()]
        table = pyarrow.table(dict(zip(metadata, columns, strict=True)))
    else:
        table, columns = pyarrow.table(metadata), []
    return table, {number: list(values) for number, values in enumerate(columns) if _is_mixed(values)}


def _is_mixed(values):
    """Whether a column has Python values of several types, or of a type that has several in Arrow."""
    if getattr(values, "dtype", np.dtype(object)) != np.dtype(object) or hasattr(values, "type"):
        return False
    types = set(map(type, values)) - {type(None)}
    return len(types) > 1 or not types <= _ALIKE


def _first_changed(values, column):
    """The first row of a list, or a column, whose value is another one in `column`; None if there is none."""
    for start in range(0, len(column), _COMPARED):
        came, stored = (rows[start : start + _COMPARED] for rows in (values, column))
        came = came if isinstance(came, list) else came.to_pylist()
        for row, pair in enumerate(zip(came, stored.to_pylist(), strict=True), start):
            if not _is_kept(*pair):
                return row
    return None


def _is_kept(came, stored):
    """Whether the value of a row is the same in another type."""
    if came is None or stored is None:
        return stored is None and str(came) in _NULLS
    if isinstance(stored, dict):
        return all(_is_kept(came.get(name), stored.get(name)) for name in {**came, **stored})
    if isinstance(stored, list):
        return len(came) == len(stored) and all(map(_is_kept, came, stored))
    if isinstance(came, datetime.datetime) and isinstance(stored, datetime.datetime):
        return came == stored and came.utcoffset() == stored.utcoffset()
    return _is_equal(_pyarrow().scalar(came).as_py() if isinstance(came, np.generic) else came, stored)


def _is_equal(one, other):
    """Whether two values are equal, NaN too, and no truth value is a number."""
    if isinstance(one, bool | np.bool_) != isinstance(other, bool | np.bool_):
        return False
    return bool(one == other) or (one != one and other != other)


def as_rows_of(table: "pyarrow.Table | None", metadata: "pyarrow.Table | None") -> "pyarrow.Table | None":
    """A table with the columns and types of the metadata of an index; None if it has no metadata.

    A value that the type of its column cannot hold exactly is a ValueError. No type widens: 300 does not fit a column
    of int8, nor 0.1 one of float32. A column that has had no value yet takes any type.
    """
    if (table is None) != (metadata is None):
        received, expected = ("no metadata", "the columns of the index") if table is None else ("metadata", "none")
        raise ValueError(
            f"Received {received}, expected {expected}: every vector of an index has metadata, or no vector."
        )
    if table is None or metadata is None:
        return None
    pyarrow, names = _pyarrow(), metadata.column_names
    if sorted(table.column_names) != sorted(names):
        raise ValueError(f"Received metadata with columns {table.column_names}, expected {names} as in the index.")
    schema = pyarrow.schema([field.with_type(_filled(field.type, table[field.name].type)) for field in metadata.schema])
    return pyarrow.table([_as_column(table[name], name, schema) for name in names], schema=schema)


def _filled(current, came):
    """The current type of a column; null, of parts without a value, takes the other type."""
    pyarrow = _pyarrow()
    types = pyarrow.types
    if types.is_null(current):
        return came
    if types.is_list(current) and types.is_list(came):
        return pyarrow.list_(_filled(current.value_type, came.value_type))
    if types.is_struct(current) and types.is_struct(came):
        pairs = [(field, came.get_field_index(field.name)) for field in current]
        return pyarrow.struct([a if n < 0 else a.with_type(_filled(a.type, came[n].type)) for a, n in pairs])
    return current


def _as_column(column, name, schema):
    """A column in its type in a schema; a ValueError that names the first row that is another value there."""
    field, rows = schema.field(name), range(len(column))
    stored = column if column.type == field.type else _cast(column, field.type)
    if column.null_count and not field.nullable:
        row = column.is_null().index(True).as_py()
    elif stored is None:
        row = bisect.bisect_left(rows, True, key=lambda row: _cast(column[: row + 1], field.type) is None)
    else:
        row = None if stored is column else _first_changed(column, stored)
    if row is not None:
        types = ", ".join(f"{field.name}: {field.type}" for field in schema)
        raise ValueError(
            f"Received metadata that does not fit the columns of the index: {_short(column[row].as_py())} of column "
            f"{name!r} changes from {column.type} to {field.type}; expected {types}. An index keeps the types of its "
            "first values: declare others in a pyarrow.Table."
        )
    return stored


def _cast(column, to):
    """A column in another type; None if Arrow says that it does not fit."""
    pyarrow = _pyarrow()
    try:
        if pyarrow.types.is_dictionary(to):
            return column.cast(to.value_type).dictionary_encode().cast(to)
        return column.cast(to)
    except (ValueError, pyarrow.ArrowException):
        return None


def is_expression(where: Filter) -> "TypeGuard[pyarrow.compute.Expression]":
    """Whether `where` is an expression such as `pyarrow.compute.field("price") < 10`."""
    compute = sys.modules.get("pyarrow.compute")
    return compute is not None and isinstance(where, compute.Expression)


def mask_of(table: "pyarrow.Table", expression: "pyarrow.compute.Expression") -> np.ndarray:
    """The rows of a table that an expression is true for, `(n,)` bool; null counts as false."""
    pyarrow, acero = _pyarrow(), _pyarrow(".acero")
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["passes"]))
    try:
        passes = acero.Declaration.from_sequence([source, project]).to_table(use_threads=False)["passes"]
    except pyarrow.ArrowException as error:
        raise ValueError(
            f"Received where={expression}, expected an expression of the columns {table.column_names}: {error}."
        ) from error
    if not pyarrow.types.is_boolean(passes.type):
        raise ValueError(f"Received where={expression} of type {passes.type}, expected one that is true or false.")
    return passes.fill_null(False).to_numpy()


def mask_of_values(table: "pyarrow.Table", where: Mapping[str, Any]) -> np.ndarray:
    """The rows of a table whose columns have one of the values of a dict, `(n,)` bool.

    A value is one of the type of the column, or its text, as `str` makes it or Arrow reads it. None is null. A number
    is the nearest one of a column of floats. A value of another type, or a column that is not there, is a ValueError.
    """
    is_nested = _pyarrow().types.is_nested
    columns = {name: _decoded(table[name]) for name in table.column_names if not is_nested(table[name].type)}
    for name in where:
        expected = f"one of {', '.join(columns)}" if columns else "an index with columns of single values"
        require(name in columns, f"a filter of column {_short(name)}", expected)
    masks = [_has_one_of(columns[name], name, values) for name, values in where.items()]
    return np.logical_and.reduce(masks) if masks else np.ones(len(table), bool)


def close_values(table: "pyarrow.Table", name: str, value: str) -> str:
    """Some values of a column that are close to a text; some of those that exist if none is."""
    texts = [str(one.as_py()) for one in table[name].drop_null().unique()[:_COMPARED]]
    return ", ".join(map(_short, difflib.get_close_matches(value, texts, n=_NUM_EXAMPLES) or texts[:_NUM_EXAMPLES]))


def _decoded(column):
    """A column of categories as a column of their values."""
    return column.cast(column.type.value_type) if _pyarrow().types.is_dictionary(column.type) else column


def _has_one_of(column, name, values):
    """The rows of a column that have one of the values, `(n,)` bool."""
    pyarrow, compute = _pyarrow(), _pyarrow(".compute")
    is_listed = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
    wanted = []
    for value in values if is_listed else [values]:
        try:
            wanted.append(_comparable(_as_value(pyarrow, column.type, value)))
        except (pyarrow.ArrowException, OverflowError, TypeError, ValueError) as error:  # ValueError: half a surrogate
            examples = ", ".join(str(one)[:_LONGEST] for one in column.drop_null().unique()[:_NUM_EXAMPLES].to_pylist())
            raise ValueError(
                f"Received a filter of {name!r} with {_short(value)} ({str(error)[:_LONGEST]}), expected values of "
                f"type {column.type}, such as {examples or None}."
            ) from error
    passes = compute.is_in(_comparable(column), value_set=pyarrow.concat_arrays(wanted)).to_numpy() if wanted else False
    return np.broadcast_to(passes, len(column))


def _as_value(pyarrow, to, value):
    """A value as an array of a type."""
    types, is_number = pyarrow.types, isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    if isinstance(value, str):
        return _read(pyarrow, to, value)
    one = pyarrow.array([str(value) if is_number and types.is_decimal(to) else value])
    stored = one.cast(to)
    came, there = one[0].as_py(), stored[0].as_py()
    is_near = is_number and (types.is_decimal(to) or (types.is_floating(to) and np.isfinite(there)))
    if not (is_near or _is_equal(came, there)):
        raise ValueError(f"of type {one.type}")
    return stored


def _read(pyarrow, to, text):
    """A text as an array of a type: what `str` makes of a duration or a time, and what Arrow reads."""
    if pyarrow.types.is_time(to):
        hour = datetime.time.fromisoformat(text)
        require(hour.tzinfo is None, "a time of a zone", "hours:minutes:seconds")
        return pyarrow.array([hour]).cast(to)
    if pyarrow.types.is_duration(to):
        match = _DURATION.fullmatch(text)
        require(match is not None, "another text", "days, hours:minutes:seconds")
        days, hours, minutes, seconds, fraction = (match[number] or "0" for number in range(1, 6))
        whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
        return pyarrow.array([whole * 10**9 + int(fraction.ljust(9, "0"))], pyarrow.duration("ns")).cast(to)
    return pyarrow.array([text]).cast(to)


def _comparable(array):
    """An array in the type that Arrow compares."""
    pyarrow = _pyarrow()
    wider = {pyarrow.float16(): pyarrow.float32(), pyarrow.string_view(): pyarrow.large_string()}
    return array.cast(wider.get(array.type, array.type))


def _short(value):
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def write_table(path: FilePath, table: "pyarrow.Table") -> None:
    """Write a table as a Parquet file."""
    _pyarrow(".parquet").write_table(table, path)


def read_table(path: FilePath) -> "pyarrow.Table":
    """Read a table that `write_table` wrote."""
    parquet = _pyarrow(".parquet")
    try:
        (table := parquet.read_table(path, partitioning=None)).validate(full=True)  # text is UTF-8
        return table
    except Exception as error:  # Each damage fails in its own way.
        raise ValueError(f"{str(path)!r} is damaged: {error}. Save the index again.") from error


def _pyarrow(module=""):
    return optional_import(f"pyarrow{module}", feature="Metadata of an index", extra="tables")
