"""Items of an index that are files: the changes by which it follows a set of files, and values of its columns."""

import functools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from pyarrow import compute

from tfdml._core.checks import require
from tfdml._core.checksums import BOX, CHECKSUM, CLASS, FILE_TYPES, LABEL, PATH, ROOT

_OF_FILE = (PATH, *FILE_TYPES)


class Changes(NamedTuple):
    """Rows of a set: those that are new, and `(rows, ids)` of items with another file, or in another folder."""

    added: np.ndarray
    updated: tuple[np.ndarray, np.ndarray]
    moved: tuple[np.ndarray, np.ndarray]


def changes_of(index: Any, items: Any) -> Changes:
    """The changes by which an index of files gets the items of a set, a `pyarrow.Table`."""
    current, ids = index.metadata, index.ids
    files, rows = _files_of(items), {file: row for row, file in enumerate(_files_of(current))}
    twice = [file for file, count in Counter(files).items() if count > 1]
    require(not twice, f"{len(twice)} files twice, such as {twice[:1]}", "each file, or each box of a file, once")
    matched, checksums = [rows.get(file, -1) for file in files], items[CHECKSUM].to_pylist()
    states = current[CHECKSUM].to_pylist() if CHECKSUM in current.column_names else [None] * len(current)
    moved = _moved(items, files, current, rows, states)
    item_rows = np.array([max(row, moved.get(number, -1)) for number, row in enumerate(matched)], int)
    is_same = np.array([row >= 0 and states[row] == checksums[n] is not None for n, row in enumerate(item_rows)], bool)
    is_moved = is_same & np.isin(np.arange(len(files)), list(moved))
    updated = (item_rows >= 0) & ~is_same
    pairs = [(np.flatnonzero(mask), ids[item_rows[mask]]) for mask in (updated, is_moved)]
    return Changes(np.flatnonzero(item_rows < 0), *pairs)


def _moved(items, files, current, rows, states):
    """The row of an item whose file is gone for each new file of its path, or of its name and content; each once."""
    new = [number for number, file in enumerate(files) if file not in rows]
    gone: dict[Any, list[int]] = {}
    names, paths, checksums = (x.to_pylist() for x in (current[PATH], items[PATH], items[CHECKSUM]))
    keys = lambda path, checksum, box: {(path, box), (os.path.basename(path), checksum, box)}  # noqa: E731
    wanted = set().union(*(keys(paths[number], checksums[number], files[number][1]) for number in new))
    for (file, box), row in rows.items() if new else ():
        shared = wanted & keys(names[row] or "", states[row], box)
        for key in shared if shared and not os.path.lexists(file) else ():
            gone.setdefault(key, []).append(row)
    moved: dict[int, int] = {}
    left = {row for listed in gone.values() for row in listed}
    for has_content in (False, True):
        for number in (each for each in new if each not in moved):
            file, box = files[number]
            key = (os.path.basename(file), checksums[number], box) if has_content else (paths[number], box)
            row = next((each for each in gone.get(key, ()) if each in left), None)
            if row is not None and None not in key[:-1]:
                moved[number] = row
                left.remove(row)
    return moved


def _files_of(table):
    """The absolute path and the box of each item, which tell items apart."""
    roots = table[ROOT].to_pylist() if ROOT in table.column_names else [None] * len(table)
    boxes = table[BOX].to_pylist() if BOX in table.column_names else [None] * len(table)
    paths = [path or "" for path in table[PATH].to_pylist()]
    absolute = functools.cache(lambda root, folder: os.path.abspath(os.path.join(root or "", folder)))
    parts = zip(roots, map(os.path.split, paths), strict=True)
    files = [os.path.join(absolute(root, folder), name) for root, (folder, name) in parts]
    return [(file, box and tuple(box)) for file, box in zip(files, boxes, strict=True)]


def change(
    index: Any, items: Any, changes: Changes, vectors: np.ndarray, loaded: np.ndarray, new_id: Callable[..., int]
) -> np.ndarray:
    """Change an index, and return the ids of the items with new vectors, in their order.

    `loaded` are the rows among those that are added, then updated, whose files have `vectors`. `new_id` makes the id of
    an item from its path and its box.
    """
    num_new = len(changes.added)
    new, other = loaded[loaded < num_new], loaded[loaded >= num_new] - num_new
    current = index.metadata
    rows, ids = changes.updated[0][other], changes.updated[1][other]
    added = changes.added[new]
    new_items = _below_roots(items.take(added), current)
    new_ids = _new_ids(new_items, index.ids, new_id)
    is_new = loaded < num_new
    if len(ids):
        index.update(ids, vectors[~is_new], metadata=_merged(current.take(index.rows(ids)), items.take(rows)))
    if len(changes.moved[1]):
        moved_rows, moved = changes.moved
        table = index.metadata.take(index.rows(moved))
        index.update(moved, metadata=_merged(table, items.take(moved_rows), keeps_labels=True))
    if len(new_ids):
        index.add(vectors[is_new], new_ids, metadata=_as_columns(new_items, current))
    return np.concatenate([new_ids, ids])


