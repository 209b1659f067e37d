"""Files and folders that are either whole or not there."""

import contextlib
import os
import shutil
from pathlib import Path


@contextlib.contextmanager
def replacing(path):
    """A temporary name beside `path`; what is written there takes the place of `path` when the block ends well.

    Works for a file and for a folder. An exception in the block removes what was written and leaves `path` as it was;
    a process that dies leaves the old `path`, and the next call sweeps up after it.

    Args:
        path: the final file or folder.

    Yields:
        `pathlib.Path` in the same folder, with the same suffix.

    Raises:
        OSError: `path` cannot be written; see `check_writable`.
    """
    path = check_writable(path)
    partial = path.with_name(f".partial-{path.name}")
    _remove(partial)
    try:
        yield partial
        _move(partial, path)
    finally:
        _remove(partial)


def check_writable(path):
    """`path` as a `pathlib.Path` whose parent folder exists and can be written.

    Raises:
        OSError: the parent is a file, cannot be made, or may not be written.
    """
    path = Path(path).expanduser()
    advice = "expected a place that can be written. Choose another path, or change the permissions of the folder"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"Received path={str(path)!r}, {advice}: {error}.") from error
    if not os.access(path.parent, os.W_OK):
        raise OSError(f"Received path={str(path)!r}, {advice} {str(path.parent)!r}.")
    return path


def _move(source, target):
    """Rename; a folder in the way steps aside first, because only files are replaced in one step."""
    if not target.is_dir():
        os.replace(source, target)
        return
    aside = target.with_name(f".replaced-{target.name}")
    _remove(aside)
    os.rename(target, aside)
    os.rename(source, target)
    _remove(aside)


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
