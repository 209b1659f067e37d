"""Options of `tfdml check`."""

import argparse

from tfdml.cli.options.common import declare_set

EXAMPLE = "tfdml check photos"


def declare(parser: argparse.ArgumentParser) -> None:
    """List the examples of a set that should be left out."""
    declare_set(parser)
