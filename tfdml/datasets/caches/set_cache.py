"""Loaded examples in one memory-mapped file."""

import contextlib
import hashlib
import json
import math
import os
import pathlib
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np

from tfdml._core.atomic import atomic_write, read_whole, require_replaceable
from tfdml._core.checks import require
from tfdml._core.checksums import SUMS, problems, sha256_of_rows, write_checksums
from tfdml._core.terminal import show_progress

_IMAGES, _KEY = "images.npy", "cache.json"
_OTHER = "was written for other files, or by another load"
_COMPARED = 4  # examples that are compared to see whether a cache belongs to its set


def cached(labeled_set: Any, folder: str | os.PathLike, load: Callable[..., Any] | None) -> Any:
    """A set whose examples are in a folder, see `LabeledSet.cached`."""
    path = pathlib.Path(folder)
    labeled_set = labeled_set if load is None else replace(labeled_set, load=load)
    key = _key(labeled_set)
    images, reason = read_whole(path, lambda folder: _opened(labeled_set, key, folder))
    if reason:
        warnings.warn(f"The cache in {path} {reason}. It is replaced.", stacklevel=3)
    if images is None:
        _write(path, labeled_set, key)
        images = np.load(path / _IMAGES, mmap_mode="r")
    return replace(labeled_set, paths=None, source=None, boxes=None, images=images, load=None)


def _opened(labeled_set, key, folder):
    """The images of a cache, or None; and the reason why they cannot be used, empty where there is nothing."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None, ""
    require_replaceable(folder, _listed_files)
    with contextlib.suppress(ValueError, RecursionError):  # a key that cannot be read
        if json.loads((folder / _KEY).read_text()) not in (key, None):
            return None, _OTHER
    damage = problems(folder)
    if damage:
        return None, f"is damaged ({'; '.join(damage)})"
    images = np.load(folder / _IMAGES, mmap_mode="r")
    rows = np.unique(np.linspace(0, len(labeled_set) - 1, _COMPARED).astype(int))
    is_same = len(images) == len(labeled_set) and np.array_equal(labeled_set.take(rows).examples(), images[rows])
    return (images, "") if is_same else (None, _OTHER)


def _listed_files(folder):
    """Names of the files of a cache, also of a damaged one; empty where its key, or all else, is missing."""
    is_ours = (folder / _KEY).is_file() and any((folder / name).is_file() for name in (_IMAGES, SUMS))
    return frozenset({_IMAGES, _KEY, SUMS}) if is_ours else frozenset()


def _key(labeled_set):
    """Files, images in memory, records, boxes and settings of `load`: what a cache depends on and needs no loading."""
    checksum = hashlib.sha256(str(len(labeled_set)).encode())
    for path in [] if labeled_set.paths is None else labeled_set.paths.tolist():
        status = os.stat(path)
        checksum.update(f"{os.path.abspath(path)} {status.st_size} {status.st_mtime_ns}\n".encode())
    checksum.update(_content(labeled_set, False).encode())
    if getattr(labeled_set.load, "boxes", False):
        checksum.update(np.ascontiguousarray(labeled_set.boxes).tobytes())
    return {"files": checksum.hexdigest(), "load": _settings(labeled_set.load)}


def fingerprint(labeled_set: Any, portable: bool = False) -> str:
    """The checksum of a set, see `LabeledSet.fingerprint`."""
    checksum = hashlib.sha256(repr((len(labeled_set), labeled_set.class_names, _settings(labeled_set.load))).encode())
    checksum.update(np.ascontiguousarray(labeled_set.labels).tobytes())
    paths = [] if labeled_set.paths is None else labeled_set.paths.tolist()
    checksum.update("".join(f"{line}\n" for line in states_of_files(paths, portable)).encode())
    checksum.update(_content(labeled_set, portable).encode())
    if labeled_set.boxes is not None:
        checksum.update(f"{labeled_set.boxes.dtype} {labeled_set.boxes.shape}".encode() + labeled_set.boxes.tobytes())
    return checksum.hexdigest()


def states_of_files(paths: Sequence[str], portable: bool) -> list[str]:
    """Name, size and modification time of each file; portable: its name in the common folder, and its size."""
    paths = list(map(os.path.abspath, paths))
    if not portable or not paths:
        return [f"{path} {_state(path)}" for path in paths]
    root = os.path.commonpath(list(map(os.path.dirname, paths)))
    return [f"{os.path.relpath(path, root)} {_state(path).split()[0]}" for path in paths]


def _content(labeled_set, portable):
    """A checksum of the images, or of what a source says of itself or of its names; empty for files."""
    if labeled_set.images is not None:
        return sha256_of_rows(labeled_set.images)
    return "" if labeled_set.source is None else fingerprint_of_source(labeled_set.source, portable)


def fingerprint_of_source(source: Any, portable: bool) -> str:
    """The text of a source's own method `fingerprint`; else a checksum of its names, or empty without names."""
    if hasattr(source, "fingerprint"):
        return source.fingerprint(portable=portable)
    names = getattr(source, "names", None)
    return "" if names is None else sha256_of_rows(names)


def _state(path):
    """Size and modification time of a file, or that it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return "missing"
    return f"{status.st_size} {status.st_mtime_ns}"


def _settings(load):
    """A record with its values, also of a method of it; the name of any other function."""
    load = getattr(load, "__self__", load)
    return repr(load) if is_dataclass(load) else getattr(load, "__qualname__", type(load).__name__)


def _write(path, labeled_set, key):
    with atomic_write(path, _listed_files) as new:
        new.mkdir()
        with (new / _IMAGES).open("wb") as file:
            for done, examples in _blocks(labeled_set):
                if not done:
                    _write_header(file, examples, len(labeled_set), new)
                file.write(np.ascontiguousarray(examples).data)
                show_progress("examples cached", done + len(examples), len(labeled_set))
        (new / _KEY).write_text(json.dumps(key))
        write_checksums(new)


def _blocks(labeled_set):
    """Number of examples before a batch, and its examples."""
    done = 0
    for batch, _ in labeled_set.batches(64):
        examples = batch if isinstance(batch, tuple | dict) else np.asarray(batch)
        received = f"examples of type {getattr(examples, 'dtype', type(examples).__name__)}"
        number = isinstance(examples, np.ndarray) and not examples.dtype.hasobject
        require(number, received, "one array of numbers per example, such as the uint8 images of Preprocessing")
        yield done, examples
        done += len(examples)


def _write_header(file, examples, number, path):
    """Check the room on the disk, and return the header of an .npy file of all examples."""
    shape = (number, *examples.shape[1:])
    size, free = math.prod(shape) * examples.itemsize / 2**30, shutil.disk_usage(path).free / 2**30
    if size > free:
        raise OSError(f"Received {free:.1f} GiB of free space for a cache, expected {size:.1f} GiB. Make room.")
    form = {"descr": np.lib.format.dtype_to_descr(examples.dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, form)
