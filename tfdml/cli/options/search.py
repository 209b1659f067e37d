"""Options of `tfdml search`."""

import argparse

from tfdml.cli.options.common import INDEX, MODEL, declare_other_model, declare_preprocessing, positive

MAX_NEIGHBORS = 10

EXAMPLE = "tfdml search run run/index photo.jpg"


def declare(parser: argparse.ArgumentParser) -> None:
    """Find the neighbors of images in an index."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("index", metavar="INDEX", help=INDEX)
    parser.add_argument("images", metavar="IMAGE", nargs="+", help="image files")
    parser.add_argument("-k", type=positive, metavar="N", help=f"number of neighbors (default: {MAX_NEIGHBORS})")
    text = "only items with this value; repeat it for other columns, and for other values of a column"
    parser.add_argument("--where", action="append", metavar="COLUMN=VALUE", help=text)
    declare_other_model(parser)
    declare_preprocessing(parser)
