"""Progress on a terminal."""

import sys

_WIDTH = 30  # characters of a whole bar


def show_progress(what: str, done: int, total: int) -> None:
    """A bar on a terminal; nothing if the output is a file."""
    if sys.stderr.isatty():
        bar = "=" * (_WIDTH * done // max(total, 1))
        print(f"\r{what} [{bar:<{_WIDTH}}] {done:,}/{total:,}", end="\n" * (done == total), file=sys.stderr, flush=True)
