"""`tfdml index`: the items of an index are added, removed, listed, and their columns set."""

import argparse
import functools
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from pyarrow import compute

from tfdml._core.atomic import only_writer
from tfdml._core.checks import require
from tfdml._core.checksums import CHECKSUM, FILE_TYPES, ROOT, fingerprint, require_same_model
from tfdml.cli import inputs
from tfdml.cli.commands import _mask
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, as_records, as_usage_error, print_result, say_skipped
from tfdml.cli.references import Reference, as_json
from tfdml.datasets.readers.item_files import (
    BOX,
    CLASS,
    LABEL,
    PATH,
    id_of,
    item_table,
    without_owner,
)
from tfdml.embedding.in_memory import embed_blocks, not_loaded
from tfdml.visualize.thumbnails import change_thumbnails

_FILE = (PATH, *FILE_TYPES)


class _Changes(NamedTuple):
    """Rows of SET: those that are no items yet, and `(rows, ids)` of items with another file, or in another folder."""

    added: np.ndarray
    updated: tuple[np.ndarray, np.ndarray]
    moved: tuple[np.ndarray, np.ndarray]


def run_index(options: argparse.Namespace) -> int:
    """Change or list the items of an index; nothing is written if anything is refused."""
    reference = Reference(options.index, argument="INDEX")
    target = reference.index_of_run() or reference
    action: Callable[..., int] = {"add": _add, "remove": _remove, "set": _set, "list": _list}[options.action]
    if options.action == "list" or options.dry_run or "://" in target.path:
        return action(options, target)
    with only_writer(target.path, "INDEX"):
        return action(options, target)


def _load(target):
    index = target.index(metric="dot")
    with as_usage_error(f"INDEX={target.path!r}"):
        expected = "an index of files. Others change in Python, by tfdml.search"
        table = index.metadata
        require(table is not None and PATH in table.column_names, "an index without a column 'path'", expected)
    return index


def _add(options, target):
    index = _load(target)
    with as_usage_error("--model"):
        require(options.model is not None or target.run is not None, "no model", "the MODEL of the index")
    model, preprocessing = Reference(options.model or str(target.run), options.preprocessing).model()
    with as_usage_error(f"INDEX={options.index!r}"):
        require_same_model("images", fingerprint(model, preprocessing), "the index", index.fingerprint)
    images = inputs.open_set(options, preprocessing)
    with as_usage_error(f"SET={options.set!r}"):
        items = _items_of(images, index.metadata)
        changes = _changes(items, index)
    rows = np.concatenate([changes.added, changes.updated[0]])
    if options.dry_run:
        skipped = images.take(rows).unreadable_files() if len(rows) else ()
        loaded, vectors = np.delete(np.arange(len(rows)), [row for row, *_ in skipped]), None
    else:
        vectors, loaded, skipped = _embedded(model, images.take(rows), options.batch_size)
    say_skipped(skipped)
    num_added = int((loaded < len(changes.added)).sum())
    counts = {"added": num_added, "updated": len(loaded) - num_added, "moved": len(changes.moved[0])}
    counts["unchanged"] = len(items) - len(rows) - counts["moved"]
    total = len(index) + num_added
    if not options.dry_run and any(counts[name] for name in ("added", "updated", "moved")):
        ids = _write_items(index, items, changes, vectors, loaded)
        _write(target, index, ids, images.take(rows[loaded]), items[CHECKSUM].take(rows[loaded]).to_pylist())
    return _print_counts(options, counts, total, as_records(skipped))


def _embedded(model, images, batch_size):
    """Vectors and rows of the images that can be loaded, which may be none, and the problems of the others."""
    blocks = list(embed_blocks(model, images, batch_size)) if len(images) else []
    loaded = np.concatenate([np.empty(0, np.int64), *(rows for _, rows in blocks)])
    vectors = np.concatenate([vectors for vectors, _ in blocks]) if blocks else np.empty((0, 0), np.float32)
    return vectors, loaded, not_loaded(images, np.setdiff1d(np.arange(len(images)), loaded))


