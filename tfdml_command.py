"""The command `tfdml`, which answers `--help`, `--version` and wrong options before Keras is imported.

`import tfdml` imports Keras, so that saved models find their classes. An import has two steps: make the module, then
execute it. The command makes the package, reads its words by `tfdml.cli.parser`, looks for what they name, and
executes the package when a command is to be run. TensorFlow logs errors only, unless the environment says
otherwise. What it logs before it has read this is held back, line by line; any other line is shown.
"""

import contextlib
import importlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator

_LOG = re.compile(rb"WARNING: All log messages before absl::|[IW]\d{4} ")  # TensorFlow 2.21, before its log is set up


def main() -> int:
    """Run the command of this process, and return its exit code."""
    spec = importlib.util.find_spec("tfdml")
    package = importlib.util.module_from_spec(spec)
    sys.modules["tfdml"] = package
    cli = importlib.import_module("tfdml.cli")
    options = cli.parse()
    if code := cli.check_names(options):
        return code
    is_silent = "TF_CPP_MIN_LOG_LEVEL" not in os.environ
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _without_log_lines() if is_silent else contextlib.nullcontext():
        spec.loader.exec_module(package)
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
