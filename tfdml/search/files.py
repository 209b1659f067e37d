"""Index folders: written atomically, checked when read."""

import hashlib
import json
from pathlib import Path

import numpy as np

from tfdml._atomic import atomic_write

_MANIFEST = "index.json"
_FORMAT = "tfdml.search/2"
_WITHOUT_CHECKSUMS = "tfdml.search/1"


def write_index(folder, description, arrays, write_more=None):
    """Writes an index folder: `index.json`, one `.npy` file per array, and the files of `write_more`.

    All files are written to a hidden folder beside the target, which is renamed at the end. A crash leaves the old
    index or no index, and possibly the hidden folder, but never a partial index.

    Args:
        folder: target folder. An index or an empty folder is replaced; anything else is left unchanged.
        description: content of `index.json`; JSON types only.
        arrays: dict of file name without `.npy` to array.
        write_more: optional function that gets the hidden folder and writes further files.

    Raises:
        FileExistsError: `folder` holds anything other than an index.
        OSError: `folder` cannot be written.
    """
    target = Path(folder).expanduser()
    if not _replaceable(target):
        raise FileExistsError(
            f"Received folder={str(folder)!r}, which holds something other than an index; expected a new or "
            "empty folder, or an index. Pick another."
        )
    with atomic_write(target) as unfinished:
        unfinished.mkdir()
        for name, array in arrays.items():
            np.save(unfinished / f"{name}.npy", array, allow_pickle=False)
        if write_more:
            write_more(unfinished)
        manifest = {"format": _FORMAT, **description, "files": _files(unfinished)}
        (unfinished / _MANIFEST).write_text(_signed(manifest))


def read_manifest(folder):
    """Reads `index.json` and checks that it and every file it names are unchanged since they were written.

    The files of an index that an older version wrote have no checksums; their sizes are checked.

    Returns:
        the description given to `write_index`, as a dict.

    Raises:
        FileNotFoundError: no such folder, no index in it, or one of its files is missing.
        ValueError: a file has changed since it was written, or the index has the format of another version.
    """
    folder = Path(folder).expanduser()
    if not (folder / _MANIFEST).is_file():
        raise FileNotFoundError(f"Received folder={str(folder)!r}, expected one with {_MANIFEST} that save() wrote.")
    text = (folder / _MANIFEST).read_bytes()
    try:
        manifest = json.loads(text)
        found, files = manifest["format"], dict(manifest["files"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(_damaged(folder, _MANIFEST)) from error
    if found not in (_FORMAT, _WITHOUT_CHECKSUMS):
        raise ValueError(f"Received an index of format {found!r}, expected {_FORMAT!r}. Build it again.")
    signed = manifest.pop("sha256", None) is not None
    if signed != (found == _FORMAT) or (signed and text != _signed(manifest).encode()):
        raise ValueError(_damaged(folder, _MANIFEST))
    for name, expected in files.items():
        _require_file(folder, name, expected)
    return manifest


def read_array(folder, name, dtype, shape):
    """Reads one array of an index folder.

    Args:
        folder, name: as in `write_index`.
        dtype: expected type.
        shape: expected shape; None for any length.

    Raises:
        ValueError: the array has another type or shape, or holds a value that is not finite.
    """
    folder = Path(folder).expanduser()
    try:
        array = np.load(folder / f"{name}.npy", allow_pickle=False)
    except (EOFError, OSError, ValueError) as error:
        raise ValueError(_damaged(folder, f"{name}.npy")) from error
    if (
        array.dtype != dtype
        or array.ndim != len(shape)
        or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=False))
    ):
        raise ValueError(
            f"{name}.npy in {str(folder)!r} holds {array.dtype} of shape {array.shape}, expected {np.dtype(dtype)} of "
            f"shape {shape}. Save the index again."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name}.npy in {str(folder)!r} holds a value that is not finite. Save the index again.")
    return array


def checked(folder, manifest, name, valid):
    """The entry `name` of a manifest.

    Raises:
        ValueError: the entry is missing, or `valid(entry)` is false or fails.
    """
    try:
        if valid(manifest[name]):
            return manifest[name]
    except (KeyError, TypeError):
        pass
    raise ValueError(_damaged(folder, f"{_MANIFEST} ({name})"))


def _require_file(folder, name, expected):
    """Raises unless the file has the size, or the size and sha256, that its manifest states."""
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"The index in {str(folder)!r} lacks {name}. Save it again.")
    found = path.stat().st_size if isinstance(expected, int) else _entry(path)
    if found != expected:
        raise ValueError(_damaged(folder, name))


def _damaged(folder, name):
    return f"{name} in {str(folder)!r} is damaged: it is not what save() wrote. Save the index again."


def _replaceable(target):
    return not target.exists() or (target.is_dir() and ((target / _MANIFEST).is_file() or not any(target.iterdir())))


def _files(folder):
    return {str(p.relative_to(folder)): _entry(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def _entry(path):
    """Size and sha256 of a file, as a manifest states them."""
    with open(path, "rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _signed(manifest):
    """JSON text of a manifest with its sha256."""
    own = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, "sha256": own}, indent=1)
