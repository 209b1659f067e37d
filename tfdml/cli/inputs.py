"""The models, sets, indexes and images that arguments name."""

import argparse
import contextlib
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np

from tfdml import datasets, export, search, visualize
from tfdml._core.checks import counted, require
from tfdml._core.checksums import FILE_TYPES, fingerprint, require_same_model
from tfdml._core.stored import read_json
from tfdml.cli.names import is_table
from tfdml.cli.printing import as_usage_error, say
from tfdml.datasets.readers.image_folder import EXTENSIONS, passed_over
from tfdml.datasets.readers.item_files import files_of, without_owner
from tfdml.datasets.splits import without_labels
from tfdml.embedding.files import metadata_of, read_embeddings, rewrite
from tfdml.embedding.in_memory import embed_blocks, not_loaded
from tfdml.export.serving_config import newest_version
from tfdml.models import TextModel
from tfdml.search.index.loading import is_index, versions_of
from tfdml.training.settings import is_training_run, require_no_run
from tfdml.typing import Embedder
from tfdml.zoo.entries import MODEL, EntryRef, load_reference

Index = search.Exact | search.Scann | search.Faiss | search.Lance
_TEXT = "text"  # the folder of a text model in that of a model
_PARALLEL_FILES = 8  # files that are decoded at the same time
_SPLITS = ("train", "training", "validation", "valid", "val", "dev", "test", "testing", "query", "gallery")


def open_model(path: str, preprocessing_file: str | None) -> tuple[Embedder, datasets.Preprocessing]:
    """A model that embeds images, and how it reads them."""
    with as_usage_error(f"--preprocessing {preprocessing_file}"):
        preprocessing = None if preprocessing_file is None else _read_preprocessing(preprocessing_file)
    with as_usage_error(f"MODEL={path!r}"):
        if is_training_run(path):  # it looks like a model of the zoo, too
            exported = export.load(path)
            return exported, preprocessing or exported.preprocessing
        if Path(path).is_file() and path.endswith(".keras"):
            model = keras.saving.load_model(path, compile=False)
            return model, preprocessing or datasets.Preprocessing.for_model(model)
        reference = EntryRef.parse(path)
        if not (Path(path) / "saved_model.pb").is_file() and reference.exists():
            model, own_preprocessing = load_reference(reference)
            return model, preprocessing or own_preprocessing
        exported = export.load(path)
        return exported, preprocessing or exported.preprocessing


def open_keras_model(
    path: str, preprocessing_file: str | None
) -> tuple[keras.Model, datasets.Preprocessing, list[str] | None]:
    """A Keras model, how it reads images, and the names of its classes where they are known."""
    with as_usage_error(f"--preprocessing {preprocessing_file}"):
        preprocessing = None if preprocessing_file is None else _read_preprocessing(preprocessing_file)
    with as_usage_error(f"RUN={path!r}"):
        if Path(path).is_file() and path.endswith(".keras"):
            model = keras.saving.load_model(path, compile=False)
            return model, preprocessing or datasets.Preprocessing.for_model(model), None
        reference = EntryRef.parse(path)
        expected = "what tfdml train wrote, a .keras file, or a model of the zoo; a SavedModel cannot be exported again"
        require(reference.exists(), "no such model", expected)
        model, own_preprocessing = load_reference(reference)
        names = newest_version(path) / "assets.extra" / "class_names.json"
        return model, preprocessing or own_preprocessing, read_json(names, list) if names.is_file() else None


def open_similarity_map(options: argparse.Namespace, model: Any, served: str | None) -> Callable[..., Any] | None:
    """`visualize.similarity_map` of a model, which a run loads at the first call; None for an export alone."""
    if isinstance(model, keras.Model):
        return partial(visualize.similarity_map, model)
    if not (Path(options.model) / MODEL).is_file():
        return None

    @cache
    def loaded():
        network, preprocessing, _ = open_keras_model(options.model, options.preprocessing)
        require_same_model(MODEL, fingerprint(network, preprocessing), "the export", served)
        return network

    return lambda a, b: visualize.similarity_map(loaded(), a, b)


def open_text_model(path: str) -> TextModel | None:
    """The text model in the folder of a model; None without one."""
    with as_usage_error(f"MODEL={path!r}"):
        return TextModel.load(Path(path) / _TEXT) if (Path(path) / _TEXT).is_dir() else None


def open_index_or_run(
    options: argparse.Namespace, model: str | None = None
) -> tuple[Index | None, Callable[[], visualize.Thumbnails | None] | None]:
    """The index that INDEX names, else the index of a run with a function that opens its thumbnails, which change.

    None for what there is not. During a migration, it is the index of the model of this fingerprint.
    """
    if options.index is not None:
        return open_index_with_metadata(options.index, model), None
    index, thumbnails = Path(options.model) / "index", Path(options.model) / "thumbnails.npz"
    with as_usage_error(f"MODEL={options.model!r}"):
        if not is_training_run(options.model) or not index.is_dir():
            return None, None
        newest = partial(_open_thumbnails, thumbnails)
        return search.load(index), newest if newest() is not None else None


def _open_thumbnails(path):
    return visualize.Thumbnails.load(path) if path.is_file() else None


def _read_preprocessing(path):
    return datasets.Preprocessing.from_config(read_json(Path(path)))


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
        return without_labels(sets if isinstance(sets, tuple) else (sets,), options.unlabelled)
    require_no_run(options.set)
    with _without_warnings_of_left_out():
        sets = datasets.folder(options.set, splits=splits, load=load, unlabelled=options.unlabelled)
    return sets if isinstance(sets, tuple) else (sets,)


