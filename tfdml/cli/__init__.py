"""The command line: `tfdml embed`, `evaluate`, `search`, `serve`, `export`, `check` and others.

A command is a function `declare` of its module in `tfdml.cli.options`, which adds its options to a parser, and a
function `run` of its module in `tfdml.cli`, which prints its results and returns the exit code. The modules of `run`
import Keras: they are imported after the words of the command line were read, and once what they name is there.
"""

import argparse
import importlib
import warnings
from collections.abc import Sequence

from tfdml._core.environment import version
from tfdml.cli.options.names import require_names, require_packages
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, EXIT_USAGE, UsageError, fail, say

__all__ = ["check_names", "main", "parse", "run"]

COMMANDS = ("train", "embed", "evaluate", "search", "serve", "export", "check", "clean", "zoo")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the words of a command, look for what they name, and run it."""
    options = parse(arguments)
    return check_names(options) or run(options)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command.

    Args:
        arguments: words of the command line after `tfdml`; None for the words of this process.

    Raises:
        SystemExit: after `--help`, `--version`, and for unknown options (with code 2).
    """
    return _parser().parse_args(arguments)


def check_names(options: argparse.Namespace) -> int:
    """Look for the files, folders, columns and the port that a command names, and for the packages that it needs.

    Returns:
        Exit code: 0, 2 if something that is named is not there, 1 if a package is not; a line says which.
    """
    try:
        require_names(options)
        require_packages(options)
    except UsageError as error:
        return fail(error, EXIT_USAGE)
    except ImportError as error:
        return fail(error, EXIT_FAILED)
    return EXIT_OK


def run(options: argparse.Namespace) -> int:
    """Run a command.

    Returns:
        Exit code: 0 for success, 1 if a problem was found or a step failed, 2 for arguments that cannot be used.
    """
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        try:
            return importlib.import_module(f"tfdml.cli.{options.command}").run(options)
        except UsageError as error:
            return fail(error, EXIT_USAGE)
        except KeyboardInterrupt:
            return fail("interrupted", EXIT_FAILED)
        except Exception as error:  # readers, decoders and TensorFlow share no base class of errors
            return fail(error, EXIT_FAILED)


def _parser():
    parser = argparse.ArgumentParser(
        prog="tfdml",
        description="Train on, embed, evaluate, search, serve, check and clean images, with your models or the zoo's.",
    )
    parser.add_argument("--version", action="version", version=f"tfdml {version('tfdml')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name in COMMANDS:
        module = importlib.import_module(f"tfdml.cli.options.{name}")
        text = module.declare.__doc__
        example = f"example: {module.EXAMPLE}"
        command = commands.add_parser(name, help=text, description=text, epilog=example)
        module.declare(command)
        command.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser
