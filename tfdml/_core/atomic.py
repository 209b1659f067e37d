"""Atomic writes of files and folders, safe for concurrent writers and readers and for crashes.

Guarantees:

* Each writer works in its own hidden folder next to the target, `.partial-<process>-<random>-<name>`, and flushes its
  files to the disk before it moves them. Among concurrent writers the last one to finish wins.
* A folder is replaced only if its writer knows every file in it. Any other file is named in a `FileExistsError`, and
  everything stays as it is. A symbolic link stays: its target is written.
* A file, and on Linux also a folder, is replaced in one step: `path` is never missing. Folders are exchanged by
  `renameat2` with `RENAME_EXCHANGE`, which ext4, XFS, Btrfs and tmpfs support.
* Elsewhere (NFS, other systems) an existing folder is first set aside by another rename. If the process dies between
  the two renames, `path` is missing; the next writer, or the next reader through `recovered`, puts the old folder back.
* The next writer removes the folders of dead processes, recognized by a lock that ends with the process. Without locks
  (Windows, some network file systems) these folders stay, since they could belong to a running writer.
"""

import contextlib
import ctypes
import errno
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # from linux/fcntl.h and linux/fs.h
_RENAMEAT2 = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
_thread = threading.local()  # has the locks that a thread holds
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_FLUSH_NOT_SUPPORTED = (errno.EINVAL, errno.ENOTSUP)

T = TypeVar("T")
Listed = Callable[[Path], Collection[str]]


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike, listed: Listed | None = None) -> Iterator[Path]:
    """Yield a temporary name; the file or folder written there replaces `path` when the block ends without an error.

    An exception in the block removes what was written and leaves `path` unchanged. If the process dies, the old `path`
    stays, and the next call removes the temporary files. `listed` writes a folder, see `require_replaceable`; None
    writes a file. The yielded path is on the same file system, has the same suffix, and does not exist yet.
    """
    path = _target(as_writable_path(path))
    sweep(path)
    require_replaceable(path, listed)
    workspace, lock = _workspace(path)
    try:
        new = workspace / f"new{path.suffix}"
        yield new
        for written in [*new.rglob("*"), new]:
            _fsync(written)
        require_replaceable(path, listed)
        _publish(new, path, workspace)
        _fsync(path.parent)
        _discard_old(workspace)
    finally:
        os.close(lock)
        _clear(workspace, path)


def as_writable_path(path: str | os.PathLike) -> Path:
    """`path` as a `pathlib.Path`, in a folder that exists and can be written; of a symbolic link, the target's."""
    named, path = Path(path).expanduser(), _target(path)
    advice = "expected a place that can be written. Choose another path, or change the permissions of the folder"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"Received path={str(path)!r}, {advice}: {error}.") from error
    if not os.access(path.parent, os.W_OK):
        raise OSError(f"Received path={str(path)!r}, {advice} {str(path.parent)!r}.")
    return named


def require_replaceable(path: str | os.PathLike, listed: Listed | None = None) -> None:
    """Raise a FileExistsError unless writing to `path` replaces nothing but an earlier version.

    To write a folder, `listed` takes the existing one and returns the relative names of all files in it that an earlier
    version may have, or an empty collection for a folder of another kind.
    """
    path = _target(path)
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return
    if is_folder != (listed is not None):
        kind, expected = ("folder", "file") if is_folder else ("file", "folder")
        received = f"Received path={str(path)!r}, which is a {kind}"
        raise FileExistsError(f"{received}, expected the name of a {expected}. Choose another path.")
    if listed is not None:
        read_whole(path, lambda folder: _require_listed(folder, listed(folder)))


def _require_listed(folder, names):
    """Raise a FileExistsError that names the first file or link of a folder that is not among `names`."""
    files = (entry for entry in sorted(folder.rglob("*")) if entry.is_symlink() or not entry.is_dir())
    foreign = next((file for file in files if file.relative_to(folder).as_posix() not in names), None)
    if foreign is not None:
        raise FileExistsError(
            f"Received path={str(folder)!r}, a folder with {foreign.relative_to(folder).as_posix()!r}, which is not a "
            "file of an earlier version; expected a new or empty folder, or one that the same function wrote. Choose "
            "another path, or move that file."
        )


def _target(path: str | os.PathLike) -> Path:
    """The path that a symbolic link leads to, which need not exist; any other path as it is."""
    path = Path(path).expanduser()
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise OSError(
            errno.ELOOP, "Received a symbolic link that leads to itself, expected a file or folder", str(path)
        )
    return target


def recovered(path: str | os.PathLike) -> Path:
    """Location of the last complete version: `path`, unless a writer died between the two renames of a folder.

    Such a folder is put back. If that is not allowed (a read-only file system), its current location is returned.
    """
    path = _target(path)
    for workspace in [] if os.path.lexists(path) else _workspaces(path):
        _put_back(workspace, path)
        if os.path.lexists(path):
            return path
        if (workspace / "old").exists():
            return workspace / "old"
    return path


def read_whole(path: str | os.PathLike, read: Callable[[Path], T]) -> T:
    """`read(path)` on a single version of a folder, even while a writer replaces it.

    A folder that was replaced during the read is read again, since its files may belong to two versions or be gone. An
    error is raised if it occurs twice for the same version. `read` takes a URL as it is.
    """
    if "://" in str(path):
        return read(str(path))  # type: ignore[arg-type]
    failed: object = ...
    while True:
        folder = recovered(path)
        before = version_of(folder)
        try:
            result = read(folder)
        except Exception:
            if version_of(folder) == before == failed:  # the first time, it may have been set aside and put back
                raise
            failed = before
        else:
            if version_of(folder) == before:
                return result


