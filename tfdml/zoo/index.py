"""The entries of folders and installed packages, and the tables of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import require
from tfdml._core.terminal import visible
from tfdml.typing import FilePath
from tfdml.zoo.card import SHOWN_METRICS, Card, read_card, table
from tfdml.zoo.paths import NO_ENTRIES, entry_folders, is_url, require_one, root_of, roots_of

_TEXT_HEAD = ["model", "Recall@1 %", "MAP@R %", "dim", "MB", "ms", "data", "what it is for"]
_ALIGNED = "<<<>>><<"
_HEAD = ["model", "what it is for", "data", "dimension", "weights", "MB", "Recall@1", "MAP@R"]
_PAGE = """# Models

Written by `tfdml.zoo.save`: do not edit. `tfdml.zoo.load(NAME)` loads one, `tfdml zoo check NAME` compares its files
with their checksums. Numbers are in %, on the set in the column "data"; numbers on different sets cannot be compared.
Each model has a page with all numbers, intervals and limits, and the call that measures them again.

"""


@dataclass(frozen=True)
class Listing:
    """Entries of the zoo; it prints as a table with their numbers, and iterates over their names."""

    cards: tuple[Card, ...]
    unreadable: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = _aligned([_TEXT_HEAD, *map(_text_row, self.cards)]) if self.cards else []
        lines += [visible(f"{name}: {reason}") for name, reason in self.unreadable]
        return "\n".join(lines) or "no entries"

    __repr__ = __str__

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.cards)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries."""
        return tuple(card.name for card in self.cards)

    def markdown(self) -> str:
        """The page of the folder, `README.md`."""
        return _PAGE + table(_HEAD, [_row(card) for card in self.cards], num_numeric=5) + "\n"


def list_models(root: FilePath | None = None) -> Listing:
    """List the entries of a folder, or of the current folder and the installed packages.

    Only cards are read; `check` compares files with their checksums.

    Example:

        >>> images = np.arange(256, dtype="uint8").reshape(4, 8, 8, 1)
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.repeat([0, 1], 2), class_names=("dim", "lit"))
        >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.AveragePooling2D(4), keras.layers.Flatten()])
        >>> facts = {"summary": "Two shades.", "recipe": "-", "command": "-", "seed": 0, "license": "MIT"}
        >>> _ = tfdml.zoo.save(model, "shades", data, **facts, root="models")
        >>> list(tfdml.zoo.list_models("models"))
        ['shades']

    Args:
        root: folder of entries; None for the folder `savedmodels` in the current folder and the installed packages of
            models. If both have an entry of one name, it lists the entry of the folder.

    Returns:
        The `cards`, sorted by name; it prints as a table and iterates over `names`. An entry whose card is damaged or
        is the card of another entry, and a name in several packages, are in `unreadable`, with the reason.

    Raises:
        ValueError: there is no such folder, and no package with models; or a URL, although it has no list.
    """
    require(not is_url(root), f"root={root!r}", "a folder with entries; a URL has no list")
    roots = roots_of(root)
    exists = any(folder.is_dir() for folder in roots)
    require(exists, f"root={str(roots[0])!r}", f"a folder with entries. {NO_ENTRIES}")
    entries = [_card_or_reason(name, folders) for name, folders in entry_folders(roots).items()]
    cards = tuple(entry for entry in entries if isinstance(entry, Card))
    return Listing(cards, tuple(entry for entry in entries if not isinstance(entry, Card)))


def write_table(root: FilePath | None = None) -> Path:
    """Write the table of the entries of a folder into its `README.md`, in one step, if it is not another page."""
    path, first = root_of(root) / "README.md", _PAGE.splitlines()[0]
    is_table = not path.exists() or path.read_text(encoding="utf-8").splitlines()[:1] == [first]
    require(is_table, f"{str(path)!r}, which is another page", f"the table, under the title {first!r}, or no file")
    text = list_models(root_of(root)).markdown()
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8")
    return path


def _card_or_reason(name, folders):
    try:
        require_one(name, folders)
        card = read_card(folders[0])
    except ValueError as error:
        return name, str(error)
    received = f"Received the model.json of {card.name!r}, expected one of {name!r}. Rename the folder."
    return card if card.name == name else (name, received)


def _text_row(card):
    metrics = (card.metrics[name] for name in SHOWN_METRICS)
    texts = [mean.text() for mean in metrics]
    milliseconds = f"{card.timing.milliseconds:.2f}"
    sizes = [str(card.dimension), f"{card.megabytes:.1f}", milliseconds]
    return [card.name, *texts, *sizes, _data_name(card), card.summary]


def _aligned(rows):
    """Lines of a table whose columns are as wide as their longest cell."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = ([f"{cell:{_ALIGNED[i]}{widths[i]}}" for i, cell in enumerate(row)] for row in rows)
    return ["  ".join(row).rstrip() for row in cells]


def _data_name(card):
    return card.data.replace("/exact-cosine/v1", "")


def _row(card):
    numbers = [f"{100 * card.metrics[name].value:.1f}" for name in SHOWN_METRICS]
    name, weights = f"[{card.name}]({card.name}/README.md)", f"{card.parameters:,}"
    return [name, card.summary, _data_name(card), card.dimension, weights, f"{card.megabytes:.1f}", *numbers]
