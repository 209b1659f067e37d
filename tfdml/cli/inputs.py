"""The models, sets, indexes and images that arguments name."""

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdml import datasets, embedding, export, search, visualize
from tfdml._core.checks import require
from tfdml._core.json_files import read_json
from tfdml.cli.options.names import is_table
from tfdml.cli.printing import UsageError, say
from tfdml.export.serving_config import newest_version
from tfdml.training.settings import is_training_run, require_no_run
from tfdml.typing import Embedder
from tfdml.zoo.entries import EntryRef, load_reference


@contextlib.contextmanager
def as_usage_error(argument: str) -> Iterator[None]:
    """Turn the errors inside into a `UsageError` that names the argument."""
    try:
        yield
    except Exception as error:  # of any library that reads files
        raise UsageError(f"{argument}: {error}") from error


def open_model(path: str, preprocessing_file: str | None) -> tuple[Embedder, datasets.Preprocessing]:
    """A model that embeds images, and how it reads them.

    Raises:
        UsageError: there is no model, or it cannot be read.
    """
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
    """A Keras model, how it reads images, and the names of its classes where they are known.

    Raises:
        UsageError: there is no model, it cannot be read, or it is a SavedModel.
    """
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


def open_run(path: str) -> tuple[search.Exact | search.Scann | search.Faiss | None, visualize.Thumbnails | None]:
    """The index in a folder that `tfdml train` wrote, and the thumbnails of its items; None for what it does not have.

    Raises:
        UsageError: settings, an index or thumbnails that cannot be read.
    """
    index, thumbnails = Path(path) / "index", Path(path) / "thumbnails.npz"
    with as_usage_error(f"MODEL={path!r}"):
        if not is_training_run(path) or not index.is_dir():
            return None, None
        return search.load(index), visualize.Thumbnails.load(thumbnails) if thumbnails.is_file() else None


def _read_preprocessing(path):
    return datasets.Preprocessing.from_config(read_json(Path(path)))


def open_set(options: argparse.Namespace, preprocessing: datasets.Preprocessing) -> datasets.LabeledSet:
    """The set that SET names, read as the model reads images.

    Raises:
        UsageError: there is no set, it has no images, or it cannot be read.
    """
    with as_usage_error(f"SET={options.set!r}"):
        sets = _read_sets(options, preprocessing)
    labeled_set = sets[0] if isinstance(sets, tuple) else sets
    say_left_out(labeled_set)
    return labeled_set


def _read_sets(options: argparse.Namespace, load: datasets.Preprocessing) -> Any:
    """A set, or a tuple of one set where `--split` names it."""
    splits = None if options.split is None else (options.split,)
    if options.set.startswith("tfds:"):
        require(splits is not None, "no --split", "--split with the name of a split of the data set")
        return datasets.tfds(options.set.removeprefix("tfds:"), options.split, load=load)
    if is_table(options.set):
        columns = {"path": options.path_column, "label": options.label_column, "box": options.box_columns}
        return datasets.table(options.set, splits=splits, load=load, on_error="skip", **columns)
    require_no_run(options.set)
    return datasets.folder(options.set, splits=splits, load=load)


def say_left_out(labeled_set: datasets.LabeledSet) -> None:
    """Print on stderr how many files or rows a set leaves out, and the first one with its reason."""
    left_out = [(name, reason) for name, reason in labeled_set.skipped if not is_of_another_split(reason)]
    if left_out:
        name, reason = left_out[0]
        say(f"left out of the set: {len(left_out):,}, first {name}: {reason}")


def is_of_another_split(reason: str) -> bool:
    """Whether a row of a table is left out for its split, which is no problem."""
    return reason.startswith("split ")


def open_index(path: str, *, columns: bool = False) -> tuple[Any, Callable[[Any], dict[str, Any]]]:
    """An index, and a function from an id to its metadata.

    Args:
        path: folder of an index, or what `tfdml.embedding.write_embeddings` wrote.
        columns: whether labels and paths of embeddings become metadata of the index, which needs pyarrow.

    Raises:
        UsageError: there is neither an index nor embeddings, or they cannot be read.
    """
    if columns or _is_index(path):
        return (index := open_index_with_metadata(path)), lambda id: _metadata_of_item(index, id)
    with as_usage_error(f"INDEX={path!r}"):
        embeddings = embedding.read_embeddings(path)
        return search.Exact(embeddings.embeddings, embeddings.rows, model=embeddings), lambda row: _metadata_of_row(
            embeddings, row
        )


def open_index_with_metadata(path: str) -> search.Exact | search.Scann | search.Faiss:
    """An index; labels and paths of embeddings become its metadata.

    Raises:
        UsageError: there is neither an index nor embeddings, or they cannot be read.
    """
    with as_usage_error(f"INDEX={path!r}"):
        if _is_index(path):
            return search.load(path)
        embeddings = embedding.read_embeddings(path)
        columns = {} if embeddings.paths is None else {"path": embeddings.paths}
        if embeddings.labels is not None:
            columns["label"] = np.array(embeddings.class_names)[embeddings.labels]
        return search.Exact(embeddings.embeddings, embeddings.rows, metadata=columns or None, model=embeddings)


def _is_index(path):
    """Whether a folder holds an index, or the shards of one."""
    return any((Path(path) / name).is_file() for name in ("index.json", "shards.json"))


def _metadata_of_item(index, id):
    """The metadata columns of an item, as JSON has them; anything that JSON does not have as text."""
    rows = [] if index.metadata is None else index.metadata.take(index.rows([id])).to_pylist()
    return {name: _as_json(value) for row in rows for name, value in row.items()}


def _as_json(value):
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _metadata_of_row(embeddings, row):
    """Label and path of a row of embeddings, where they have them."""
    index = np.searchsorted(embeddings.rows, row)  # rows ascend
    label = {} if embeddings.labels is None else {"label": embeddings.class_names[embeddings.labels[index]]}
    return label | ({} if embeddings.paths is None else {"path": str(embeddings.paths[index])})


def read_images(paths: Sequence[str], preprocessing: datasets.Preprocessing) -> Any:
    """Image files as an array of what the model takes.

    Raises:
        UsageError: a file that cannot be read as an image.
    """
    with as_usage_error("IMAGE"):
        labels = np.zeros(len(paths), int)
        images = datasets.LabeledSet(paths=np.array(paths), labels=labels, class_names=("",), load=preprocessing)
        unreadable = images.unreadable_files()
        require(not unreadable, "; ".join(f"{name}: {reason}" for _, name, reason in unreadable), "image files")
        return images.examples()
