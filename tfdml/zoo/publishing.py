"""Write trained models as entries of the zoo."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from tfdml._core.atomic import as_writable_path, atomic_write, require_replaceable
from tfdml._core.checks import is_labeled_set, require, require_seed
from tfdml._core.checksums import listed_files, write_checksums
from tfdml._core.optional import environment
from tfdml.datasets import Preprocessing
from tfdml.evaluation.measure import protocol_of
from tfdml.evaluation.record import Evaluation, Mean
from tfdml.export import saved_model
from tfdml.export.half import halve_weights
from tfdml.models import EmbeddingModel, TwoTowers
from tfdml.typing import Data, FilePath
from tfdml.zoo.card import FILE, TOWERS, Card, read_card, write_card
from tfdml.zoo.entries import MODEL
from tfdml.zoo.index import write_table
from tfdml.zoo.paths import APART, is_url, require_name, root_of
from tfdml.zoo.reproduction import measure, time_per_image

_DIGITS = 5  # of the numbers of a card


def save(
    model: keras.Model,
    name: str,
    data: Data,
    *,
    summary: str,
    recipe: str,
    command: str,
    seed: int,
    license: str,
    gallery: Data | None = None,
    metric: str = "cosine",
    training: Mapping[str, Any] | None = None,
    selection: str = "",
    limitations: str = "",
    preprocessing: Preprocessing | None = None,
    root: FilePath | None = None,
) -> Path:
    """Measure a trained model and write it as an entry, with its card and checksums.

    The entry is the folder `root/name`: `1`, a SavedModel as `tfdml.export.saved_model` writes it (for two towers
    `query/1` and `gallery/1`); `model.keras`, the network without the state of the optimizer and the loss;
    `model.json`, the card; `README.md`, its page; and `SHA256SUMS`. It writes the folder under a temporary name and
    renames it, so `root/name` is a complete entry at all times. Then it writes the table in `root/README.md`. If
    float16 holds all weights exactly, `1` and `model.keras` store them so, and the network computes with float32 as
    before.

    See also: `push` to upload an entry, and `tfdml.export.saved_model` for a model without a card.

    Example: a network that averages the quarters of an image, on four images of two classes.

        >>> images = np.arange(256, dtype="uint8").reshape(4, 8, 8, 1)
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.repeat([0, 1], 2), class_names=("dim", "lit"))
        >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.AveragePooling2D(4), keras.layers.Flatten()])
        >>> facts = {"summary": "Two shades.", "recipe": "-", "command": "-", "seed": 0, "license": "MIT"}
        >>> folder = tfdml.zoo.save(model, "shades", data, **facts)
        >>> print(folder, sorted(path.name for path in folder.iterdir()))
        savedmodels/shades ['1', 'README.md', 'SHA256SUMS', 'model.json', 'model.keras']

    Args:
        model: a functional Keras model of images and one output `(batch, dim)`, or a `TwoTowers`.
        name: name of the entry: letters, digits, "-", "_" and "."; it replaces an older entry of this name.
        data: the labeled set to measure the model on, the queries if there is a gallery.
        summary: purpose of the model, one sentence.
        recipe, command, seed: the program that trained the model, its command line, and its seed.
        license: license of the model, an SPDX identifier, and of the data if it differs.
        gallery: the labeled set to search in; None to search in `data`.
        metric: "cosine", or "euclidean" or "dot" for models whose outputs are not normalized.
        training, selection: settings of the training by name, texts and numbers, and how you chose them.
        limitations: uses that the model is not for.
        preprocessing: how image files are read; None to stretch them to the size of the input.
        root: folder of entries; None for `savedmodels` in the current folder.

    Raises:
        FileExistsError: the folder `root/name` holds a file that is not part of an entry; it is named.
        ValueError: another form of name, data or metric; the errors of `tfdml.evaluate` and `tfdml.export.saved_model`.
    """
    folder = entry_path(name, root)
    require(is_labeled_set(data), f"data of type {type(data).__name__}", "a labeled set of tfdml.datasets")
    require_seed(seed)
    texts = {"summary": summary, "recipe": recipe, "command": command, "license": license}
    texts |= {"selection": selection, "limitations": limitations}
    protocol = protocol_of(data, has_gallery=gallery is not None)
    numbers = entries_of_numbers(measure(model, data, gallery, metric), "model", protocol, metric)
    entries = {"name": name, "seed": seed, "training": dict(training or {}), **texts, **numbers}
    with atomic_write(folder, entry_files) as new:
        _write_entry(new, model, preprocessing or Preprocessing.for_model(query_network(model)), entries)
    write_table(folder.parent)
    return folder


def _write_entry(folder, model, preprocessing, entries):
    folder.mkdir()
    write_saved_models(folder, model, preprocessing)
    bare(model).save(folder / MODEL)
    halve_weights(folder / MODEL)
    entries = entries | entries_of_model(model, preprocessing) | {"sizes": file_sizes(folder)} | environment()
    write_card(folder, Card(**entries))
    write_checksums(folder)


def entry_path(name: str, root: FilePath | None) -> Path:
    """The folder of an entry; raise an error unless writing it loses no other file."""
    require_name(name)
    require(not is_url(root), f"root={root!r}", "a folder of entries")
    folder = as_writable_path(root_of(root) / name)
    require_replaceable(folder, entry_files)
    return folder


def entry_files(folder: Path) -> frozenset[str]:
    """Names of the files of the entry in a folder; empty where its card or its checksums are not of an entry."""
    try:
        read_card(folder)
    except ValueError:
        return frozenset()
    names = listed_files(folder)
    return names if FILE in names else frozenset()


def entries_of_numbers(evaluation: Evaluation, model: str, data: str, metric: str) -> dict[str, Any]:
    """Entries of a card from the evaluation of a model by a protocol of a set."""
    numbers = {name: Mean(*(round(x, _DIGITS) for x in mean)) for name, mean in evaluation.means[model].items()}
    counts = {"queries": evaluation.queries, "items": evaluation.items, "classes": evaluation.units}
    protocol = data.replace("exact-cosine", f"exact-{metric}")
    return {"data": data, "protocol": protocol, "metric": metric, "metrics": numbers} | counts


def entries_of_model(model: keras.Model, preprocessing: Preprocessing) -> dict[str, Any]:
    """Entries of a card from a network."""
    return {
        "towers": TOWERS if hasattr(model, "towers") else (),
        "input": preprocessing.shape,
        "dimension": model.outputs[0].shape[-1],
        "parameters": bare(model).count_params(),
        "preprocessing": preprocessing,
        "timing": time_per_image(query_network(model)),
    }


def write_saved_models(folder: Path, model: keras.Model, preprocessing: Preprocessing) -> None:
    """Write the SavedModels of an entry: `1`; for two towers `query/1` and `gallery/1`."""
    for version, network in networks(model).items():
        saved_model(network, folder / version, preprocessing=preprocessing)


def query_network(model: keras.Model) -> keras.Model:
    """The network of the queries: the first of two towers, else the model."""
    return next(iter(networks(model).values()))


def networks(model: keras.Model) -> dict[str, keras.Model]:
    """Networks by the folder of their SavedModel."""
    towers = getattr(model, "towers", None)
    return {"1": model} if towers is None else {f"{name}/1": tower for name, tower in zip(TOWERS, towers, strict=True)}


def bare(model: keras.Model) -> keras.Model:
    """The same network, never compiled."""
    if hasattr(model, "towers"):
        return TwoTowers(*model.towers)
    inputs, outputs = (x[0] if len(x) == 1 else x for x in (model.inputs, model.outputs))
    return EmbeddingModel(inputs, outputs)


def file_sizes(folder: Path) -> dict[str, int]:
    """Bytes of the files of a folder by relative name, without the index of a run, because it changes."""
    files = [file.relative_to(folder) for file in sorted(folder.rglob("*")) if file.is_file()]
    return {file.as_posix(): (folder / file).stat().st_size for file in files if file.parts[0] not in APART}
