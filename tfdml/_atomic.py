"""Atomic writes of files and folders, with several writers, readers at any time and crashes.

What holds where:

* Each writer has its own hidden folder beside the target, `.partial-<process>-<random>-<name>`, and works in there.
  What it wrote is flushed to the disk before it is moved. Of several writers the last one to finish wins.
* A file, and on Linux a folder too, is replaced in one step: `path` is never missing. Folders change places by
  `renameat2` with `RENAME_EXCHANGE`, which ext4, XFS, Btrfs and tmpfs have.
* Elsewhere (NFS, other systems) a folder in the way steps aside first. A process that dies between these two renames
  leaves `path` missing; the next writer, or the next reader by `recovered`, puts the old folder back.
* What a dead process left is removed by the next writer, known by a lock that ends with the process. Where there are
  no locks (Windows, some network file systems) it stays, as it could be a living writer's.
"""

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux, linux/fcntl.h and linux/fs.h
_RENAMEAT2 = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP)

T = TypeVar("T")


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary name; what is written there takes the place of `path` when the block ends well.

    Works for a file and for a folder. An exception in the block removes what was written and leaves `path` as it was;
    a process that dies leaves the old `path`, and the next call removes what it left behind.

    Args:
        path: the final file or folder.

    Yields:
        `pathlib.Path` on the same file system, with the same suffix. Nothing is there yet.

    Raises:
        OSError: `path` cannot be written; see `as_writable_path`.
    """
    path = as_writable_path(path)
    _sweep(path)
    workspace, lock = _workspace(path)
    try:
        new = workspace / f"new{path.suffix}"
        yield new
        for place in [*new.rglob("*"), new]:
            _flush(place)
        _publish(new, path, workspace)
        _flush(path.parent)
        _forget(workspace)
    finally:
        os.close(lock)
        _clear(workspace, path)


def as_writable_path(path: str | os.PathLike) -> Path:
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


def recovered(path: str | os.PathLike) -> Path:
    """Where the last whole version of `path` is: there, unless a writer died between the two renames of a folder.

    Such a folder is put back. Where that is not allowed (a read-only file system) its place is returned.

    Returns:
        `pathlib.Path`; `path` itself if there is no version at all.
    """
    path = Path(path).expanduser()
    for workspace in [] if os.path.lexists(path) else _workspaces(path):
        _put_back(workspace, path)
        if os.path.lexists(path):
            return path
        if (workspace / "old").exists():
            return workspace / "old"
    return path


def read_whole(path: str | os.PathLike, read: Callable[[Path], T]) -> T:
    """`read(path)` of one version of a folder, also while a writer replaces it.

    A folder that was replaced during the read is read again, as its files may be of two versions, or gone. An error is
    raised when it comes twice for one version.

    Args:
        path: a folder that `atomic_write` writes.
        read: function of its `pathlib.Path`.

    Returns:
        what `read` returns.
    """
    failed: object = ...
    while True:
        place = recovered(path)
        before = _version(place)
        try:
            found = read(place)
        except Exception:
            if _version(place) == before == failed:  # once, it may have been set aside and put back meanwhile
                raise
            failed = before
        else:
            if _version(place) == before:
                return found


def _version(path):
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns  # a number of a removed folder may be given out again


def _workspace(path):
    """A new hidden folder for one writer of `path`, and a descriptor that holds its lock."""
    while True:
        workspace = path.with_name(f".partial-{os.getpid()}-{secrets.token_hex(4)}-{path.name}")
        workspace.mkdir()
        with contextlib.suppress(FileNotFoundError):  # another writer took it for a dead one's before it was locked
            lock = _open_lock(workspace)
            _locked(lock)
            if (workspace / "lock").exists():
                return workspace, lock
            os.close(lock)


def _workspaces(path):
    """Folders of all writers of `path`, dead or alive, the one that changed last first."""
    pattern = re.compile(rf"\.partial-\d+-[0-9a-f]{{8}}-{re.escape(path.name)}")
    found = [place for place in path.parent.glob(".partial-*") if pattern.fullmatch(place.name)]
    return sorted(found, key=lambda place: (_version(place) or (0, 0, 0))[-1], reverse=True)


def _open_lock(workspace):
    return os.open(workspace / "lock", os.O_RDWR | os.O_CREAT, 0o644)


def _locked(lock, *, wait=True):
    """Whether the lock was taken: not from a living process, nor where there are no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _sweep(path):
    """Remove what dead writers of `path` left."""
    recovered(path)
    for workspace in _workspaces(path):
        with contextlib.suppress(OSError):  # it is gone, or another user's
            lock = _open_lock(workspace)
            try:
                if _locked(lock, wait=False):
                    _clear(workspace, path)
            finally:
                os.close(lock)


def _publish(new, path, workspace):
    """Move `new` to `path`, in one step where the system can."""
    moved = False
    while not moved:
        if path.is_dir() or (new.is_dir() and os.path.lexists(path)):
            if _exchanged(new, path):
                return
            _set_aside(path, workspace)
        moved = _moved(new, path)


def _exchanged(new, path):
    """Whether two names changed places in one step; not where the file system or the system cannot."""
    if _RENAMEAT2 is None:
        return False
    return _RENAMEAT2(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(path), _RENAME_EXCHANGE) == 0


def _moved(new, path):
    """Whether `new` was renamed to `path`; not where another writer's folder came in between."""
    try:
        os.replace(new, path)
    except OSError:
        if not path.is_dir():
            raise
        return False
    return True


def _set_aside(path, workspace):
    _forget(workspace)
    with contextlib.suppress(FileNotFoundError):  # another writer sets it aside at the same time
        os.rename(path, workspace / "old")


def _put_back(workspace, path):
    if not os.path.lexists(path):
        with contextlib.suppress(OSError):  # nothing was set aside, or `path` is there by now
            os.rename(workspace / "old", path)


def _forget(workspace):
    """Give up what was set aside, in one step: it is not put back from the moment when it is no longer whole."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(workspace / "old", workspace / secrets.token_hex(4))


def _clear(workspace, path):
    """Remove a writer's folder, after what it set aside and did not replace is put back."""
    _put_back(workspace, path)
    _forget(workspace)
    shutil.rmtree(workspace, ignore_errors=True)


def _flush(path):
    """Flush a file, or the names in a folder, to the disk."""
    if path.is_symlink() or (os.name == "nt" and path.is_dir()):
        return
    opened = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise
    finally:
        os.close(opened)
