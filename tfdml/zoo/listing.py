"""The entries of a folder, and the table of them that a person reads."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfdml._atomic import atomic_write
from tfdml._checks import require
from tfdml.zoo.card import Card, read_card, table
from tfdml.zoo.places import is_url, names_in, root_of

_HEAD = ["model", "what it is for", "data", "dimension", "weights", "MB", "Recall@1", "MAP@R"]
_PAGE = """# Models

Written by `tfdml.zoo.save`: do not edit. `tfdml.zoo.load(NAME)` loads one, `tfdml zoo evaluate NAME` measures it again,
`tfdml zoo verify NAME` compares its files with their checksums. Numbers are in %, on the set in the column "data";
numbers on different sets cannot be compared. Each model has a page with all numbers, intervals and limits.

"""


@dataclass(frozen=True)
class Listing:
    """Entries of a folder; it prints as a table, and iterates over their names.

    Attributes:
        cards: a `Card` per entry, sorted by name.
        unreadable: names of entries without a card that can be read, and the reasons.
    """

    cards: tuple[Card, ...]
    unreadable: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        width = max([len(card.name) for card in self.cards], default=0)
        lines = [f"{card.name:{width}}  {card.summary}" for card in self.cards]
        return "\n".join([*lines, *(f"{name}: {reason}" for name, reason in self.unreadable)]) or "no entries"

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
        return _PAGE + table(_HEAD, [_row(card) for card in self.cards], right=5) + "\n"


def list(root: str | os.PathLike | None = None) -> Listing:
    """Entries of a folder. Only their cards are read; `verify` compares their files with the checksums.

    Args:
        root: folder of entries; None for `savedmodels` in the current folder.

    Returns:
        `Listing`, empty for a folder without entries.

    Raises:
        ValueError: there is no such folder, or a URL, which has no list.
    """
    folder = root_of(root)
    require(not is_url(root) and folder.is_dir(), f"root={str(root or folder)!r}", "a folder with entries")
    found = [_card_or_reason(folder / name) for name in names_in(folder)]
    cards = tuple(each for each in found if isinstance(each, Card))
    return Listing(cards, tuple(each for each in found if not isinstance(each, Card)))


def write_table(root: str | os.PathLike | None = None) -> Path:
    """Write the table of the entries of a folder into its `README.md`, in one step; `save` calls it.

    Args:
        root: folder of entries, as for `list`.

    Returns:
        `pathlib.Path` of the page.

    Raises:
        ValueError: there is no such folder, or its README.md is another page.
        OSError: the page cannot be written.
    """
    path, first = root_of(root) / "README.md", _PAGE.splitlines()[0]
    own = not path.exists() or path.read_text(encoding="utf-8").splitlines()[:1] == [first]
    require(own, f"{str(path)!r}, which is another page", f"the table, under the title {first!r}, or no file")
    text = list(root).markdown()
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8")
    return path


def _card_or_reason(folder):
    try:
        return read_card(folder)
    except ValueError as error:
        return folder.name, str(error)


def _row(card):
    numbers = [f"{100 * card.metrics[key].value:.1f}" for key in ("recall@1", "map@r")]
    size, data = f"{sum(card.sizes.values()) / 1e6:.1f}", card.data.replace("/exact-cosine/v1", "")
    name = f"[{card.name}]({card.name}/README.md)"
    return [name, card.summary, data, card.dimension, f"{card.parameters:,}", size, *numbers]
