"""The command `tfdml`, which answers `--help`, `--version` and wrong options before Keras is imported.

TensorFlow logs errors only, unless the environment says otherwise. What it logs before it has read this is held back,
line by line; any other line is shown.
"""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

from tfdml import cli

_LOG = re.compile(rb"WARNING: All log messages before absl::|[IW]\d{4} ")  # TensorFlow 2.21, before its log is set up


def main() -> int:
    """Run the command of this process, and return its exit code."""
    options = cli.parse()
    if code := cli.check_names(options):
        return code
    is_silent = "TF_CPP_MIN_LOG_LEVEL" not in os.environ
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _without_log_lines() if is_silent else contextlib.nullcontext(), contextlib.suppress(ImportError):
        cli.commands_of(options)
    return cli.run(options)


@contextlib.contextmanager
def _without_log_lines() -> Iterator[None]:
    """Show what is written to the file descriptor of stderr afterwards, without the lines of a library's log."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as lines:
        os.dup2(lines.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            lines.seek(0)
            os.write(2, b"".join(line for line in lines if not _LOG.match(line)))


if __name__ == "__main__":
    sys.exit(main())