def _items_of(images, current):
    """The items of a set, with boxes where the index has them."""
    require(images.paths is not None, "a set without paths", "image files")
    has_boxes = getattr(images.load, "boxes", False)
    expected = "--box-columns for an index with a column 'box', and for no other"
    require(has_boxes == (BOX in current.column_names), f"{'' if has_boxes else 'no '}boxes", expected)
    return item_table(images)


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


def _files_of(table):
    """The absolute path and the box of each item, which tell items apart."""
    roots = table[ROOT].to_pylist() if ROOT in table.column_names else [None] * len(table)
    boxes = table[BOX].to_pylist() if BOX in table.column_names else [None] * len(table)
    paths = [path or "" for path in table[PATH].to_pylist()]
    absolute = functools.cache(lambda root, folder: os.path.abspath(os.path.join(root or "", folder)))
    parts = zip(roots, map(os.path.split, paths), strict=True)
    files = [os.path.join(absolute(root, folder), name) for root, (folder, name) in parts]
    return [(file, box and tuple(box)) for file, box in zip(files, boxes, strict=True)]


def _changes(items, index):
    """The changes of an index by which it gets items."""
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
    return _Changes(np.flatnonzero(item_rows < 0), *pairs)


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


def _write_items(index, items, changes, vectors, loaded):
    """Change the index, and return the ids of the items that have new vectors, in their order."""
    num_new = len(changes.added)
    new, other = loaded[loaded < num_new], loaded[loaded >= num_new] - num_new
    current = index.metadata
    rows, ids = changes.updated[0][other], changes.updated[1][other]
    added = changes.added[new]
    new_items = _below_roots(items.take(added), current)
    new_ids = _new_ids(new_items, index.ids)
    is_new = loaded < num_new
    if len(ids):
        index.update(ids, vectors[~is_new], metadata=_merged(current.take(index.rows(ids)), items.take(rows)))
    if len(changes.moved[1]):
        moved_rows, moved = changes.moved
        table = index.metadata.take(index.rows(moved))
        index.update(moved, metadata=_merged(table, items.take(moved_rows)))
    if len(new_ids):
        index.add(vectors[is_new], new_ids, metadata=_as_columns(new_items, current))
    return np.concatenate([new_ids, ids])


def _new_ids(items, ids):
    """An id of each item that the index does not have, of the kind of its ids."""
    taken, new = set(ids.tolist()), []
    boxes = items[BOX].to_pylist() if BOX in items.column_names else [None] * len(items)
    as_kind = str if ids.dtype.kind == "U" else int
    for path, box in zip(items[PATH].to_pylist(), boxes, strict=True):
        number = id_of(path, box)
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


def _merged(old, items):
    """The metadata of items with another file or folder: those of the file, and the label that the set has, if any."""
    new = _as_columns(items, old)
    columns = {name: new[name] if name in _FILE else old[name] for name in old.column_names}
    for name in {CLASS, LABEL} & set(columns):
        kind = new[name].type if pyarrow.types.is_null(old[name].type) else old[name].type
        columns[name] = compute.coalesce(new[name].cast(kind), old[name].cast(kind))
    return pyarrow.table(columns)


def _write(target, index, ids=(), images=None, versions=()):
    """Write an index, after the thumbnails of its items: with those of new ones, and without those that are gone."""
    thumbnails = Path(target.path).with_name("thumbnails.npz")
    if target.run is not None and Path(target.path).name == "index" and thumbnails.is_file():
        change_thumbnails(thumbnails, index.ids, ids, images, versions)
    target.save(index)


def _print_counts(options, counts, total, skipped=None):
    """Print what was changed, or would be, as one line; `skipped` are records of files that cannot be read."""
    texts = [f"{number:,} {name}" for name, number in counts.items()]
    texts += [] if skipped is None else [f"{len(skipped):,} skipped"]
    record = {"index": options.index, **counts, **({} if skipped is None else {"skipped": skipped})}
    would = "nothing written, " if options.dry_run else ""
    line = f"{options.index}: {would}{', '.join(texts)}; {total:,} items"
    print_result(options, record | {"items": total, "dry_run": options.dry_run}, [line])
    return EXIT_FAILED if skipped else EXIT_OK


