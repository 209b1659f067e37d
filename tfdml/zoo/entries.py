"""Models and cards of entries, read after their checksums."""

import os
from pathlib import Path

import keras

from tfdml._core.atomic import read_whole
from tfdml._core.checks import require
from tfdml._core.checksums import problems
from tfdml.datasets import Preprocessing
from tfdml.zoo.card import FILE, TOWERS, Card, read_card
from tfdml.zoo.paths import folder_of, folders_named, is_url, roots_of, undamaged_folder_of

MODEL = "model.keras"


def load(name: str, *, root: str | os.PathLike | None = None) -> keras.Model:
    """A model of the zoo, to call or to fine-tune.

        model = tfdml.zoo.load("glyphs-nt-xent")
        embeddings = model.predict(images)

    All files of the entry are compared with its checksums before any of them is parsed. The model is read from
    `model.keras` in the safe mode of Keras and is not compiled.

    Args:
        name: name of the entry.
        root: folder of entries, or a URL of http or https under which they are; None for the folder `savedmodels` in
            the current folder, and where it has no such entry the installed packages of models, such as tfdml-zoo. An
            entry at a URL is downloaded once, checked, and renamed into the cache: the folder `zoo` in `TFDML_CACHE`,
            else in `tfdml` in `XDG_CACHE_HOME` or `~/.cache`. If it is damaged there, it is downloaded again, with a
            warning.

    Returns:
        A Keras model, an `EmbeddingModel` or `TwoTowers` for models that `save` wrote.

    Raises:
        ValueError: there is no such entry, or several packages have one; a file of it is changed, missing or not
            listed, or cannot be read, and is named.
        OSError: a download that fails.
    """
    return opened(undamaged_folder_of(name, root))[0]


def card(name: str, *, root: str | os.PathLike | None = None) -> Card:
    """What is known about a model: see `Card`. Arguments and errors are those of `load`."""
    return _read(undamaged_folder_of(name, root), read_card)


def check(name: str, *, root: str | os.PathLike | None = None) -> tuple[str, ...]:
    """Files of an entry that are changed, missing or not listed in its `SHA256SUMS`.

    Checksums find damage. They do not say who wrote an entry.

    Args:
        name, root: as for `load`; an entry in the cache is only compared.

    Returns:
        One text per file, `"model.keras: differs from SHA256SUMS"`; empty for an entry without a problem.

    Raises:
        ValueError: there is no such entry.
        OSError: a download that fails.
    """
    return read_whole(folder_of(name, root), problems)


def opened(folder: Path) -> tuple[keras.Model, Card]:
    """The model and the card of an entry, after its checksums."""
    model, card = _read(folder, lambda place: (_model(place), read_card(place)))
    towers = getattr(model, "towers", ())
    _require_fitting(bool(towers) == bool(card.towers), folder, "towers")
    shapes = [network.inputs[0].shape[1:] for network in towers or (model,)]
    _require_fitting(all(shape == card.preprocessing.shape for shape in shapes), folder, "preprocessing")
    return model, card


def _require_fitting(is_fitting, folder, attribute):
    received = f"{str(folder)!r}, where {attribute!r} of its {FILE} does not fit its {MODEL}"
    require(is_fitting, received, "an entry that tfdml.zoo.save wrote")


def open_named(text: str) -> tuple[keras.Model, Preprocessing] | None:
    """The model that a word of the command line names, and how it reads images; None where no entry is named.

    Args:
        text: path of the folder of an entry, its URL, or its name, which means an entry as for `load` unless a file or
            folder of this path exists; for two towers with `/query` or `/gallery` after it.
    """
    entry, tower = _split_tower(text.rstrip("/"))
    folder = _named_folder(entry)
    if folder is None:
        return None
    model, card = opened(folder)
    return _tower(model, card, tower), card.preprocessing


def _split_tower(text):
    """The entry, and the name of a tower or None."""
    entry, _, last = text.rpartition("/")
    return (entry, last) if last in TOWERS and entry else (text, None)


def _named_folder(entry):
    """The folder of the entry that a URL, a path or a name means; None where there is none."""
    parent, _, name = entry.rpartition("/")
    if is_url(parent):
        return undamaged_folder_of(name, parent)
    if (Path(entry) / FILE).is_file():
        return folder_of(Path(entry).name, Path(entry).parent)
    is_name = not parent and not Path(entry).exists()
    return folder_of(name, None) if is_name and folders_named(name, roots_of(None)) else None


def _tower(model, card, tower):
    received, names = f"{card.name}/{tower}" if tower else card.name, [f"{card.name}/{each}" for each in TOWERS]
    expected = " or ".join(names) if card.towers else f"{card.name}, which has one network"
    require(bool(card.towers) == (tower is not None), received, expected)
    return model.towers[TOWERS.index(tower)] if tower else model


def _read(folder, read):
    """Compare the files of a folder with its checksums, then return `read(folder)`."""

    def checked(place):
        damage = problems(place)
        expected = "the files of its SHA256SUMS. Copy or download the entry again"
        require(not damage, f"{str(folder)!r} with {'; '.join(damage)}", expected)
        return read(place)

    return read_whole(folder, checked)


def _model(folder):
    try:
        return keras.saving.load_model(folder / MODEL, compile=False, safe_mode=True)
    except Exception as error:  # of Keras, h5py and zipfile: none of their types says more
        raise ValueError(
            f"Received {str(folder)!r}, whose {MODEL} cannot be read ({type(error).__name__}: {error}), expected a "
            "model that tfdml.zoo.save wrote."
        ) from error
