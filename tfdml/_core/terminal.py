"""Text from files made safe to print and to open in a spreadsheet, and progress on a terminal."""

import csv
import re
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_ESCAPED = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # categories: controls, directions, lone surrogates, line breaks
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # a text that begins so, also behind quotes, gets one more quote
_WIDTH = 30  # characters of a whole bar


def visible(text: str) -> str:
    r"""Text of one line whose control characters, also line breaks, are escapes such as `\x1b` for a terminal."""
    return "".join(map(_visible_character, text))


def as_cells(row: Iterable[Any]) -> list[Any]:
    """A row of a CSV file whose texts no spreadsheet takes for a formula: one that begins as a formula gets a quote."""
    return [f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in row]


def write_table(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV file of cells that no spreadsheet takes for formulas."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(map(as_cells, rows))


def from_cells(row: Iterable[str]) -> list[str]:
    """The texts that `as_cells` made a row of."""
    return [cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell for cell in row]


def _visible_character(character):
    is_escaped = unicodedata.category(character) in _ESCAPED
    return character.encode("unicode_escape").decode() if is_escaped else character


def show_progress(what: str, done: int, total: int) -> None:
    """A bar on a terminal; nothing if the output is a file."""
    if sys.stderr.isatty():
        bar = "=" * (_WIDTH * done // max(total, 1))
        print(f"\r{what} [{bar:<{_WIDTH}}] {done:,}/{total:,}", end="\n" * (done == total), file=sys.stderr, flush=True)


def show_stage(what: str, total: int) -> None:
    """A line at the end of a stage of a long command; nothing on a terminal, which has a bar."""
    if not sys.stderr.isatty():
        print(f"{what}: {total:,}", file=sys.stderr, flush=True)
