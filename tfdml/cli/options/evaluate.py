"""Options of `tfdml evaluate`."""

import argparse

from tfdml.cli.options.common import MODEL, declare_preprocessing, declare_set

EXAMPLE = "tfdml evaluate run photos --html report.html"


def declare(parser: argparse.ArgumentParser) -> None:
    """Measure retrieval in a set."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    declare_set(parser)
    declare_preprocessing(parser)
    parser.add_argument("--html", metavar="FILE", help="write a page with curves and pictures, too")