def version_of(path: Path) -> tuple[int, int, int] | None:
    """Numbers that change when a file or folder is replaced; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns  # the inode of a removed folder may be used again


def _workspace(path):
    """Create the hidden folder of one writer of `path`; returns it with the descriptor that holds its lock."""
    while True:
        workspace = path.with_name(f".partial-{os.getpid()}-{secrets.token_hex(4)}-{path.name}")
        workspace.mkdir()
        with contextlib.suppress(FileNotFoundError):  # another writer removed it before it was locked
            lock = _open_lock(workspace)
            _locked(lock)
            if _is_lock_of(lock, workspace):
                return workspace, lock
            os.close(lock)


def _workspaces(path):
    """Folders of all writers of `path`, dead or alive, the most recent first."""
    pattern = re.compile(rf"\.partial-\d+-[0-9a-f]{{8}}-{re.escape(path.name)}")
    workspaces = [workspace for workspace in path.parent.glob(".partial-*") if pattern.fullmatch(workspace.name)]
    return sorted(workspaces, key=lambda workspace: (version_of(workspace) or (0, 0, 0))[-1], reverse=True)


def _open_lock(workspace):
    return os.open(workspace / "lock", os.O_RDWR | os.O_CREAT, 0o644)


def _is_lock_of(lock, workspace):
    """Whether an open lock is the present one of a workspace, not a removed one whose name is used again."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(workspace / "lock"))
    except FileNotFoundError:
        return False


def _locked(lock, *, wait=True):
    """Take the lock; returns False if a running process holds it, or if there are no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def sweep(path):
    """Remove the folders of dead writers of `path`."""
    recovered(path)
    for workspace in _workspaces(path):
        with contextlib.suppress(OSError):  # the folder is gone, or belongs to another user
            lock = _open_lock(workspace)
            try:
                if _locked(lock, wait=False) and _is_lock_of(lock, workspace):
                    _clear(workspace, path)
            finally:
                os.close(lock)


def _publish(new, path, workspace):
    """Move `new` to `path`, in one step if the system supports it."""
    moved = False
    while not moved:
        if new.is_dir() and os.path.lexists(path):
            if _exchanged(new, path):
                return
            _set_aside(path, workspace)
        moved = _moved(new, path)


def _exchanged(new, path):
    """Exchange two names in one step; returns False if the operating or file system does not support it."""
    if _RENAMEAT2 is None:
        return False
    return _RENAMEAT2(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(path), _RENAME_EXCHANGE) == 0


def _moved(new, path):
    """Rename `new` to `path`; returns False if another writer's folder is there by now."""
    try:
        os.replace(new, path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _set_aside(path, workspace):
    _discard_old(workspace)
    with contextlib.suppress(FileNotFoundError):  # another writer set it aside at the same time
        os.rename(path, workspace / "old")


def _put_back(workspace, path):
    if not os.path.lexists(path):
        with contextlib.suppress(OSError):  # nothing was set aside, or `path` exists by now
            os.rename(workspace / "old", path)


def _discard_old(workspace):
    """Give up the version that was set aside, in one step, so that no process restores a partly removed version."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(workspace / "old", workspace / secrets.token_hex(4))


def _clear(workspace, path):
    """Remove a writer's folder; a version that it set aside and did not replace is put back first."""
    _put_back(workspace, path)
    _discard_old(workspace)
    shutil.rmtree(workspace, ignore_errors=True)


def _fsync(path):
    """Flush a file, or the names in a folder, to the disk."""
    if path.is_symlink() or (os.name == "nt" and path.is_dir()):
        return
    opened = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in _FLUSH_NOT_SUPPORTED:
            raise
    finally:
        os.close(opened)


@contextlib.contextmanager
def only_writer(path: str | os.PathLike, argument: str, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a file or folder that this process writes in several steps.

    A held one is a BlockingIOError; with `wait`, it is waited for. The operating system locks a file beside it,
    `.lock-<name>`: the lock ends with the process, however that ends, and the next writer takes it over. Where the
    system or the file system has no locks, nothing is held. A thread that would wait for itself goes on at once.
    """
    target = Path(os.path.realpath(as_writable_path(path)))
    file = target.with_name(f".lock-{target.name}")
    held = vars(_thread).setdefault("held", set())
    if wait and file in held:
        yield
        return
    descriptor = None if fcntl is None else _taken(file, argument, str(path), wait)
    held.add(file)
    try:
        yield
    finally:
        held.discard(file)
        if descriptor is not None:
            file.unlink(missing_ok=True)
            os.close(descriptor)


def _taken(file, argument, name, wait):
    """The descriptor of a lock that this process now holds, with its number in the file."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        if not _acquired(descriptor, wait):
            holder = os.read(descriptor, 200).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise BlockingIOError(
                f"Received {argument}={name!r}, which {holder} writes now; expected one that no other process writes. "
                "Wait until it ends, end it, or choose another path."
            )
        if _has_name(descriptor, file):
            os.truncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
            return descriptor
        os.close(descriptor)  # its holder removed it in between


def _acquired(descriptor, wait):
    """Take a lock; False if it is held and not waited for."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        return error.errno not in _HELD
    return True


def _has_name(descriptor, file):
    """Whether an open file is the one of this name, and was not removed."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False
