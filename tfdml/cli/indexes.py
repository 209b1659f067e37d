"""`tfdml index`: add, remove and list items of an index, and set their columns; see `search/index/file_items.py`."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import compute

from tfdml._core.atomic import only_writer
from tfdml._core.checks import require
from tfdml._core.checksums import BOX, CHECKSUM, CLASS, LABEL, PATH, ROOT, fingerprint, require_same_model
from tfdml.cli import inputs
from tfdml.cli.commands import _mask
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, as_records, as_usage_error, print_result, say_skipped
from tfdml.cli.references import Reference, as_json
from tfdml.datasets.images.beside import Beside
from tfdml.datasets.readers.item_files import id_of, item_table, without_owner
from tfdml.datasets.readers.label_tables import labels_of_paths
from tfdml.embedding.in_memory import embed_batches, embed_blocks, not_loaded
from tfdml.search.index.file_items import change, changes_of, rows_of_paths, value_of
from tfdml.visualize.thumbnails import change_thumbnails, thumbnail_of


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
        changes = changes_of(index, items)
    rows = np.concatenate([changes.added, changes.updated[0]])
    if options.dry_run:
        skipped = images.take(rows).unreadable_files() if len(rows) else ()
        loaded, vectors = np.delete(np.arange(len(rows)), [row for row, *_ in skipped]), None
    else:
        is_shown = _thumbnails_of(target) is not None
        vectors, jpegs, loaded, skipped = _embedded(model, images.take(rows), options.batch_size, is_shown)
    say_skipped(skipped)
    num_added = int((loaded < len(changes.added)).sum())
    counts = {"added": num_added, "updated": len(loaded) - num_added, "moved": len(changes.moved[0])}
    counts["unchanged"] = len(items) - len(rows) - counts["moved"]
    total = len(index) + num_added
    if not options.dry_run and any(counts[name] for name in ("added", "updated", "moved")):
        ids = change(index, items, changes, vectors, loaded, id_of)
        _write(target, index, ids, jpegs, items[CHECKSUM].take(rows[loaded]).to_pylist())
    return _print_counts(options, counts, total, as_records(skipped))


class _WithThumbnails:
    """A model of images that come with their thumbnails from one decoding; `jpegs` are of those that it embedded."""

    def __init__(self, model):
        self.model, self.jpegs = model, []

    def predict_on_batch(self, examples):
        """Embeddings `(batch, dim)`."""
        images, jpegs = examples
        self.jpegs += np.asarray(jpegs).tolist()
        return embed_batches(self.model, [(images, jpegs)])[0]


def _embedded(model, images, batch_size, is_shown):
    """Vectors, thumbnails and rows of the images that can be loaded, perhaps none, and the problems of the others."""
    embedder = _WithThumbnails(model)
    data = replace(images, load=Beside(images.load, thumbnail_of)) if is_shown else images
    blocks = list(embed_blocks(embedder if is_shown else model, data, batch_size)) if len(images) else []
    loaded = np.concatenate([np.empty(0, np.int64), *(rows for _, rows in blocks)])
    vectors = np.concatenate([vectors for vectors, _ in blocks]) if blocks else np.empty((0, 0), np.float32)
    return vectors, embedder.jpegs, loaded, not_loaded(images, np.setdiff1d(np.arange(len(images)), loaded))


def _items_of(images, current):
    """The items of a set, with boxes where the index has them."""
    require(images.paths is not None, "a set without paths", "image files")
    has_boxes = getattr(images.load, "boxes", False)
    expected = "--box-columns for an index with a column 'box', and for no other"
    require(has_boxes == (BOX in current.column_names), f"{'' if has_boxes else 'no '}boxes", expected)
    return item_table(images)


def _thumbnails_of(target):
    """The file of the thumbnails of the items of a run; None without one."""
    file = Path(target.path).with_name("thumbnails.npz")
    return file if target.run is not None and Path(target.path).name == "index" and file.is_file() else None


def _write(target, index, ids=(), jpegs=(), versions=()):
    """Write an index. Before that, its thumbnails get those of new items, and lose those of removed ones."""
    if (thumbnails := _thumbnails_of(target)) is not None:
        change_thumbnails(thumbnails, index.ids, ids, jpegs, versions)
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
    name, separator, text = options.value.partition("=")
    with as_usage_error(f"COLUMN=VALUE={options.value!r}"):
        shown = without_owner(index.metadata.column_names)
        is_column = name in shown or (name == ROOT and ROOT in index.metadata.column_names)
        form = "COLUMN=VALUE" if options.table is None else "a COLUMN alone, as --table has its values"
        is_form = bool(separator) == (options.table is None)
        require(is_form and is_column and name != PATH, f"{name!r}", f"{form} with one of {', '.join(shown)}")
        ids, texts = _given(options, index, text)
        table = index.metadata.take(index.rows(ids))
        kind = table.schema.field(name).type
        values = {each: value_of(each, kind) for each in dict.fromkeys(texts)}
    kind = next((value.type for value in values.values() if value.is_valid), kind)
    column = pyarrow.array([values[each].as_py() for each in texts], kind)
    num_changed = len(ids) - (compute.sum(compute.equal(table[name], column)).as_py() or 0)
    if not options.dry_run and num_changed:
        number = table.schema.get_field_index(name)
        index.update(ids, metadata=table.set_column(number, name, column))
        _write(target, index)
    return _print_counts(options, {"set": num_changed, "unchanged": len(ids) - num_changed}, len(index))


def _given(options, index, text):
    """The ids of the items to set, and the text of the value of each."""
    if options.table is None:
        ids = _chosen(options, index)
        return ids, [text] * len(ids)
    named = labels_of_paths(options.table)
    received = "--table beside ID, --path or --where"
    require(not (options.ids or options.path or options.where), received, "one of them")
    paths = [(rows_of_paths([path], index.metadata), label) for path, label in named.items()]
    texts = {row: label for rows, label in paths for row in rows.tolist()}
    return index.ids[list(texts)], list(texts.values())


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
        rows = _rows_of_ids(options.ids, index) if named == ["ids"] else rows_of_paths(options.path, index.metadata)
    return index.ids[rows]


def _rows_of_ids(texts, index):
    is_text = index.ids.dtype.kind == "U"
    wrong = [text for text in texts if not (is_text or text.removeprefix("-").isdecimal())]
    require(not wrong, f"the id {wrong[:1]}", "whole numbers, as the index has them")
    return np.unique(index.rows(texts if is_text else [int(text) for text in texts]))
