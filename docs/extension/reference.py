"""The pages of the reference: one for each room, written from its `__all__` and its docstrings."""

import functools
import inspect
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.extension.docstrings import field, markdown
from docs.extension.names import Entry, entries, mentions, rooms
from docs.extension.signatures import assigned, signature

_HIDDEN = {"get_config", "from_config", "compile_from_config", "build_from_config", "get_build_config"}
_KINDS = {"class": "Classes", "function": "Functions", "data": "Values"}
_LONGEST_VALUE = 300

_FRONT = """\
---
kind: reference
---
"""


def write(folder: Path, pages: Iterable[Path]) -> None:
    """Write the page of each room, and their list, into a folder.

    Args:
        folder: such as docs/api. Files that stay the same are not written again.
        pages: pages of the site, which names link back to.
    """
    folder.mkdir(exist_ok=True)
    uses = _uses(pages, folder)
    for name, text in [("index", index_page()), *((room, room_page(room, uses)) for room in rooms())]:
        path = folder / f"{name}.myst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _uses(pages, folder):
    """Links to the pages that mention a name, by the home of the name."""
    uses: dict[str, list[str]] = {}
    for page in pages:
        text = page.read_text()
        link = f"[{title(text)}]({os.path.relpath(page, folder)})"
        for name in mentions(text):
            uses.setdefault(name, []).append(link)
    return uses


def title(text: str) -> str:
    """The title of a page of Markdown."""
    return next(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))


def index_page() -> str:
    """The list of rooms."""
    rows = "\n".join(f"| `{room}` | {_summary(sys.modules[room])} |" for room in rooms())
    files = "\n".join(rooms())
    return f"{_FRONT}# All names\n\n| room | |\n| --- | --- |\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{files}\n```\n"


def room_page(room: str, uses: Mapping[str, list[str]]) -> str:
    """The page of a room: its docstring, a table of its names, and an entry for each name."""
    members = [entry for entry in entries().values() if entry.room == room]
    kinds = {kind: [entry for entry in members if kind_of(entry.value) == kind] for kind in _KINDS}
    parts = [f"{_FRONT}# {room}", f"```{{py:module}} {room}\n```", markdown(inspect.getdoc(sys.modules[room]) or "")]
    parts += [_table(members)] if len(members) > 1 else []
    for kind, those in kinds.items():
        parts += [f"## {_KINDS[kind]}"] * bool(those) + [entry_text(entry, uses) for entry in those]
    return "\n\n".join(parts) + "\n"


def kind_of(value: Any) -> str:
    """class, function or data."""
    return "class" if inspect.isclass(value) else "function" if inspect.isroutine(value) else "data"


def _table(members):
    return "\n".join(["| name | |", "| --- | --- |", *(f"| `{entry.name}` | {_first(entry)} |" for entry in members)])


def _first(entry):
    return _summary(entry.value) if kind_of(entry.value) != "data" else ""


def _summary(value):
    """The first sentence or line of a docstring, for a cell of a table."""
    return markdown((inspect.getdoc(value) or "").partition("\n\n")[0]).replace("|", r"\|")


def entry_text(entry: Entry, uses: Mapping[str, list[str]]) -> str:
    """The directive that describes a name; names of other rooms lead to the entry there."""
    kind = kind_of(entry.value)
    if kind == "data":
        return _directive(kind, entry.name, _value(entry), 4)
    heading = f"{entry.name}{signature(entry.value)}"
    if entry.home != entry.qualified:
        return _directive(kind, heading, f"The same as `{entry.home}`.", 6, options=":no-index:\n")
    names = frozenset(_parameters(entry.value))
    parts = [markdown(inspect.getdoc(entry.value) or "", names)]
    if kind == "class":
        parts += [field("Base", f"`{base}`") for base in _public_bases(entry.value)[:1]]
    parts += [field("Used in", ", ".join(uses[entry.qualified]))] if entry.qualified in uses else []
    methods = _methods(entry.value) if kind == "class" else []
    return _directive(kind, heading, "\n".join(parts), 6, [_method(*method) for method in methods])


def _directive(kind, heading, body, fence, inner=(), options=""):
    fences = "`" * fence
    content = "\n\n".join([body, *inner])
    return f"{fences}{{py:{kind}}} {heading}\n{options}\n{content}\n{fences}"


def _value(entry):
    """What a constant or an alias of a type is: its source, and its keys if it has any."""
    if isinstance(entry.value, Mapping):
        return f"Keys: {', '.join(f'`{key}`' for key in entry.value)}."
    source = assigned(entry.room, entry.name) or repr(entry.value)
    return f"```python\n{textwrap.shorten(source, _LONGEST_VALUE)}\n```"


def _parameters(value):
    try:
        return inspect.signature(value).parameters
    except (TypeError, ValueError):
        return {}


@functools.cache
def _classes():
    return {entry.value: entry.home for entry in entries().values() if inspect.isclass(entry.value)}


def _public_bases(value):
    """Public classes of tfdml that a class inherits from, nearest first."""
    return [_classes()[base] for base in value.__mro__[1:] if base in _classes()]


def _methods(value) -> Iterator[tuple[str, Any, str]]:
    """Names, functions and kinds of the documented methods that no public base and no other library documents."""
    inherited = {base for public in value.__mro__[1:] if public in _classes() for base in public.__mro__}
    own = [base for base in value.__mro__ if base is value or (_is_ours(base) and base not in inherited)]
    others = [base for base in value.__mro__ if not _is_ours(base)]
    seen: set[str] = set()
    for base in own:
        for name, member in vars(base).items():
            kind, function = _method_kind(member)
            text = (function.__doc__ or "").strip()
            is_repeated = any(name in vars(other) for other in others) and "\n" not in text
            if kind and text and not name.startswith("_") and name not in _HIDDEN | seen and not is_repeated:
                seen.add(name)
                yield name, function, kind


def _is_ours(value):
    return value.__module__.startswith("tfdml")


def _method_kind(member):
    if isinstance(member, classmethod | staticmethod):
        return type(member).__name__, member.__func__
    if isinstance(member, property | functools.cached_property):
        return "property", getattr(member, "fget", None) or member.func
    return ("method" if inspect.isfunction(member) else "", member)


def _method(name, function, kind):
    heading = name if kind == "property" else f"{name}{_without_first(signature(function), kind)}"
    options = f":{kind}:\n" if kind in ("classmethod", "staticmethod") else ""
    directive = "property" if kind == "property" else "method"
    body = markdown(inspect.cleandoc(function.__doc__ or ""), frozenset(_parameters(function)))
    return _directive(directive, heading, body, 5, options=f":no-contents-entry:\n{options}")


def _without_first(text, kind):
    """A signature without `cls`; that without `self` comes from `signature`."""
    return text.replace("(cls, ", "(").replace("(cls)", "()") if kind == "classmethod" else text
