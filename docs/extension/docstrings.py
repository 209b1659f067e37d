"""Docstrings as the Markdown of a page: formulas, examples, lists, and a field for each section."""

import re
import textwrap
from collections.abc import Iterator

from docs.extension.formulas import formula_block, is_code, is_formula

FIELDS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Warns", "Also called", "See also", "Source")
_SECTION = re.compile(rf"({'|'.join(FIELDS)}): *(.*)")
_TITLES = {"Args": "Parameters"}
_ENTRIES = ("Args", "Attributes", "Raises", "Warns")
_ITEM = re.compile(r"(?:[*-]|\d+\.) ")


def markdown(docstring: str, names: frozenset[str] = frozenset()) -> str:
    """The text of a docstring, followed by its sections as fields.

    Args:
        docstring: dedented, in the style of Google.
        names: names of arguments, which formulas do not take apart.
    """
    text, sections = divided(docstring)
    fields = [field(_TITLES.get(title, title), _section(title, body, names)) for title, body in sections]
    return "\n\n".join([*blocks(text, names), "\n".join(fields)]).strip()


def field(title: str, body: str) -> str:
    """A field of a list of fields."""
    return f":{title}:\n{textwrap.indent(body, '  ')}\n"


def divided(docstring: str) -> tuple[str, list[tuple[str, str]]]:
    """The text outside of sections, and the sections: titles and bodies, in the order of `FIELDS`."""
    text: list[str] = []
    sections: dict[str, list[str]] = {}
    target, is_blank = text, False
    for line in docstring.splitlines():
        if heading := _SECTION.match(line):
            target = sections.setdefault(heading[1], [])
            line = heading[2]
        elif is_blank and line and not line.startswith(" "):
            target = text
        target.append(line)
        is_blank = not line
    titles = sorted(sections, key=FIELDS.index)
    return "\n".join(text), [(title, "\n".join(sections[title]).strip("\n")) for title in titles]


def _section(title, body, names):
    lines = textwrap.dedent(body)
    if title in _ENTRIES:
        return "\n".join(_entry(entry, names) for entry in re.split(r"\n+(?=\S)", lines.strip()))
    first, _, rest = body.partition("\n")
    return "\n\n".join(blocks(f"{first.strip()}\n{textwrap.dedent(rest)}".strip("\n"), names))


def _entry(entry, names):
    """`name: text` as an item of a list."""
    name, colon, text = entry.partition(": ") if ": " in entry.partition("\n")[0] else ("", "", entry)
    first, _, rest = text.partition("\n")
    inner = "\n\n".join(blocks(f"{first}\n{textwrap.dedent(rest)}", names))
    name = ", ".join(f"`{each}`" for each in name.split(", ")) if name else ""
    return f"- {name}{colon}{textwrap.indent(inner, '  ').strip()}"


def blocks(text: str, names: frozenset[str] = frozenset()) -> Iterator[str]:
    """Paragraphs, lists, tables, examples and formulas of a text as Markdown."""
    for paragraph in _paragraphs(text):
        lines = paragraph.splitlines()
        if lines[0].startswith("    "):
            yield _indented(textwrap.dedent(paragraph), names)
        elif lines[0].startswith("|"):
            yield paragraph
        elif _ITEM.match(lines[0]):
            yield "\n".join(_item(item) for item in re.split(r"\n(?=(?:[*-]|\d+\.) )", paragraph))
        elif is_formula(paragraph, names):
            yield _formula(paragraph, names)
        else:
            yield escaped(_on_one_line(paragraph))


def _paragraphs(text):
    """Parts of a text between empty lines; indented parts that follow each other are one."""
    paragraphs: list[str] = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        part = part.rstrip()
        if paragraphs and part.startswith("    ") and paragraphs[-1].startswith("    "):
            paragraphs[-1] += f"\n\n{part}"
        elif part:
            paragraphs += [*_before_list(part)]
    return paragraphs


def _before_list(part):
    """A paragraph that goes over into a list without an empty line, as two."""
    first = re.search(r"\n(?=[*-] )", part)
    is_list = _ITEM.match(part) or part.startswith(("|", " "))
    return (part,) if is_list or not first else (part[: first.start()], part[first.end() :])


def _indented(text, names):
    if text.startswith(">>>"):
        return f"```pycon\n{text}\n```"
    return f"```python\n{text}\n```" if is_code(text) else _formula(text, names)


def _formula(text, names):
    return f"```{{raw}} html\n{formula_block(text, names)}\n```"


def _item(item):
    mark, _, text = item.partition(" ")
    return f"{mark} {escaped(_on_one_line(text))}"


def _on_one_line(paragraph):
    return " ".join(line.strip() for line in paragraph.splitlines())


def escaped(text: str) -> str:
    """A text whose signs outside of backticks mean themselves in Markdown."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([\\*<\[\]#~]|(?<!\w)_|_(?!\w))", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)
