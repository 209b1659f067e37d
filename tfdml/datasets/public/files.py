"""Lists and image files of public data sets: each error shows the expected tree."""

import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml.datasets.readers.text import as_names, read_lines, require_short

Loader = Callable[..., Any]
_PARTIAL = "read a part of a set by tfdml.datasets.folder or table, whose numbers have no protocol"


def require_tree(condition: bool, root: str | os.PathLike[str], problem: str, tree: str) -> None:
    """Raise a ValueError that shows the expected files unless the condition holds."""
    if not condition:
        raise ValueError(f"Received root={os.fspath(root)!r}{problem}. Expected these files:{tree}")


def read_lists(root: str | os.PathLike[str], tree: str, *names: str) -> list[list[str]]:
    """The lines of text files."""
    for name in names:
        require_tree(pathlib.Path(root, name).is_file(), root, f", which has no {name}", tree)
    return [read_lines(pathlib.Path(root, name)) for name in names]


def as_columns(lines: Iterable[str], number: int) -> list[list[str]]:
    """The words of each line that is not blank."""
    rows = [line.split() for line in lines if line.strip()]
    for row in rows:
        require(len(row) == number, f"a line of {len(row)} columns ({' '.join(row)!r})", f"{number}")
    return rows


def require_inside(files: Iterable[str]) -> None:
    """Raise a ValueError if a name in a list is too long or would be outside of the folder of the set."""
    for file in files:
        require_short("a list with a name", file)
        is_inside = not os.path.isabs(file) and ".." not in pathlib.PurePath(file).parts
        require(is_inside, f"a list with {file!r}", "paths below root. Download the set again")


def existing_paths(root: str | os.PathLike[str], tree: str, files: Sequence[str]) -> np.ndarray:
    """Paths below root, all of them files; each folder is listed once."""
    folder = pathlib.Path(root)
    require_inside(files)
    names_by_folder = {parent: set(_names(folder / parent)) for parent in {os.path.dirname(file) for file in files}}
    missing = [file for file in files if os.path.basename(file) not in names_by_folder[os.path.dirname(file)]]
    problem = f" without {missing[0]} ({len(missing):,} of {len(files):,} images are missing)" if missing else ""
    require_tree(not missing, root, problem, tree)
    return as_names([str(folder / file) for file in files])


def _names(folder):
    return os.listdir(folder) if folder.is_dir() else []


def require_counts(name: str, received: tuple[int, int], expected: tuple[int, int]) -> None:
    """Raise a ValueError if a part of a set has other numbers of images and classes than the published ones."""
    counts = f"{received[0]:,} images of {received[1]:,} classes in {name}"
    published = f"{expected[0]:,} of {expected[1]:,}. The copy is incomplete, cleaned, or of another set: {_PARTIAL}"
    require(tuple(received) == tuple(expected), counts, published)
