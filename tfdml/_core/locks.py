"""One writer of a file or folder at a time."""

import contextlib
import errno
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tfdml._core.atomic import as_writable_path

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows, where writers are not kept apart
    fcntl = None

_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


@contextlib.contextmanager
def only_writer(path: str | os.PathLike, argument: str) -> Iterator[None]:
    """Hold the lock of a file or folder that this process writes in several steps.

    The lock is a file beside it, `.lock-<name>`, which is locked by the operating system: it ends with the process,
    however that ends, and the next writer takes it over. Where the system or the file system has no locks, nothing is
    held.

    Args:
        path: the file or folder, which need not exist.
        argument: name of the argument, for the message.

    Raises:
        BlockingIOError: another process, or another call in this one, holds the lock; it is named.
        OSError: the folder above cannot be written.
    """
    target = Path(os.path.realpath(as_writable_path(path)))
    file = target.with_name(f".lock-{target.name}")
    descriptor = None if fcntl is None else _taken(file, argument, str(path))
    try:
        yield
    finally:
        if descriptor is not None:
            file.unlink(missing_ok=True)
            os.close(descriptor)


def _taken(file, argument, name):
    """The descriptor of a lock that this process now holds, with its number in the file."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        if not _locked(descriptor):
            holder = os.read(descriptor, 200).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise BlockingIOError(
                f"Received {argument}={name!r}, which {holder} writes now; expected one that no other process writes. "
                "Wait until it ends, end it, or choose another path."
            )
        if _is_present(descriptor, file):
            os.truncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
            return descriptor
        os.close(descriptor)  # its holder removed it in between


def _locked(descriptor):
    """Take a lock; False if it is held."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _HELD
    return True


def _is_present(descriptor, file):
    """Whether an open file is the one of this name, and was not removed."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False
