"""Models and cards of entries, read after their checksums."""

import os
from pathlib import Path

import keras

from tfdml._atomic import read_whole
from tfdml._checks import require
from tfdml._checksums import problems
from tfdml.datasets import Preprocessing
from tfdml.zoo.card import FILE, Card, read_card
from tfdml.zoo.places import folder_of, is_url, root_of

MODEL = "model.keras"
TOWERS = ("query", "gallery")


def load(name: str, *, root: str | os.PathLike | None = None) -> keras.Model:
    """A model of the zoo, to call or to fine-tune.

        model = tfdml.zoo.load("glyphs-nt-xent")
        embeddings = model.predict(images)

    All files of the entry are compared with its checksums before any of them is parsed. The model is read from
    `model.keras` in the safe mode of Keras and is not compiled.

    Args:
        name: name of the entry.
        root: folder of entries, or a URL of http or https under which they are; None for the folder `savedmodels` in
            the current folder. An entry at a URL is downloaded once, checked, and renamed into the cache: the folder
            `zoo` in `TFDML_CACHE`, else in `tfdml` in `XDG_CACHE_HOME` or `~/.cache`.

    Returns:
        A Keras model, an `EmbeddingModel` or `TwoTowers` for models that `save` wrote.

    Raises:
        ValueError: there is no such entry, or a file of it is changed, missing or not listed, which is named.
        OSError: a download that fails.
    """
    return opened(folder_of(name, root))[0]


def card(name: str, *, root: str | os.PathLike | None = None) -> Card:
    """What is known about a model: see `Card`. Arguments and errors are those of `load`."""
    return _read(folder_of(name, root), read_card)


def verify(name: str, *, root: str | os.PathLike | None = None) -> tuple[str, ...]:
    """Files of an entry that are changed, missing or not listed in its `SHA256SUMS`.

    Checksums find damage. They do not say who wrote an entry.

    Args:
        name, root: as for `load`.

    Returns:
        One text per file, `"model.keras: differs from SHA256SUMS"`; empty for an entry without a problem.

    Raises:
        ValueError: there is no such entry.
        OSError: a download that fails.
    """
    return read_whole(folder_of(name, root), problems)


def opened(folder: Path) -> tuple[keras.Model, Card]:
    """The model and the card of an entry, after its checksums."""
    return _read(folder, lambda place: (_model(place), read_card(place)))


def open_named(text: str) -> tuple[keras.Model, Preprocessing] | None:
    """The model that a word of the command line names, and how it reads images; None where no entry is named.

    Args:
        text: name of an entry of `savedmodels`, path of the folder of an entry, or its URL; for two towers with
            `/query` or `/gallery` after it.
    """
    place, _, last = text.rstrip("/").rpartition("/")
    entry, tower = (place, last) if last in TOWERS and place else (text.rstrip("/"), None)
    root, _, name = entry.rpartition("/")
    named = Path(entry).is_dir() and (Path(entry) / FILE).is_file()
    if not named and not is_url(root) and not (not root and (root_of(None) / name / FILE).is_file()):
        return None
    model, found = opened(folder_of(name, root or ("." if named else None)))
    return _tower(model, found, tower), found.preprocessing


def _tower(model, found, tower):
    received, names = f"{found.name}/{tower}" if tower else found.name, [f"{found.name}/{each}" for each in TOWERS]
    expected = " or ".join(names) if found.towers else f"{found.name}, which has one network"
    require(bool(found.towers) == (tower is not None), received, expected)
    return model.towers[TOWERS.index(tower)] if tower else model


def _read(folder, read):
    """What `read` makes of a folder whose files are as listed."""

    def checked(place):
        found = problems(place)
        expected = "the files of its SHA256SUMS. Copy or download the entry again"
        require(not found, f"{str(folder)!r} with {'; '.join(found)}", expected)
        return read(place)

    return read_whole(folder, checked)


def _model(folder):
    return keras.saving.load_model(folder / MODEL, compile=False, safe_mode=True)
