"""The command `tfdml`, which answers `--help`, `--version` and wrong options before Keras is imported.

TensorFlow logs errors only, unless the environment says otherwise. Lines that it writes past its own log, while it is
imported and while it converts a model, are left out by the same level; any other line is shown.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from tfdml import cli

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_KINDS = {"0": "", "1": "I"}  # of lines that are left out; I and W from level 2 on
_FILTER = """
import re, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
log = re.compile(rb"WARNING: All log messages before absl::|[%s]\\d{4} ")
for line in sys.stdin.buffer:
    if not log.match(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""


def main() -> int:
    """Run the command of this process, and return its exit code."""
    options = cli.parse()
    if isinstance(options, int):
        return options
    kinds = _KINDS.get(os.environ.setdefault(_LEVEL, "3"), "IW")
    with _without_log_lines(kinds), contextlib.suppress(ImportError):
        cli.commands_of(options)
    with _without_log_lines(kinds if options.command == "export" else ""):
        return cli.run(options)


@contextlib.contextmanager
def _without_log_lines(kinds: str) -> Iterator[None]:
    """Leave out the lines of these kinds that libraries write to the file descriptor of stderr.

    Another process reads it, which also shows the last words of one that is aborted.
    """
    if not kinds:
        yield
        return
    sys.stderr.flush()
    shown = os.dup(2)
    words = [sys.executable, "-I", "-S", "-c", _FILTER % kinds]
    read_end, write_end = os.pipe()
    reader = subprocess.Popen(words, stdin=read_end, stderr=shown)
    os.dup2(write_end, 2)
    os.close(read_end)
    os.close(write_end)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(shown, 2)
        os.close(shown)
        with contextlib.suppress(subprocess.TimeoutExpired):
            reader.wait(5)


if __name__ == "__main__":
    sys.exit(main())
