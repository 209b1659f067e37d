"""Locks of writers: held by another process, left behind by a dead one, and where there are none."""

import errno
import signal
import subprocess
import sys

import pytest

from tests._core.test_atomic import PROGRAM
from tfdml._core import atomic
from tfdml._core.atomic import only_writer

WRITER = (
    PROGRAM
    + """
with files.only_writer(path, "out"):
    print("writing", flush=True)
    time.sleep(60)
"""
)


def test_a_lock_names_the_process_that_holds_it_and_ends_with_it(tmp_path):
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "run")], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        message = rf"out='.*run', which process {writer.pid} on .* writes now"
        with pytest.raises(BlockingIOError, match=message), only_writer(tmp_path / "run", "out"):
            pass
        with only_writer(tmp_path / "another", "out"):
            pass
        writer.send_signal(signal.SIGKILL)
    with only_writer(tmp_path / "run", "out"), pytest.raises(BlockingIOError), only_writer(tmp_path / "run", "out"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_without_locks_of_the_system_a_writer_writes(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(atomic.fcntl, "flock", refused)
    with only_writer(tmp_path / "run", "out"), only_writer(tmp_path / "run", "out"):
        pass
    monkeypatch.setattr(atomic, "fcntl", None)
    with only_writer(tmp_path / "run", "out"):
        pass
    assert list(tmp_path.iterdir()) == []