def _below_roots(items, current):
    """Items whose paths begin at a root of the index, where it has one above their file."""
    roots = current[ROOT].unique().drop_null().to_pylist() if ROOT in current.column_names else []
    located = [_under(roots, *each) for each in zip(items[ROOT].to_pylist(), items[PATH].to_pylist(), strict=True)]
    for number, name in enumerate((ROOT, PATH)):
        column = pyarrow.array([target[number] for target in located], pyarrow.string())
        items = items.set_column(items.schema.get_field_index(name), name, column)
    return items


def _under(roots, root, path):
    file = os.path.normpath(os.path.join(root, path))
    above = next((each for each in roots if file.startswith(os.path.join(each, ""))), None)
    return (root, path) if above is None else (above, os.path.relpath(file, above))


def _new_ids(items, ids, new_id):
    """An id of each item that the index does not have, of the kind of its ids."""
    taken, new = set(ids.tolist()), []
    boxes = items[BOX].to_pylist() if BOX in items.column_names else [None] * len(items)
    as_kind = str if ids.dtype.kind == "U" else int
    for path, box in zip(items[PATH].to_pylist(), boxes, strict=True):
        number = new_id(path, box)
        while as_kind(number) in taken:
            number += 1
        new.append(as_kind(number))
        taken.add(new[-1])
    return np.array(new, ids.dtype.kind if as_kind is str else np.int64)


def _as_columns(items, current):
    """Items with the columns of an index: `label` is their class, and what they do not have is null."""
    columns = {name: items[name] for name in items.column_names}
    if CLASS not in current.column_names:
        columns[LABEL] = columns[CLASS]
    return pyarrow.table(
        {
            field.name: columns[field.name] if field.name in columns else pyarrow.nulls(len(items), field.type)
            for field in current.schema
        }
    )


def _merged(old, items, keeps_labels=False):
    """The metadata of items with another file or folder: those of the file, and the label that the set has, if any.

    `keeps_labels`: below a folder of the same name as before, an item keeps its label, which may have been corrected.
    """
    new = _as_columns(items, old)
    folders = [[os.path.basename(os.path.dirname(path)) for path in table[PATH].to_pylist()] for table in (old, new)]
    is_kept = pyarrow.array([keeps_labels and before == after for before, after in zip(*folders, strict=True)])
    columns = {name: new[name] if name in _OF_FILE else old[name] for name in old.column_names}
    for name in {CLASS, LABEL} & set(columns):
        kind = new[name].type if pyarrow.types.is_null(old[name].type) else old[name].type
        before, after = old[name].cast(kind), new[name].cast(kind)
        columns[name] = compute.if_else(is_kept, before, compute.coalesce(after, before))
    return pyarrow.table(columns)


def value_of(text: str, kind: Any) -> Any:
    """A text as a value of the type of a column, exactly; an empty one is null, and any other one a ValueError."""
    if text == "":
        return pyarrow.scalar(None, kind)
    kind = pyarrow.string() if pyarrow.types.is_null(kind) else kind  # of a column without a value
    expected = f"a value of type {kind}, as it is kept"
    try:
        value = pyarrow.scalar(text).cast(kind)
    except (pyarrow.ArrowException, NotImplementedError) as error:
        raise ValueError(f"Received {text!r}, expected {expected}: {error}.") from error
    types = pyarrow.types
    if types.is_floating(kind):
        is_same = float(text) == value.as_py()
    else:
        is_exact = types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind)
        is_same = not is_exact or str(value.as_py()) == text
    require(is_same, f"{text!r}, which is {value.as_py()} in the column", expected)
    return value


def rows_of_paths(paths: Sequence[str], table: Any) -> np.ndarray:
    """Rows of the files that paths name, as the index or as the current folder has them; a folder names all in it."""
    files, names = [file for file, _ in _files_of(table)], [path or "" for path in table[PATH].to_pylist()]

    def matched(path):
        target = os.path.abspath(path)
        rows = [
            row
            for row, (name, file) in enumerate(zip(names, files, strict=True))
            if f"{name}/".startswith(f"{path.rstrip('/')}/") or f"{file}/".startswith(os.path.join(target, ""))
        ]
        require(bool(rows), f"the path {path!r}", "a file of the index, or a folder of some")
        return rows

    return np.unique([row for path in paths for row in matched(path)])
