"""Index folders: written atomically, checked when read."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml._core.checksums import is_listable, sha256_of
from tfdml._core.json_files import parsed_json
from tfdml._core.memory_maps import map_array

_MANIFEST = "index.json"
_FORMAT = "tfdml.search/4"
_DIGITS = 16  # of the checksum in a name
_SEARCHERS = ("scann", "faiss")  # components that only an index of this kind has
_COMPONENTS = {"ids", "gallery", "metadata", "alive", "center", *_SEARCHERS}  # of a segment


class SavedFile(NamedTuple):
    """A file of an index, or a folder of files, which never changes: its checksum is in its name.

    Attributes:
        name: name in the index folder.
        entries: size and sha256 of every file, by its path in the index folder.
    """

    name: str
    entries: dict[str, Any]


class Files:
    """The files of an index that is being written.

    Args:
        new: the folder to write to.
        old: the folder of the index that will be replaced; files that stay are linked.

    Attributes:
        entries: size and sha256 of every file so far, by its path in the index folder.
    """

    def __init__(self, new, old):
        self.entries = {}
        self._new, self._old = new, old

    def put(self, file, name, write):
        """Link a file from the old folder, or write it if it is not there.

        Args:
            file: the `SavedFile` if it was written before, else None.
            name: name without checksum, such as "ids.npy".
            write: function of the path of a file or folder to write.

        Returns:
            the `SavedFile`.
        """
        if file is None or not self._link(file):
            file = self._write(Path(name), write)
        self.entries |= file.entries
        return file

    def _link(self, file):
        """Link a file; return False if it is missing or the file system has no links."""
        try:
            for name in file.entries:
                (self._new / name).parent.mkdir(exist_ok=True)
                os.link(self._old / name, self._new / name)
        except OSError:
            _discard(self._new / file.name)
            return False
        return True

    def _write(self, name, write):
        path = self._new / f"unnamed{name.suffix}"
        write(path)
        entries = _entries(path)
        digest = hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:_DIGITS]
        final_name = f"{name.stem}-{digest}{name.suffix}"
        os.replace(path, self._new / final_name)
        return SavedFile(final_name, {final_name + suffix: entry for suffix, entry in entries.items()})


def write_index(path, write):
    """Write an index folder: `index.json`, and the files that `write` puts there.

    All files are written to a hidden folder beside the target, which is renamed at the end. A crash leaves the old
    index or no index, and possibly the hidden folder, but never a partial index.

    Args:
        path: target folder, or a link to it. An empty folder is replaced, and an index without other files in its
            folder; anything else is left unchanged.
        write: function of `Files` that puts all files and returns the content of `index.json`; JSON types only.

    Raises:
        FileExistsError: the folder holds a file that is not part of an index; it is named.
        OSError: the folder cannot be written.
    """
    target = Path(path).expanduser()
    with atomic_write(target, _listed_files) as unfinished:
        unfinished.mkdir()
        files = Files(unfinished, target)
        manifest = {"format": _FORMAT, **write(files)}
        (unfinished / _MANIFEST).write_text(_signed({**manifest, "files": files.entries}))


def read_manifest(folder):
    """Read `index.json` and check that it and every file it names are unchanged since they were written.

    Returns:
        the content of `index.json`.

    Raises:
        FileNotFoundError: no such folder, no index in it, or one of its files is missing.
        ValueError: a file has changed since it was written, or the index has another format.
    """
    folder = Path(folder).expanduser()
    if not (folder / _MANIFEST).is_file():
        raise FileNotFoundError(f"Received path={str(folder)!r}, expected a folder with {_MANIFEST} that save() wrote.")
    manifest = _parsed(folder)
    for name, expected in manifest["files"].items():
        _require_file(folder, name, expected)
    if not _has_segments(manifest):
        raise ValueError(_damaged(folder, f"{_MANIFEST} (segments)"))
    return manifest


def _has_segments(manifest):
    """Whether a manifest has one or more segments, and lists their files."""
    records = manifest.get("segments")
    if not (isinstance(records, list) and records):
        return False
    return all(isinstance(record, dict) and _is_segment(manifest, record) for record in records)


def _is_segment(manifest, record):
    """Whether a record has the components of a segment, and the manifest lists their files."""
    has_vectors = ("gallery" in record) != ("scann" in record)  # ScaNN keeps them in its own files
    is_of_kind = all(manifest["kind"] == searcher for searcher in _SEARCHERS if searcher in record)
    has_components = "ids" in record and has_vectors and is_of_kind and record.keys() <= _COMPONENTS
    return has_components and all(saved_file(manifest, name) for name in record.values())


def _parsed(folder):
    """The content of `index.json`, as `save` wrote it."""
    text = (folder / _MANIFEST).read_bytes()
    try:
        manifest = parsed_json(text, _MANIFEST)
    except ValueError as error:
        raise ValueError(_damaged(folder, _MANIFEST)) from error
    version = manifest.get("format")
    if isinstance(version, str) and version != _FORMAT:
        raise ValueError(
            f"Received path={str(folder)!r}, an index of format {version!r}, expected {_FORMAT!r}. Update tfdml, or "
            "build the index again."
        )
    is_unchanged = manifest.pop("sha256", None) is not None and text == _signed(manifest).encode()
    has_types = version == _FORMAT and isinstance(manifest.get("kind"), str)
    if not (has_types and is_unchanged and _are_entries(manifest.get("files"))):
        raise ValueError(_damaged(folder, _MANIFEST))
    return manifest


def _are_entries(files):
    """Whether all names are inside the folder and have a size."""
    return isinstance(files, dict) and all(is_listable(name) and _is_entry(entry) for name, entry in files.items())


def _is_entry(entry):
    size = entry.get("bytes") if isinstance(entry, dict) else None
    return type(size) is int and size >= 0


def _listed_files(folder):
    """Names of the files of the index in a folder; empty where `index.json` is missing, damaged or not of an index."""
    try:
        return {_MANIFEST, *_parsed(folder)["files"]}
    except (OSError, ValueError):
        return frozenset()


def saved_file(manifest, name):
    """The `SavedFile` of this name; None if the manifest lists neither such a file nor files in such a folder."""
    entries = {file: entry for file, entry in manifest["files"].items() if f"{file}/".startswith(f"{name}/")}
    return SavedFile(name, entries) if entries and isinstance(name, str) else None


def read_array(folder, name, dtype, shape, *, mapped=False):
    """Read one array of an index folder.

    Args:
        folder: an index folder.
        name: name of the file.
        dtype: expected type, or several.
        shape: expected shape; None for any length.
        mapped: whether to memory-map it.

    Raises:
        ValueError: the array has another type or shape, or holds a value that is not finite.
    """
    folder = Path(folder).expanduser()
    try:
        array = map_array(folder / name)
    except (OSError, ValueError) as error:
        raise ValueError(_damaged(folder, name)) from error
    types = dtype if isinstance(dtype, tuple) else (dtype,)
    if (
        array.dtype.type not in types
        or array.ndim != len(shape)
        or any(size not in (None, length) for size, length in zip(shape, array.shape, strict=False))
    ):
        raise ValueError(
            f"{name} in {str(folder)!r} holds {array.dtype} of shape {array.shape}, expected "
            f"{' or '.join(scalar_type.__name__ for scalar_type in types)} of shape {shape}. Save the index again."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} in {str(folder)!r} holds a value that is not finite. Save the index again.")
    return np.asarray(array) if mapped else np.array(array)


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
    """Raise unless the file has the size and the sha256 that its manifest states."""
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"The index in {str(folder)!r} lacks {name}. Save it again.")
    if expected != _entry(path):
        raise ValueError(_damaged(folder, name))


def _damaged(folder, name):
    return f"{name} in {str(folder)!r} is damaged: it is not what save() wrote. Save the index again."


def _discard(path):
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _entries(path):
    """Size and sha256 of a file, by an empty name, or of all files in a folder, by `/` and their path inside."""
    if path.is_file():
        return {"": _entry(path)}
    return {f"/{file.relative_to(path).as_posix()}": _entry(file) for file in sorted(path.rglob("*")) if file.is_file()}


def _entry(path):
    """Size and sha256 of a file, as in a manifest."""
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _signed(manifest):
    """JSON text of a manifest with its sha256."""
    digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, "sha256": digest}, indent=1)
