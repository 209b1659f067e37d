"""Progress on a terminal."""

import sys


def show_progress(what: str, done: int, total: int) -> None:
    """One line on a terminal that counts up; nothing if the output is a file."""
    if sys.stderr.isatty():
        print(f"\r{what}: {done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)
