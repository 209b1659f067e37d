"""Metadata of an index: Arrow tables with one row per vector."""

import sys
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from tfdml._core.optional import optional_import
from tfdml.typing import FilePath, Filter, Metadata

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.compute


def as_table(metadata: Metadata | None, count: int) -> "pyarrow.Table | None":
    """Convert metadata to a `pyarrow.Table` of `count` rows; None stays None."""
    if metadata is None:
        return None
    pyarrow = _pyarrow()
    try:
        table = metadata if isinstance(metadata, pyarrow.Table) else _table_of(pyarrow, metadata)
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
    return table.replace_schema_metadata(None)


def _table_of(pyarrow, metadata):
    """The table of a data frame or a dict of columns; the row names of a filtered frame are no column."""
    is_frame = hasattr(metadata, "iloc")  # of pandas
    return pyarrow.Table.from_pandas(metadata, preserve_index=False) if is_frame else pyarrow.table(metadata)


def as_rows_of(table: "pyarrow.Table | None", metadata: "pyarrow.Table | None") -> "pyarrow.Table | None":
    """A table with the columns and types of the metadata of an index; None if it has no metadata."""
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
    try:
        return table.select(names).cast(metadata.schema)
    except (ValueError, pyarrow.ArrowException) as error:
        types = ", ".join(f"{field.name}: {field.type}" for field in metadata.schema)
        raise ValueError(
            f"Received metadata that does not fit the columns of the index: {error}; expected {types}. An index keeps "
            "the types of its first metadata: declare them in a pyarrow.Table where the first rows are null."
        ) from error


def is_expression(where: Filter) -> "TypeGuard[pyarrow.compute.Expression]":
    """Whether `where` is an expression such as `pyarrow.compute.field("price") < 10`."""
    compute = sys.modules.get("pyarrow.compute")
    return compute is not None and isinstance(where, compute.Expression)


def mask_of(table: "pyarrow.Table", expression: "pyarrow.compute.Expression") -> np.ndarray:
    """The rows of a table for which an expression is true, `(n,)` bool; null counts as false."""
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


def write_table(path: FilePath, table: "pyarrow.Table") -> None:
    """Write a table as a Parquet file."""
    _pyarrow(".parquet").write_table(table, path)


def read_table(path: FilePath) -> "pyarrow.Table":
    """Read a table that `write_table` wrote."""
    parquet = _pyarrow(".parquet")
    try:
        return parquet.read_table(path, partitioning=None)
    except Exception as error:  # Each damage fails in its own way.
        raise ValueError(f"{str(path)!r} is damaged: {error}. Save the index again.") from error


def _pyarrow(module=""):
    return optional_import(f"pyarrow{module}", feature="Metadata of an index", extra="tables")
