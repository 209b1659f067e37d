"""The command line: `tfdml demo`, `train`, `search`, `serve`, `compare` and others.

`parser` declares the options of a command, and `arguments` refuses words that name nothing, before Keras is imported. A
function of `commands`, `indexes`, `compare` or `demo` runs a command, prints its results and returns the exit code.
"""

import argparse
import importlib
import warnings
from collections.abc import Sequence
from types import ModuleType

from tfdml.cli.arguments import require_packages, require_together
from tfdml.cli.parser import new_parser
from tfdml.cli.printing import EXIT_FAILED, EXIT_USAGE, UsageError, fail, say

__all__ = ["commands_of", "main", "parse", "run"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the words of a command, and run it; the result is its exit code."""
    options = parse(arguments)
    return options if isinstance(options, int) else run(options)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace | int:
    """The options of a command, from the words after `tfdml`; None reads the words of this process.

    If a file, folder, column or port cannot be used, or a package is missing, it prints a line and returns the exit
    code: 1 for a missing package, 2 for all others.
    """
    try:
        options = new_parser().parse_args(arguments)
        require_together(options)
        require_packages(options)
    except UsageError as error:
        return fail(error, EXIT_USAGE)
    except ImportError as error:
        return fail(error, EXIT_FAILED)
    return options


def commands_of(options: argparse.Namespace) -> ModuleType:
    """The module of a command. All commands but `compare` and `drift` import Keras."""
    modules = {"compare": "compare", "drift": "compare", "index": "indexes", "demo": "demo"}
    modules |= {"select": "labeling", "propose": "labeling"}
    return importlib.import_module(f"tfdml.cli.{modules.get(options.command, 'commands')}")


def run(options: argparse.Namespace) -> int:
    """Run a command. Exit code: 0 for success, 1 if a problem was found or a step failed, 2 for unusable arguments."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        try:
            return getattr(commands_of(options), f"run_{options.command}")(options)
        except UsageError as error:
            return fail(error, EXIT_USAGE)
        except KeyboardInterrupt:
            return fail("interrupted", EXIT_FAILED)
        except Exception as error:  # readers, decoders and TensorFlow share no base class of errors
            return fail(error, EXIT_FAILED)
