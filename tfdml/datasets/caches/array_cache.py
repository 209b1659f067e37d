"""Cache of named arrays in one file, with a checksum and atomic writes."""

import hashlib
import os
import pathlib
import warnings

import numpy as np

from tfdml._core.atomic import atomic_write


def cache_folder():
    """The folder of caches: `TFDML_CACHE`, else `tfdml` in `XDG_CACHE_HOME` or `~/.cache`."""
    if os.environ.get("TFDML_CACHE"):
        return pathlib.Path(os.environ["TFDML_CACHE"])
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tfdml"


def cached(path, build):
    """The arrays in an .npz file that is complete at all times; without one, the arrays of `build()`, written to it.

    A damaged file is rebuilt with a warning; a file that cannot be written gives a warning.
    """
    if path.exists():
        try:
            return _read(path)
        except Exception as error:  # Each damage of the archive fails in its own way.
            warnings.warn(f"The cache file {path} is damaged ({error}). It is rebuilt.", stacklevel=4)
    arrays = build()
    try:
        with atomic_write(path) as partial:
            np.savez(partial, sha256=np.array(digest(arrays)), **arrays)
    except OSError as error:
        warnings.warn(
            f"The arrays could not be kept in {path} ({error}); they will be rebuilt next time. "
            "Set TFDML_CACHE to a folder that can be written.",
            stacklevel=4,
        )
    return arrays


def digest(arrays):
    """Hex sha256 of the names, dtypes, shapes and bytes of a dict of arrays."""
    checksum = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        checksum.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        checksum.update(array.data)
    return checksum.hexdigest()


def _read(path):
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as saved:
        arrays = dict(saved)
    expected = str(arrays.pop("sha256"))
    actual = digest(arrays)
    if actual != expected:
        raise ValueError(f"its sha256 is {actual}, expected {expected}")
    return arrays
