"""Index folders: written whole or not at all, checked when read."""

import json
from pathlib import Path

import numpy as np

from tfdml._files import replacing

_MANIFEST = "index.json"
_FORMAT = "tfdml.search/1"


def write_index(folder, description, arrays, write_more=None):
    """Writes an index folder: `index.json`, one `.npy` file an array, and what `write_more` adds.

    All of it goes into a hidden folder beside the target, which is renamed at the end. A crash leaves the old index or
    none, and perhaps that hidden folder; never half an index.

    Args:
        folder: where to. An index or an empty folder there is replaced; anything else is left alone.
        description: what `index.json` says; JSON types only.
        arrays: dict of file name without `.npy` to array.
        write_more: optional function that gets the hidden folder and writes further files.

    Raises:
        FileExistsError: there is something else than an index at `folder`.
        OSError: `folder` cannot be written.
    """
    target = Path(folder).expanduser()
    if not _replaceable(target):
        raise FileExistsError(f"Received folder={str(folder)!r}, which holds other things than an index. Pick another.")
    with replacing(target) as unfinished:
        unfinished.mkdir()
        for name, array in arrays.items():
            np.save(unfinished / f"{name}.npy", array, allow_pickle=False)
        if write_more:
            write_more(unfinished)
        manifest = {"format": _FORMAT, **description, "files": _sizes(unfinished)}
        (unfinished / _MANIFEST).write_text(json.dumps(manifest, indent=1))


def read_manifest(folder):
    """Reads `index.json` and checks that every file it names is there at its full size.

    Returns:
        the description given to `write_index`, as a dict.

    Raises:
        FileNotFoundError: no such folder, no index in it, or one of its files is missing.
        ValueError: a file has another size than when it was written, or another version wrote the index.
    """
    folder = Path(folder).expanduser()
    if not (folder / _MANIFEST).is_file():
        raise FileNotFoundError(f"Received folder={str(folder)!r}, expected one with {_MANIFEST} that save() wrote.")
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        found, files = manifest["format"], manifest["files"]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{_MANIFEST} in {str(folder)!r} is damaged. Save the index again.") from error
    if found != _FORMAT:
        raise ValueError(f"Received an index of format {found!r}, expected {_FORMAT!r}. Build it again.")
    for name, size in files.items():
        if not (folder / name).is_file():
            raise FileNotFoundError(f"The index in {str(folder)!r} lacks {name}. Save it again.")
        if (folder / name).stat().st_size != size:
            raise ValueError(f"{name} in {str(folder)!r} is damaged: expected {size} bytes. Save the index again.")
    return manifest


def read_array(folder, name):
    """Reads one array of an index folder."""
    return np.load(Path(folder).expanduser() / f"{name}.npy", allow_pickle=False)


def _replaceable(target):
    return not target.exists() or (target.is_dir() and ((target / _MANIFEST).is_file() or not any(target.iterdir())))


def _sizes(folder):
    return {str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*")) if p.is_file()}
