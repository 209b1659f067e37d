"""The sets and images that arguments name."""

import argparse
import contextlib
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfdml import datasets
from tfdml._core.checks import counted, require
from tfdml.cli.arguments import is_table
from tfdml.cli.printing import as_usage_error, say
from tfdml.datasets.readers.image_folder import EXTENSIONS, passed_over
from tfdml.datasets.readers.item_files import files_of
from tfdml.datasets.splits import without_labels
from tfdml.embedding.in_memory import embed_blocks, not_loaded
from tfdml.training.settings_file import require_no_run
from tfdml.typing import Embedder

_PARALLEL_FILES = 8  # files that are decoded at the same time
_SPLITS = ("train", "training", "validation", "valid", "val", "dev", "test", "testing", "query", "gallery")


def open_set(
    options: argparse.Namespace, preprocessing: datasets.Preprocessing, *, says_left_out: bool = True
) -> datasets.LabeledSet:
    """The set that SET names, read as the model reads images."""
    with as_usage_error(f"SET={options.set!r}"):
        labeled_set, *_ = _read_sets(options, preprocessing)
    if says_left_out:
        say_left_out(labeled_set)
    return labeled_set


def _read_sets(options: argparse.Namespace, load: datasets.Preprocessing) -> Any:
    """A list of one set. The model embeds what is in its boxes, if it has some."""
    load = load if options.box_columns is None else replace(load, boxes=True)
    splits = None if options.split is None else (options.split,)
    if options.set.startswith("tfds:") or is_table(options.set):
        sets = _read_other_set(options, splits, load)
        return without_labels(sets if isinstance(sets, tuple) else (sets,), options.no_label)
    require_no_run(options.set)
    with _without_warnings_of_left_out():
        sets = datasets.folder(options.set, splits=splits, load=load, no_label=options.no_label)
    return sets if isinstance(sets, tuple) else (sets,)


def _read_other_set(options, splits, load):
    if options.set.startswith("tfds:"):
        require(splits is not None, "no --split", "--split with the name of a split of the data set")
        return datasets.tfds(options.set.removeprefix("tfds:"), options.split, load=load)
    columns = {"path": options.path_column, "label": options.label_column, "box": options.box_columns}
    return datasets.table(options.set, splits=splits, load=load, on_error="skip", **columns)


def split_folders(folder: Path) -> list[Path]:
    """The folders in a folder that has splits, the known ones first, and no images beside them; else the folder."""
    children = _visible(folder)
    folders = [child for child in children if child.is_dir()]
    splits = [child for child in folders if child.name.casefold() in _SPLITS]
    if len(splits) < 2 and not any(child.is_dir() for split in splits for child in _visible(split)):
        return [folder]  # a class may be called "train"
    images = [str(child) for child in children if child.is_file() and child.suffix.lower() in EXTENSIONS]
    received = f"{str(folder)!r} with {counted(len(images), 'image')} beside its folders, such as {images[:1]}"
    require(not images, received, "images in its folders only. Move them into a folder")
    names = {name: number for number, name in enumerate(_SPLITS)}
    return sorted(folders, key=lambda child: names.get(child.name.casefold(), len(names)))


def _visible(folder):
    return sorted(child for child in folder.iterdir() if not child.name.startswith("."))


def open_folder(folder: Path, load: datasets.Preprocessing) -> datasets.LabeledSet:
    """The set of a folder with one subfolder per class, or of images without a label."""
    with _without_warnings_of_left_out():
        images = datasets.folder(folder, load=load)
    say_left_out(images)
    return images


@contextlib.contextmanager
def _without_warnings_of_left_out():
    """Hide what a reader warns of and a command says by itself: the files and folders that a set leaves out."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*`skipped` of the result lists them")
        yield


def say_left_out(labeled_set: datasets.LabeledSet) -> None:
    """Print on stderr how many files or rows a set leaves out, and the first one with its reason."""
    left_out = passed_over(labeled_set)
    if left_out:
        name, reason = left_out[0]
        say(f"left out of the set: {len(left_out):,}, first {name}: {reason}")


def embedder_of_paths(
    model: Embedder,
    preprocessing: datasets.Preprocessing,
    batch_size: int,
    root: str | None = None,
    problems: dict[str, str] | None = None,
) -> Callable[[np.ndarray, Any], np.ndarray]:
    """Function that embeds items of an index by the files in their column `path`; NaN where one cannot be read.

    A file of another size or checksum than its item's is not read. `problems` gets the reason by file.
    """
    problems = {} if problems is None else problems

    def embed(ids, metadata):
        files = files_of(metadata.to_pylist(), root)
        here = np.array([row for row, file in enumerate(files) if isinstance(file, Path)], int)
        problems.update(str(file).rsplit(": ", 1) for file in files if not isinstance(file, Path))
        metadata, paths = metadata.take(here), np.array([str(files[row]) for row in here])
        boxes = metadata["box"] if "box" in metadata.column_names else None
        if boxes is not None:
            received = f"{counted(boxes.null_count, 'item')} without a box"
            require(boxes.null_count == 0, received, "a box in the column box of each item, or no such column")
            boxes = np.array(boxes.to_pylist(), float)
        load = replace(preprocessing, boxes=True) if boxes is not None else preprocessing
        none = np.zeros(len(here), int)
        images = datasets.LabeledSet(paths=paths, boxes=boxes, labels=none, class_names=("",), load=load)
        blocks = list(embed_blocks(model, images, batch_size)) if len(here) else []
        vectors = np.full((len(ids), blocks[0][0].shape[1] if blocks else 1), np.nan, np.float32)
        for embeddings, rows in blocks:
            vectors[here[rows]] = embeddings
        loaded = np.concatenate([np.empty(0, int), *(rows for _, rows in blocks)])
        unread = not_loaded(images, np.setdiff1d(np.arange(len(here)), loaded))
        problems.update((name, reason) for _, name, reason in unread)
        return vectors

    return embed


def read_images(
    paths: Sequence[str], preprocessing: datasets.Preprocessing, box: Sequence[float] | None = None
) -> np.ndarray:
    """Image files, or what is in a box of each, as an array of what the model takes."""
    read = preprocessing.reader()
    with as_usage_error("IMAGE"), ThreadPoolExecutor(_PARALLEL_FILES) as threads:
        results = list(threads.map(lambda path: read(Path(path).read_bytes(), box), paths))
        problems = [f"{path}: {reason}" for path, (_, reason) in zip(paths, results, strict=True) if reason]
        if problems:  # a reason says what is expected
            raise ValueError(f"Received {'; '.join(problems)}")
        return np.stack([pixels for pixels, _ in results])