def _read_other_set(options, splits, load):
    if options.set.startswith("tfds:"):
        require(splits is not None, "no --split", "--split with the name of a split of the data set")
        return datasets.tfds(options.set.removeprefix("tfds:"), options.split, load=load)
    columns = {"path": options.path_column, "label": options.label_column, "box": options.box_columns}
    return datasets.table(options.set, splits=splits, load=load, on_error="skip", **columns)


def split_folders(folder: Path) -> list[Path]:
    """The folders in a folder that has splits, and no images beside them; else the folder itself."""
    require(folder.is_dir(), f"{str(folder)!r}, which is not a folder", "a folder of images")
    children = _subfolders(folder)
    splits = [child for child in children if child.name.casefold() in _SPLITS]
    if len(splits) < 2 and not any(map(_subfolders, splits)):  # a class may be called "train"
        return [folder]
    _require_no_images_beside(folder)
    return sorted(children, key=_order)


def _order(folder):
    """The known splits in their order, then the others."""
    name = folder.name.casefold()
    return _SPLITS.index(name) if name in _SPLITS else len(_SPLITS)


def _subfolders(folder):
    return [child for child in _visible(folder) if child.is_dir()]


def _images(folder):
    """The image files in a folder itself."""
    return [child for child in _visible(folder) if child.is_file() and child.suffix.lower() in EXTENSIONS]


def _visible(folder):
    return sorted(child for child in folder.iterdir() if not child.name.startswith("."))


def _require_no_images_beside(folder):
    """Refuse images beside folders of images, since they would be left out."""
    names = [str(image) for image in _images(folder)]
    received = f"{str(folder)!r} with {counted(len(names), 'image')} beside its folders, such as {names[:1]}"
    require(not names, received, "images in its folders only. Move them into a folder")


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


def open_index(
    path: str, model: str | None = None, *, columns: bool = False
) -> tuple[Any, Callable[[Any], dict[str, Any]]]:
    """An index or embeddings, and a function from an id to metadata, to which `columns` adds labels and paths."""
    if columns or is_index(path):
        return (index := open_index_with_metadata(path, model)), lambda id: _metadata_of_item(index, id)
    with as_usage_error(f"INDEX={path!r}"):
        embeddings = read_embeddings(path)
        return search.Exact(embeddings.embeddings, embeddings.rows, model=embeddings), lambda row: _metadata_of_row(
            embeddings, row
        )


def newer_index(path: str, model: str | None) -> Callable[[], Index | None]:
    """Function that returns the index of a model once its folder, URL or migration has another version; else None."""
    seen = versions_of(path)

    def newer():
        nonlocal seen
        before, seen = seen, versions_of(path)
        try:
            return None if seen == before else search.load(path, model=model)
        except OSError:  # may pass: the next call tries again
            seen = before
            raise

    return newer


def embedder_of_paths(
    model: Embedder,
    preprocessing: datasets.Preprocessing,
    batch_size: int,
    root: str | None = None,
    problems: dict[str, str] | None = None,
) -> Callable[[np.ndarray, Any], np.ndarray]:
    """Function that embeds items of an index by the files in their column `path`; NaN where one cannot be read.

    A file that is not the one of its item, by size and checksum, is not read. `problems` gets the reason by file.
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


def open_index_with_metadata(path: str, model: str | None = None, metric: str = "cosine") -> Index:
    """An index; labels and paths of embeddings become its metadata, and their metric is `metric`."""
    with as_usage_error(f"INDEX={path!r}"):
        if is_index(path):
            return search.load(path, model=model, other_model=True)  # compared later
        embeddings = read_embeddings(path)
        vectors, ids, table = embeddings.embeddings, embeddings.rows, metadata_of(embeddings)
        return search.Exact(vectors, ids, metadata=table, model=embeddings, metric=metric)


def save_index(path: str, index: Index) -> None:
    """Write an index that `open_index_with_metadata` read with the metric "dot", as what it was."""
    if is_index(path):
        return index.save(path)
    order, table = np.argsort(index.ids), cast(Any, index.metadata)
    table = table.take(order)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    names = sorted({name for name in columns.get("label", ()) if name is not None})
    numbers = {None: -1} | {name: number for number, name in enumerate(names)}
    changed = replace(
        read_embeddings(path),
        embeddings=index.vectors[order],
        rows=index.ids[order],
        paths=np.array(columns["path"]),
        labels=np.array([numbers[name] for name in columns["label"]], np.int64) if "label" in columns else None,
        class_names=tuple(names),
        boxes=np.array(columns["box"], np.float64) if "box" in columns else None,
        files={name: columns[name] for name in FILE_TYPES},
    )
    return rewrite(path, changed)


def _metadata_of_item(index, id):
    """The metadata columns of an item, as JSON has them; anything that JSON does not have as text."""
    rows = [] if index.metadata is None else index.metadata.take(index.rows([id])).to_pylist()
    return {name: _as_json(row[name]) for row in rows for name in without_owner(row)}


def _as_json(value):
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _metadata_of_row(embeddings, row):
    """Label and path of a row of embeddings, where they have them."""
    index = np.searchsorted(embeddings.rows, row)  # rows ascend
    label = -1 if embeddings.labels is None else embeddings.labels[index]
    label = {} if label < 0 else {"label": embeddings.class_names[label]}
    return label | ({} if embeddings.paths is None else {"path": str(embeddings.paths[index])})


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
