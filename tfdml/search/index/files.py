"""Index folders: written whole and atomically, checked when read."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.atomic import atomic_write, only_writer, version_of
from tfdml._core.checks import require
from tfdml._core.checksums import is_same_model, listed_files, require_checksums, sha256_of, write_checksums
from tfdml._core.stored import map_array, parsed_json
from tfdml.typing import FilePath

MANIFEST = "index.json"
_FORMAT = "tfdml.search/5"
_DIGITS = 16  # of the checksum in a name
_SEARCHERS = ("scann", "faiss")  # components that only an index of this kind has
_COMPONENTS = {"ids", "gallery", "metadata", "alive", "center", *_SEARCHERS}  # of a segment


def seen(path: FilePath) -> dict[str, Any]:
    """The version of an index folder, by the name of the folder."""
    folder = os.path.realpath(Path(path).expanduser())
    return {folder: version_of(Path(folder))}


def write_index(
    path: FilePath,
    write: Callable[[Path], dict[str, Any]],
    listed: Callable[[Path], frozenset[str]],
    seen_before: Mapping[str, Any],
    model: str | None,
) -> dict[str, Any]:
    """Write an index folder atomically: `index.json`, the files that `write` puts there, and their checksums.

    `write` puts all files into a new folder (see `put`) and returns the content of `index.json`. It replaces an empty
    folder or an index at `path`. If the folder holds any file that `listed` does not name, it is left unchanged and a
    FileExistsError names the file. `seen_before` are versions of folders as `seen` gives them: an index that has
    replaced one of them, and is of another model than `model`, stays, and is a ValueError. Writers wait for each other.
    Returns the new version.
    """
    with only_writer(path, "path", wait=True):
        _require_known(path, seen_before, model)
        with atomic_write(path, listed) as folder:
            folder.mkdir()
            (folder / MANIFEST).write_text(json.dumps({"format": _FORMAT, **write(folder)}, indent=1))
            write_checksums(folder)
        return seen(path)


def _require_known(path, seen_before, model):
    """Raise an error if an index of another model has replaced a seen_before version."""
    ((folder, version),) = seen(path).items()
    if seen_before.get(folder, version) == version or not files_of_index(Path(folder)):
        return
    there = _parsed(Path(folder)).get("model")
    is_same = there is None or (model is not None and is_same_model(there, model))
    received = f"path={str(path)!r}, whose index of the model {str(there)[:12]} has replaced the one that was read"
    require(is_same, received, f"one of the model {str(model)[:12]}. Load it, and repeat the change")


def copy_links(source: Path, target: Path) -> None:
    """Give the files of a folder second names in a new folder; copies where the file system has none."""

    def link(file, copy):
        try:
            os.link(file, copy)
        except OSError:
            shutil.copy2(file, copy)

    shutil.copytree(source, target, copy_function=link)


def put(folder: Path, name: str, write: Callable[[Path], None]) -> str:
    """Write a file or a folder of files into an index folder; returns its name, with a checksum of its content."""
    path = folder / name
    write(path)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    digest = hashlib.sha256("".join(map(sha256_of, files)).encode()).hexdigest()[:_DIGITS]
    return path.replace(path.with_stem(f"{path.stem}-{digest}")).name


def read_kind(folder: Path) -> str:
    """The kind of index that `index.json` names, without comparing its checksum."""
    if not (folder / MANIFEST).is_file():
        raise FileNotFoundError(f"Received path={str(folder)!r}, expected a folder with {MANIFEST} that save() wrote.")
    return _parsed(folder)["kind"]


def read_manifest(folder: FilePath) -> dict[str, Any]:
    """Read `index.json`, and check all files of the index against their checksums."""
    folder = Path(folder).expanduser()
    read_kind(folder)
    manifest = _parsed(folder)
    require_checksums(folder)
    if not _has_segments(manifest, listed_files(folder)):
        raise ValueError(_damaged(folder, f"{MANIFEST} (segments)"))
    return manifest


def _parsed(folder):
    try:
        manifest = parsed_json((folder / MANIFEST).read_bytes(), MANIFEST)
    except ValueError as error:
        raise ValueError(_damaged(folder, MANIFEST)) from error
    version = manifest.get("format")
    if version != _FORMAT:
        raise ValueError(
            f"Received path={str(folder)!r}, an index of format {version!r}, expected {_FORMAT!r}. Update tfdml, or "
            "build the index again."
        )
    checked(folder, manifest, "kind", lambda kind: isinstance(kind, str))
    return manifest


def files_of_index(folder: Path) -> frozenset[str]:
    """Names of the files of the index in a folder; empty for a folder of another kind."""
    try:
        _parsed(folder)
    except (OSError, ValueError):
        return frozenset()
    return listed_files(folder)


def _has_segments(manifest, files):
    """Whether a manifest has one or more segments, and lists all their files."""
    records = manifest.get("segments")
    if not (isinstance(records, list) and records):
        return False
    return all(isinstance(record, dict) and _is_segment(manifest["kind"], record, files) for record in records)


def _is_segment(kind, record, files):
    """Whether a record has the components of a segment, each with a listed file or a folder of listed files."""
    has_vectors = ("gallery" in record) != ("scann" in record)  # ScaNN keeps them in its own files
    is_of_kind = all(kind == searcher for searcher in _SEARCHERS if searcher in record)
    has_components = "ids" in record and has_vectors and is_of_kind and record.keys() <= _COMPONENTS
    return has_components and all(
        isinstance(name, str) and any(f"{file}/".startswith(f"{name}/") for file in files) for name in record.values()
    )


def read_array(
    folder: Path, name: str, dtype: Any, shape: tuple[int | None, ...], *, mapped: bool = False
) -> np.ndarray:
    """Read one array of finite values of an index folder; `dtype` may be several, None in `shape` is any length."""
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


def checked(folder: Path, manifest: dict[str, Any], name: str, valid: Callable[[Any], bool]) -> Any:
    """The entry `name` of a manifest; a ValueError if it is missing, or `valid(entry)` is false or fails."""
    try:
        if valid(manifest[name]):
            return manifest[name]
    except (KeyError, TypeError):
        pass
    raise ValueError(_damaged(folder, f"{MANIFEST} ({name})"))


def _damaged(folder, name):
    return f"{name} in {str(folder)!r} is damaged: it is not what save() wrote. Save the index again."
