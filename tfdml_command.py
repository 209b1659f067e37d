"""The command `tfdml`, which answers `--help`, `--version` and wrong options before Keras is imported.

`import tfdml` imports Keras, so that saved models find their classes. An import has two steps: make the module, then
execute it. The command makes the package, reads its words with the modules in `tfdml.cli.options`, and executes the
package when a command is to be run.
"""

import importlib
import importlib.util
import sys


def main() -> int:
    """Run the command of this process, and return its exit code."""
    spec = importlib.util.find_spec("tfdml")
    package = importlib.util.module_from_spec(spec)
    sys.modules["tfdml"] = package
    cli = importlib.import_module("tfdml.cli")
    options = cli.parse()
    spec.loader.exec_module(package)
    return cli.run(options)
