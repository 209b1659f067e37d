"""A small cache of named arrays in one file, checked when read and replaced in one step when written."""

import hashlib
import os
import pathlib
import warnings
import zipfile

import numpy as np

from tfdml._atomic import atomic_write


def cache_folder(cache):
    """The folder to keep arrays in.

    Args:
        cache: a folder; None for the user's own (`TFDML_CACHE`, else `tfdml` in `XDG_CACHE_HOME` or `~/.cache`);
            False for none.

    Returns:
        pathlib.Path, or None for no cache.
    """
    if cache is False:
        return None
    if cache is True:
        raise ValueError("Received cache=True, expected a folder, None for the user's cache folder, or False for none.")
    if cache is not None:
        return pathlib.Path(cache)
    if os.environ.get("TFDML_CACHE"):
        return pathlib.Path(os.environ["TFDML_CACHE"])
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tfdml"


def cached(path, build):
    """The arrays of a file, or those that `build` makes, which are then written to it.

    A file that does not match its checksum is rebuilt, with a warning; so is one of another format. Where the file
    cannot be written, a warning says so and the arrays are returned all the same. Several processes may build the same
    file: each returns what it built, and the file is whole at any time.

    Args:
        path: pathlib.Path of an .npz file, or None to build without a cache.
        build: function of nothing that returns a dict of arrays.

    Returns:
        dict of arrays.
    """
    if path is None:
        return build()
    if path.exists():
        try:
            return _read(path)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            warnings.warn(f"The cache file {path} is damaged ({error}). It is rebuilt.", stacklevel=4)
    arrays = build()
    try:
        _write(path, arrays)
    except OSError as error:
        warnings.warn(
            f"The arrays could not be kept in {path} ({error}); next time they are rebuilt. "
            "Set TFDML_CACHE or pass cache= to name a folder that can be written, or cache=False to keep none.",
            stacklevel=4,
        )
    return arrays


def digest(arrays):
    """Hex sha256 over names, types, shapes and bytes of a dict of arrays."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(array.data)
    return total.hexdigest()


def _read(path):
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as saved:
        arrays = dict(saved)
    expected = str(arrays.pop("sha256"))
    found = digest(arrays)
    if found != expected:
        raise ValueError(f"its sha256 is {found}, expected {expected}")
    return arrays


def _write(path, arrays):
    with atomic_write(path) as partial:
        np.savez(partial, sha256=np.array(digest(arrays)), **arrays)
