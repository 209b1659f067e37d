"""The command `tfdml`, which answers `--help`, `--version` and wrong options before Keras is imported.

`import tfdml` imports Keras, so that saved models find their classes. An import has two steps: make the module, then
execute it. The command makes the package, reads its words with the modules in `tfdml.cli.options`, looks for what they
name, and executes the package when a command is to be run. TensorFlow logs errors only, unless the environment says
otherwise.
"""

import importlib
import importlib.util
import os
import sys


def main() -> int:
    """Run the command of this process, and return its exit code."""
    spec = importlib.util.find_spec("tfdml")
    package = importlib.util.module_from_spec(spec)
    sys.modules["tfdml"] = package
    cli = importlib.import_module("tfdml.cli")
    options = cli.parse()
    if code := cli.check_names(options):
        return code
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    spec.loader.exec_module(package)
    return cli.run(options)
