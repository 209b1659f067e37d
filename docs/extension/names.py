"""The public names of tfdml: their rooms, and which of them a word of a text means."""

import importlib
import inspect
import re
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import tfdml

_DOTTED = re.compile(r"tfdml(?:\.[A-Za-z]\w*)+")
_BACKTICKS = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Entry:
    """A public name of a room, and its home: the name under which the same object is documented, mostly itself."""

    room: str
    name: str
    value: object
    home: str

    @property
    def qualified(self) -> str:
        """The name with its room, such as tfdml.losses.TripletLoss."""
        return f"{self.room}.{self.name}"


@cache
def rooms() -> tuple[str, ...]:
    """The modules with a page of the reference: tfdml, its rooms, and the rooms inside of datasets and losses."""
    modules = [name for name in tfdml.__all__ if inspect.ismodule(getattr(tfdml, name))]
    inside = ["datasets.public", "losses.functional", "losses.uncertainty", "typing"]
    return ("tfdml", *sorted(f"tfdml.{name}" for name in [*modules, *inside]))


@cache
def entries() -> dict[str, Entry]:
    """All entries of all rooms by their qualified name; rooms inside of a room are none."""
    values = {f"{room}.{name}": value for room in rooms() for name, value in _members(room)}
    return {
        qualified: Entry(*qualified.rsplit(".", 1), value, _home(qualified, value, values))
        for qualified, value in values.items()
    }


def _members(room):
    module = importlib.import_module(room)
    members = [(name, getattr(module, name)) for name in sorted(public(module))]
    return [(name, value) for name, value in members if not inspect.ismodule(value)]


def public(module: ModuleType) -> list[str]:
    """The public names of a module: its `__all__`, or without one all names that do not begin with `_`."""
    return getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]


def _home(qualified, value, values):
    """The name in the room that defines an object; objects without a module are at home where they are."""
    module = getattr(value, "__module__", None) or ""
    names = [other for other, same in values.items() if same is value]
    inside = [other for other in names if module.startswith(other.rpartition(".")[0] + ".")]
    return max(inside, key=len, default=qualified) if len(names) > 1 else qualified


@cache
def _by_name():
    """The homes of the entries of each name; the losses of TensorFlow Addons give way to those of the same name."""
    homes: dict[str, set[str]] = {}
    for entry in entries().values():
        homes.setdefault(entry.name, set()).add(entry.home)
    return {name: {home for home in them if "addons" not in home} or them for name, them in homes.items()}


def meaning(text: str, room: str | None = None) -> str | None:
    """The room or the entry that a text in backticks means, with or without arguments; None for another text.

    Args:
        text: such as `tfdml.losses.TripletLoss(margin=0.2)`, `losses.TripletLoss` or `TripletLoss`.
        room: the room whose page has the text, whose names come first. Elsewhere, a name alone counts if one room has
            it and if it is no plain word: it has a capital or an underscore.
    """
    path = re.sub(r"\(.*\)$", "", text, flags=re.DOTALL)
    if not re.fullmatch(r"[A-Za-z]\w*(\.\w+)*", path):
        return None
    if path.partition(".")[0] == "tfdml" or f"tfdml.{path.partition('.')[0]}" in rooms():
        return _longest(path if path.startswith("tfdml") else f"tfdml.{path}") if "." in path else None
    if room and f"{room}.{path}" in entries():
        return f"{room}.{path}"
    homes = _by_name().get(path, set())
    return next(iter(homes)) if len(homes) == 1 and path != path.lower().replace("_", "") else None


def _longest(path):
    """The longest beginning of a dotted path that is an entry, or the path if it is a room."""
    while path not in entries():
        if path in rooms() or path == "tfdml":
            return path if path in rooms() else None
        path = path.rpartition(".")[0]
    return path


def mentions(text: str) -> set[str]:
    """The homes of the entries that a page mentions, in its code or in backticks."""
    words = {*_DOTTED.findall(text), *_BACKTICKS.findall(text)}
    names = {meaning(word) for word in words} & set(entries())
    return {entries()[name].home for name in names}
