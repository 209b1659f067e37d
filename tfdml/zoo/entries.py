"""Load and check entries: models and cards, read after their checksums."""

from pathlib import Path
from typing import NamedTuple

import keras

from tfdml._core.atomic import read_whole
from tfdml._core.checks import require
from tfdml._core.checksums import fingerprint
from tfdml.datasets import Preprocessing
from tfdml.typing import FilePath
from tfdml.zoo.card import FILE, TOWERS, Card, read_card
from tfdml.zoo.paths import (
    damage_of,
    folder_of,
    folders_named,
    is_url,
    require_undamaged,
    roots_of,
    undamaged_folder_of,
)

MODEL = "model.keras"


def load(name: FilePath, *, root: FilePath | None = None) -> keras.Model:
    """Load a model of the zoo, to use or to fine-tune.

    It compares all files of the entry with its checksums before it parses any of them. It reads the model from
    `model.keras` in the safe mode of Keras, and does not compile it.

    See also: `pull` for entries on Hugging Face, `card` for what a model is for.

    Example: what `save` has written.

        >>> images = np.arange(256, dtype="uint8").reshape(4, 8, 8, 1)
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.repeat([0, 1], 2), class_names=("dim", "lit"))
        >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.AveragePooling2D(4), keras.layers.Flatten()])
        >>> facts = {"summary": "Two shades.", "recipe": "-", "command": "-", "seed": 0, "license": "MIT"}
        >>> _ = tfdml.zoo.save(model, "shades", data, **facts)
        >>> tfdml.zoo.load("shades").predict(images[:1], verbose=0)  # means of quarters
        array([[13.5, 17.5, 45.5, 49.5]], dtype=float32)

    Args:
        name: name of the entry; or without `root` the path of its folder, such as a run of `tfdml train`. A name
            without a separator is an entry first.
        root: folder of entries, or their URL (http or https); None for the folder `savedmodels` in the current folder,
            else the installed packages of models, such as tfdml-zoo. It downloads an entry at a URL once into the
            cache: `zoo` in `TFDML_CACHE`, else in `tfdml` in `XDG_CACHE_HOME` or `~/.cache`.

    Raises:
        ValueError: there is no such entry, or several packages have one; a file of the entry is changed, missing, not
        listed or unreadable; the message names it.
    """
    return opened(undamaged_folder_of(name, root))[0]


def card(name: FilePath, *, root: FilePath | None = None) -> Card:
    """Read the card of a model: `model.json`, as attributes. It prints as text.

    `summary`, `license`, `selection` and `limitations` say what the model is for, `recipe`, `command`, `seed` and
    `training` how it was made, `data`, `protocol` and `metrics` (means with their intervals) how well it searches, and
    `preprocessing` how files are read. Arguments and errors are as for `load`.

    Example:

        >>> images = np.arange(256, dtype="uint8").reshape(4, 8, 8, 1)
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.repeat([0, 1], 2), class_names=("dim", "lit"))
        >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.AveragePooling2D(4), keras.layers.Flatten()])
        >>> facts = {"summary": "Two shades.", "recipe": "-", "command": "-", "seed": 0, "license": "MIT"}
        >>> _ = tfdml.zoo.save(model, "shades", data, **facts)
        >>> card = tfdml.zoo.card("shades")
        >>> card.summary, card.dimension, card.metrics["recall@1"].value
        ('Two shades.', 4, 0.75)
    """
    return _read(undamaged_folder_of(name, root), read_card)


