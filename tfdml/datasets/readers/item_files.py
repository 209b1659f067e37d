"""Items of an index from a set of files, and their files, when something reads them again."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from tfdml._core.checks import names_of_labels, require
from tfdml._core.checksums import BOX, CHECKSUM, CLASS, FILE_TYPES, PATH, ROOT, SIZE, file_columns, state_of
from tfdml._core.optional import optional_import
from tfdml.typing import FilePath

_ID_BYTES = 6  # of a number that JSON and JavaScript keep
_PARALLEL_FILES = 8


def items(data: Any) -> dict[str, Any]:
    """The items of an index that the files of a set are: arguments `ids` and `metadata` of its `add`.

    An id is the first 48 bits of a sha256 of the path and the box of an item, so that it stays the same when you remove
    an item and add it again. The metadata are the columns of the index of `tfdml train`: `class` (null without a
    label), `path` relative to a root, `box` where the set is read with boxes, and for the owner `_root`, `_size` and
    `_checksum`, to recognize the file.

    Example: photographs are added to an index.

        >>> keras.utils.save_img("cup.png", np.zeros((8, 8, 3)))
        >>> load = tfdml.datasets.Preprocessing(size=8)
        >>> photos = tfdml.datasets.LabeledSet(
        ...     paths=np.array(["cup.png"]), labels=np.array([0]), class_names=("cup",), load=load
        ... )
        >>> index = tfdml.search.Exact([[1.0, 0.0]], **tfdml.datasets.items(photos))
        >>> index.metadata.column_names, index.metadata["class"].to_pylist()
        (['class', 'path', '_root', '_size', '_checksum'], ['cup'])

    Args:
        data: a set with paths.

    Returns:
        `ids`: `(n,)` int64; `metadata`: `pyarrow.Table` of n rows. A file that cannot be read has neither size nor
        checksum.
    """
    require(getattr(data, "paths", None) is not None, f"{data!r} without paths", "a set of files, such as of folder")
    table = item_table(data)
    boxes = table[BOX].to_pylist() if BOX in table.column_names else [None] * len(table)
    return {"ids": np.array(list(map(id_of, table[PATH].to_pylist(), boxes)), np.int64), "metadata": table}


def item_table(data: Any) -> Any:
    """The metadata of `items`; of a set without paths the classes alone."""
    pyarrow = optional_import("pyarrow", feature="Items of an index", extra="tables")
    columns = {CLASS: pyarrow.array(names_of_labels(data), pyarrow.string())}
    if data.paths is not None:
        root, paths = portable(data.paths.tolist())
        columns[PATH] = pyarrow.array(paths, pyarrow.string())
        for name, values in file_columns(data.paths.tolist(), root).items():
            columns[name] = pyarrow.array(values, FILE_TYPES[name])
    if getattr(data.load, "boxes", False):
        columns[BOX] = pyarrow.array(data.boxes.tolist(), pyarrow.list_(pyarrow.float64()))
    return pyarrow.table(columns)


def portable(paths: list[str]) -> tuple[str, list[str]]:
    """An absolute root, and the paths relative to it, as clients of a server may see them.

    Absolute paths begin at the folder that all files are in; relative ones stay.
    """
    if not any(map(os.path.isabs, paths)):
        return os.getcwd(), paths
    paths = list(map(os.path.abspath, paths))
    above = os.path.dirname(os.path.commonpath(list(map(os.path.dirname, paths))))
    return above, [PurePath(path).relative_to(above).as_posix() for path in paths]


def file_of(item: Mapping[str, Any], root: FilePath | None = None) -> Path:
    """The file of an item of an index, by its columns; a ValueError if it is gone, or another one.

    `root` takes the place of the former folder of the set. Where the item has size and checksum, the function compares
    its file, and `root` may also be the folder of the set itself, or one in it.
    """
    path, size, checksum = PurePath(item.get(PATH) or ""), item.get(SIZE), item.get(CHECKSUM)
    base = Path(item.get(ROOT) or "" if root is None else root).expanduser()
    starts = range(len(path.parts) if root is not None and checksum is not None else 1)
    files = [base / path, *(base.joinpath(*path.parts[start:]) for start in starts[1:])]
    reasons = [_difference(file, size, checksum) for file in files]
    if all(reasons):
        raise ValueError(f"{files[0]}: {next((x for x in reasons if x != _GONE), _GONE)}")
    return files[reasons.index("")]


_GONE, _OTHER = "no such file", "another file than the one that was embedded"


def _difference(file, size, checksum):
    """Why a file does not belong to an item; empty if it is."""
    try:
        if not file.is_file():
            return _GONE
        if None in (size, checksum):
            return ""
        return "" if os.path.getsize(file) == size and state_of(file) == (size, checksum) else _OTHER
    except OSError as error:
        return error.strerror or str(error)


def files_of(items: Iterable[Mapping[str, Any]], root: FilePath | None = None) -> list[Path | ValueError]:
    """`file_of` for several items, or the reason in its place."""

    def found(item):
        try:
            return file_of(item, root)
        except ValueError as error:
            return error

    with ThreadPoolExecutor(_PARALLEL_FILES) as threads:
        return list(threads.map(found, items))


def checksums_of(index: Any) -> list[str | None] | None:
    """The checksum of the file of each item of an index; None where it has none."""
    table = index.metadata
    return table[CHECKSUM].to_pylist() if table is not None and CHECKSUM in table.column_names else None


def without_owner(columns: Iterable[str]) -> list[str]:
    """The columns that clients may see: those that do not begin with "_"."""
    return [name for name in columns if not name.startswith("_")]


def id_of(path: str, box: list[float] | None) -> int:
    """The id of a new item."""
    digest = hashlib.sha256(repr((path, box)).encode()).digest()
    return int.from_bytes(digest[:_ID_BYTES], "big")
