"""The command line: `tfdml embed`, `evaluate`, `search`, `serve`, `export`, `check` and others.

A command declares its options in `parser`, and runs as a function of `commands`, `indexes` or `compare`, which prints
its results and returns the exit code. `commands` imports Keras: it is imported after the arguments were read, and once
what they name is there.
"""

import argparse
import importlib
import warnings
from collections.abc import Sequence
from types import ModuleType

from tfdml.cli.names import require_names, require_packages
from tfdml.cli.parser import new_parser
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, EXIT_USAGE, UsageError, fail, say

__all__ = ["check_names", "commands_of", "main", "parse", "run"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the words of a command, look for what they name, and run it."""
    options = parse(arguments)
    return check_names(options) or run(options)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command, from the words after `tfdml`; None for the words of this process."""
    return new_parser().parse_args(arguments)


def check_names(options: argparse.Namespace) -> int:
    """Look for the files, folders, columns, packages and the port that a command needs; a line says which is missing.

    Returns the exit code: 0, 2 if something that is named is not there, 1 if a package is not.
    """
    try:
        require_names(options)
        require_packages(options)
    except UsageError as error:
        return fail(error, EXIT_USAGE)
    except ImportError as error:
        return fail(error, EXIT_FAILED)
    return EXIT_OK


def commands_of(options: argparse.Namespace) -> ModuleType:
    """The module of a command. All commands but `compare` and `drift` import Keras."""
    modules = {"compare": "compare", "drift": "compare", "index": "indexes"}
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
