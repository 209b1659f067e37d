"""Lists and image files of public sets: each error shows the expected tree."""

import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from recipes.checks import require

Loader = Callable[..., Any]


def read_lists(root: str | os.PathLike[str], tree: str, *names: str) -> list[list[str]]:
    """The lines of text files."""
    for name in names:
        if not pathlib.Path(root, name).is_file():
            raise ValueError(f"Received root={os.fspath(root)!r}, which has no {name}. Expected these files:{tree}")
    return [pathlib.Path(root, name).read_text("utf-8").splitlines() for name in names]


def as_columns(lines: Iterable[str], number: int) -> list[list[str]]:
    """The words of each line that is not blank."""
    rows = [line.split() for line in lines if line.strip()]
    for row in rows:
        require(len(row) == number, f"a line of {len(row)} columns ({' '.join(row)!r})", f"{number}")
    return rows


def existing_paths(root: str | os.PathLike[str], tree: str, files: Sequence[str]) -> np.ndarray:
    """Paths below root, all of which are files; each folder is listed once."""
    folder = pathlib.Path(root)
    names_by_folder = {parent: set(_names(folder / parent)) for parent in {os.path.dirname(file) for file in files}}
    missing = [file for file in files if os.path.basename(file) not in names_by_folder[os.path.dirname(file)]]
    if missing:
        raise ValueError(
            f"Received root={os.fspath(root)!r} without {missing[0]} ({len(missing):,} of {len(files):,} images are "
            f"missing). Expected these files:{tree}"
        )
    return np.array([str(folder / file) for file in files], str)


def _names(folder):
    return os.listdir(folder) if folder.is_dir() else []