def _remove(options, target):
    index = _load(target)
    ids = _chosen(options, index)
    with as_usage_error(f"INDEX={options.index!r}"):
        received = f"all {len(ids):,} items"
        require(len(ids) < len(index), received, "one at least to keep. Remove the folder, or build another index")
        if not options.dry_run:
            index.remove(ids)
            _write(target, index)
    return _print_counts(options, {"removed": len(ids)}, len(index) - options.dry_run * len(ids))


def _set(options, target):
    index = _load(target)
    ids = _chosen(options, index)
    name, separator, text = options.value.partition("=")
    with as_usage_error(f"COLUMN=VALUE={options.value!r}"):
        shown = without_owner(index.metadata.column_names)
        is_column = bool(separator) and (name in shown or (name == ROOT and ROOT in index.metadata.column_names))
        require(is_column and name != PATH, f"{name!r}", f"COLUMN=VALUE with one of {', '.join(shown)}")
        table = index.metadata.take(index.rows(ids))
        value = value_of(text, table.schema.field(name).type)
    column = pyarrow.array([value.as_py()] * len(ids), value.type)
    num_changed = len(ids) - (compute.sum(compute.equal(table[name], column)).as_py() or 0)
    if not options.dry_run and num_changed:
        number = table.schema.get_field_index(name)
        index.update(ids, metadata=table.set_column(number, name, column))
        _write(target, index)
    return _print_counts(options, {"set": num_changed, "unchanged": len(ids) - num_changed}, len(index))


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


def _list(options, target):
    index = _load(target)
    ids = _chosen(options, index, all_by_default=True)
    table = index.metadata.take(index.rows(ids))
    rows = table.select(without_owner(table.column_names)).to_pylist()
    records = [
        {"id": id, "metadata": {name: as_json(value) for name, value in row.items()}}
        for id, row in zip(ids.tolist(), rows, strict=True)
    ]
    print_result(options, records, map(_line, records))
    return EXIT_OK


def _line(record):
    """The id, the label and the path of an item, then its other columns."""
    metadata = dict(record["metadata"])
    first = [str(metadata.pop(name) or "-") for name in (CLASS, LABEL, PATH) if name in metadata]
    return "  ".join([f"{record['id']:>8}", *first, *(f"{name}={value}" for name, value in metadata.items())])


def _chosen(options, index, all_by_default=False):
    """The ids that the options name, by ids, paths or values of columns."""
    named = [name for name in ("ids", "path", "where") if getattr(options, name)]
    with as_usage_error(" ".join(["ID", "--path", "--where"])):
        if all_by_default and not named:
            return index.ids
        require(len(named) == 1, f"{len(named)} of them", "one: ids, or --path, or --where")
        if named == ["where"]:
            return index.ids[_mask(options.where, index)]
        rows = _rows_of_ids(options.ids, index) if named == ["ids"] else _rows_of_paths(options.path, index.metadata)
    return index.ids[rows]


def _rows_of_ids(texts, index):
    is_text = index.ids.dtype.kind == "U"
    wrong = [text for text in texts if not (is_text or text.removeprefix("-").isdecimal())]
    require(not wrong, f"the id {wrong[:1]}", "whole numbers, as the index has them")
    return np.unique(index.rows(texts if is_text else [int(text) for text in texts]))


def _rows_of_paths(paths, table):
    """Rows of the files that paths name, as the index or as this folder has them; a folder names all in it."""
    files, names = [file for file, _ in _files_of(table)], [path or "" for path in table[PATH].to_pylist()]

    def matched(path):
        target = os.path.abspath(path)
        rows = [
            row
            for row, (name, file) in enumerate(zip(names, files, strict=True))
            if f"{name}/".startswith(f"{path.rstrip('/')}/") or f"{file}/".startswith(os.path.join(target, ""))
        ]
        require(bool(rows), f"--path {path}", "a file of the index, or a folder of some")
        return rows

    return np.unique([row for path in paths for row in matched(path)])
