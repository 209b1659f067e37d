"""Files as kill -9 leaves them: a folder before every file operation of this process."""

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

_OPERATIONS = {"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "shutil.rmtree"}
_watching = []


@contextlib.contextmanager
def copied_at_every_operation(folder: Path, copies: Path) -> Iterator[list[Path]]:
    """Copies a folder before each file operation in the block, and at its end.

    A process that is killed leaves the files as they are at that moment; what it has not written yet is lost, and so is
    its lock. Operations inside the libraries of TensorFlow lie between two copies.

    Yields:
        the list of the copies so far, in order.
    """
    found: list[Path] = []

    def copy():
        found.append(copies / str(len(found)))
        shutil.copytree(folder, found[-1])

    _watching.append(copy)
    try:
        yield found
    finally:
        _watching.clear()
    copy()


def _operation(event, arguments):
    if event in _OPERATIONS and _watching:
        watcher = _watching.pop()  # its own operations are not watched
        watcher()
        _watching.append(watcher)


sys.addaudithook(_operation)
