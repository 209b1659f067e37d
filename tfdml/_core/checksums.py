"""Checksums of the files of a folder, in a file that `sha256sum -c` reads."""

import hashlib
import re
from pathlib import Path

from tfdml._core.checks import require

SUMS = "SHA256SUMS"
_PART = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+"  # one name; not the folder itself or the one above
_NAME = rf"{_PART}(?:/{_PART})*"
_LINE = re.compile(rf"([0-9a-f]{{64}})  ({_NAME})")


def write_checksums(folder: Path, sums: str = SUMS) -> None:
    """Write the sha256 of all other files of a folder into its file `sums`."""
    (folder / sums).write_text(_text({name: sha256_of(file) for name, file in _files(folder, sums).items()}))


def require_checksums(folder: Path, sums: str = SUMS) -> None:
    """Raise a ValueError if the file `sums`, or one that it lists, has changed or is missing; others may be added."""
    changes = [problem for problem in problems(folder, sums) if not problem.endswith(f": not in {sums}")]
    require(
        not changes,
        f"{str(folder)!r}, in which {'; '.join(changes)}",
        "the files as they were written. Copy them again",
    )


def problems(folder: Path, sums: str = SUMS) -> tuple[str, ...]:
    """Differences between a folder and its checksum file, each the name of a file and the reason.

    Files that are links or no regular files are not opened.
    """
    try:
        listed = parsed((folder / sums).read_bytes())
    except (OSError, ValueError) as error:
        return (f"{sums}: {error}",)
    files = _files(folder, sums)
    return tuple(
        f"{name}: {reason}"
        for name in sorted({*listed, *files})
        if (reason := _problem(files.get(name), listed.get(name), sums)) is not None
    )


def parsed(content: bytes) -> dict[str, str]:
    """Checksums by the name of the file.

    Names are relative and stay inside the folder.

    Raises:
        ValueError: the content is not to the byte what `write_checksums` writes.
    """
    lines = [_LINE.fullmatch(line) for line in content.decode("ascii", "replace").splitlines()]
    listed = {line[2]: line[1] for line in lines if line}
    expected = "lines of a checksum and the name of a file, sorted by name"
    require(bool(listed) and _text(listed).encode() == content, "checksums of another form", expected)
    return listed


def is_listable(name: str) -> bool:
    """Whether a checksum file can hold a name: relative, of letters, digits, ".", "_" and "-", inside the folder."""
    return re.fullmatch(_NAME, name) is not None


def listed_files(folder: Path, sums: str = SUMS) -> frozenset[str]:
    """Names of the files in a checksum file, and its own name; empty where it is missing or malformed."""
    try:
        return frozenset({*parsed((folder / sums).read_bytes()), sums})
    except (OSError, ValueError):
        return frozenset()


def sha256_of(file: Path) -> str:
    """The sha256 of a file, in hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _problem(file, sha256, sums):
    """The reason why a file is not as listed; None if it is."""
    if sha256 is None:
        return f"not in {sums}"
    if file is None:
        return "missing"
    if file.is_symlink() or not file.is_file():
        return "not a regular file"
    return None if sha256_of(file) == sha256 else f"differs from {sums}"


def _files(folder, sums):
    """Everything in a folder but its folders and its checksums, by relative name."""
    files = [file for file in folder.rglob("*") if file.is_symlink() or not file.is_dir()]
    names = {file.relative_to(folder).as_posix(): file for file in files}
    return {name: file for name, file in names.items() if name != sums}


def _text(listed):
    return "".join(f"{listed[name]}  {name}\n" for name in sorted(listed))
