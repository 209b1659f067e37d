"""Checksums of the files of a folder, in a file that `sha256sum --check` reads."""

import hashlib
import re
from pathlib import Path

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def write_checksums(folder: Path, name: str) -> None:
    """Writes the sha256 of every file of a folder to the file `name` in it, one line `sha256  file` per file."""
    files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    lines = [f"{sha256_of(folder / file)}  {file}\n" for file in files if file != name]
    (folder / name).write_text("".join(lines))


def require_checksums(folder: Path, name: str) -> None:
    """Checks all files that `write_checksums` listed; other files may have been added.

    Raises:
        ValueError: one of them, or the list, has changed or is missing.
    """
    lines = (folder / name).read_text(errors="replace").split("\n") if (folder / name).is_file() else []
    listed = [_LINE.fullmatch(line) for line in lines[:-1]]
    if not listed or None in listed or lines[-1]:
        raise ValueError(f"{name} in {str(folder)!r} is missing or damaged.")
    for sha256, file in (line.groups() for line in listed if line):
        if not (folder / file).is_file() or sha256_of(folder / file) != sha256:
            raise ValueError(f"{file} in {str(folder)!r} is missing or damaged: its sha256 is not that in {name}.")


def sha256_of(file: Path) -> str:
    """The sha256 of a file, in hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