def check(name: FilePath, *, root: FilePath | None = None) -> tuple[str, ...]:
    """Compare the files of an entry with its `SHA256SUMS`.

    Checksums find damage; they do not prove who wrote an entry. The index of a run changes: `tfdml.search.load`
    compares its own checksums.

    Example: an entry with a changed file.

        >>> images = np.arange(256, dtype="uint8").reshape(4, 8, 8, 1)
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.repeat([0, 1], 2), class_names=("dim", "lit"))
        >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.AveragePooling2D(4), keras.layers.Flatten()])
        >>> facts = {"summary": "Two shades.", "recipe": "-", "command": "-", "seed": 0, "license": "MIT"}
        >>> folder = tfdml.zoo.save(model, "shades", data, **facts)
        >>> tfdml.zoo.check("shades")
        ()
        >>> _ = (folder / "README.md").write_text("another page")
        >>> tfdml.zoo.check("shades")
        ('README.md: differs from SHA256SUMS',)

    Args:
        name, root: as for `load`; of an entry in the cache, a comparison alone.

    Returns:
        One text per file that is changed, missing or not listed, `"model.keras: differs from SHA256SUMS"`.
    """
    return read_whole(folder_of(name, root), damage_of)


def opened(folder: Path) -> tuple[keras.Model, Card]:
    """Compare an entry with its checksums, then load its model and card."""
    model, card = _read(folder, lambda entry: (_model(entry), read_card(entry)))
    towers = getattr(model, "towers", ())
    _require_fitting(bool(towers) == bool(card.towers), folder, "towers")
    shapes = [network.inputs[0].shape[1:] for network in towers or (model,)]
    _require_fitting(all(shape == card.preprocessing.shape for shape in shapes), folder, "preprocessing")
    return model, card


def _require_fitting(is_fitting, folder, attribute):
    received = f"{str(folder)!r}, where {attribute!r} of its {FILE} does not fit its {MODEL}"
    require(is_fitting, received, "an entry that tfdml.zoo.save wrote")


class EntryRef(NamedTuple):
    """An entry as typed on the command line: `[root/]name[/query | /gallery]`, where the root is a folder or a URL."""

    entry: str
    tower: str | None

    @classmethod
    def parse(cls, text: str) -> "EntryRef":
        """Split the tower from the entry."""
        entry, _, last = text.rstrip("/").rpartition("/")
        return cls(entry, last) if last in TOWERS and entry else cls(text.rstrip("/"), None)

    def exists(self) -> bool:
        """Whether there is such an entry; True for any URL, without a request."""
        parent, _, name = self.entry.rpartition("/")
        if is_url(parent) or (Path(self.entry) / FILE).is_file():
            return True
        return not parent and not Path(self.entry).exists() and bool(folders_named(name, roots_of(None)))

    def folder(self) -> Path:
        """The folder of the entry; it downloads an entry at a URL."""
        parent, _, name = self.entry.rpartition("/")
        if is_url(parent):
            return undamaged_folder_of(name, parent)
        path = Path(self.entry)
        return folder_of(path.name, path.parent) if (path / FILE).is_file() else folder_of(name, None)


def load_reference(reference: EntryRef) -> tuple[keras.Model, Preprocessing]:
    """The model that a reference names, one tower of two, and how it reads images."""
    model, card = opened(reference.folder())
    tower = reference.tower
    names = [f"{card.name}/{name}" for name in TOWERS]
    received = f"{card.name}/{tower}" if tower else card.name
    expected = " or ".join(names) if card.towers else f"{card.name}, which has one network"
    require(bool(card.towers) == (tower is not None), received, expected)
    if tower is None:
        return model, card.preprocessing
    network = model.towers[TOWERS.index(tower)]
    network.fingerprint = fingerprint(model)  # one for both: queries and gallery are of one model
    return network, card.preprocessing


def _read(folder, read):
    """Compare the files of a folder with its checksums, then return `read(folder)`."""

    def checked(entry):
        require_undamaged(entry, repr(str(folder)), "Copy or download the entry again")
        return read(entry)

    return read_whole(folder, checked)


def _model(folder):
    try:
        return keras.saving.load_model(folder / MODEL, compile=False, safe_mode=True)
    except Exception as error:  # Keras, h5py and zipfile share no base class of errors
        raise ValueError(
            f"Received {str(folder)!r}, whose {MODEL} cannot be read ({type(error).__name__}: {error}), expected a "
            "model that tfdml.zoo.save wrote."
        ) from error
