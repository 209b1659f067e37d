"""Results on stdout, as lines or JSON; messages on stderr; exit codes; errors of an argument."""

import argparse
import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfdml._core.terminal import visible

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_UNDECIDED = 0, 1, 2, 3
_SHOWN = 10  # files of a list


class UsageError(Exception):
    """An argument that does not lead to a set, a model or an index."""


@contextlib.contextmanager
def as_usage_error(argument: str) -> Iterator[None]:
    """Turn the errors inside into a `UsageError` that names the argument."""
    try:
        yield
    except Exception as error:  # of any library that reads files
        raise UsageError(f"{argument}: {error}") from error


def print_result(options: argparse.Namespace, record: Any, lines: Iterable[str]) -> None:
    """Print lines, or with `--json` the record."""
    print(json.dumps(record) if options.json else "\n".join(map(visible, lines)))


def table_lines(result: Any) -> list[str]:
    """The lines of a result that prints as a table."""
    return str(result).split("\n")


def say(text: str) -> None:
    """Print a message on stderr."""
    print(f"tfdml: {visible(text)}", file=sys.stderr)


def fail(error: object, code: int) -> int:
    """Print an error as one line on stderr, and return the exit code."""
    say(f"error: {' '.join(str(error).split()) or type(error).__name__}")
    return code


def say_skipped(problems: Sequence[tuple[int, str, str]]) -> None:
    """Print the examples that could not be loaded, `(row, name, reason)` each, on stderr."""
    for _, name, reason in problems:
        say(f"skipped {name}: {reason}")


def say_problems(problems: Mapping[str, str], what: str) -> None:
    """Print the first files of some with a problem on stderr, each with its reason, and how many others there are."""
    for name, reason in list(problems.items())[:_SHOWN]:
        say(f"{name} {what}: {reason}")
    if len(problems) > _SHOWN:
        say(f"{len(problems) - _SHOWN:,} others {what}")


def as_records(problems: Sequence[tuple[int, str, str]]) -> list[dict[str, Any]]:
    """Problems of examples as JSON objects."""
    return [{"row": row, "name": name, "reason": reason} for row, name, reason in problems]
