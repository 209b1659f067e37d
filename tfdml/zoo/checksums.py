"""SHA256SUMS: the files of a folder and their checksums, as `sha256sum -c` reads them."""

import hashlib
import re
from pathlib import Path

from tfdml._checks import require

SUMS = "SHA256SUMS"
_PART = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+"  # one name; not the folder itself or the one above
_LINE = re.compile(rf"([0-9a-f]{{64}})  ({_PART}(?:/{_PART})*)")


def write_sums(folder: Path) -> None:
    """Write the checksums of all files of a folder into it."""
    (folder / SUMS).write_text(_text({name: _digest(file) for name, file in _files(folder).items()}))


def parsed(content: bytes) -> dict[str, str]:
    """Checksums by the name of the file.

    Names are relative and stay inside the folder.

    Raises:
        ValueError: the content is not to the byte what `write_sums` writes.
    """
    lines = [_LINE.fullmatch(line) for line in content.decode("ascii", "replace").splitlines()]
    sums = {line[2]: line[1] for line in lines if line}
    expected = "lines of a checksum and the name of a file, sorted by name"
    require(bool(sums) and _text(sums).encode() == content, f"{SUMS} of another form", expected)
    return sums


def problems(folder: Path) -> tuple[str, ...]:
    """What differs between a folder and its checksums: the name of a file and the reason, empty if nothing differs.

    Files that are links or no regular files are not opened.
    """
    try:
        sums = parsed((folder / SUMS).read_bytes())
    except (OSError, ValueError) as error:
        return (f"{SUMS}: {error}",)
    files = _files(folder)
    return tuple(
        f"{name}: {reason}"
        for name in sorted({*sums, *files})
        if (reason := _problem(files.get(name), sums.get(name))) is not None
    )


def _problem(file, digest):
    """The reason why a file is not as listed; None if it is."""
    if digest is None:
        return f"not in {SUMS}"
    if file is None:
        return "missing"
    if file.is_symlink() or not file.is_file():
        return "not a regular file"
    return None if _digest(file) == digest else f"differs from {SUMS}"


def _files(folder):
    """Everything in a folder but its folders and its checksums, by relative name."""
    found = [place for place in folder.rglob("*") if place.is_symlink() or not place.is_dir()]
    names = {place.relative_to(folder).as_posix(): place for place in found}
    return {name: place for name, place in names.items() if name != SUMS}


def _digest(file):
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _text(sums):
    return "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
