"""The parser of the command line, and `main`."""

import argparse
import importlib.metadata
import warnings
from collections.abc import Sequence

from tfdml.cli import check, clean, embed, evaluate, export, search, serve, train, zoo
from tfdml.cli.inputs import UsageError
from tfdml.cli.printing import EXIT_FAILED, EXIT_USAGE, fail, say

COMMANDS = {
    "train": train,
    "embed": embed,
    "evaluate": evaluate,
    "search": search,
    "serve": serve,
    "export": export,
    "check": check,
    "clean": clean,
    "zoo": zoo,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: words of the command line after `tfdml`; None for the words of this process.

    Returns:
        Exit code: 0 for success, 1 if a problem was found or a step failed, 2 for arguments that cannot be used.

    Raises:
        SystemExit: after `--help`, `--version`, and for unknown options (with code 2).
    """
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        try:
            return options.run(options)
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
    parser.add_argument("--version", action="version", version=f"tfdml {importlib.metadata.version('tfdml')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.run.__doc__, description=module.run.__doc__)
        module.declare(command)
        command.add_argument("--json", action="store_true", help="print the results as JSON")
        command.set_defaults(run=module.run)
    return parser
