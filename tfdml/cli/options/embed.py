"""Options of `tfdml embed`."""

import argparse

from tfdml.cli.options.common import MODEL, declare_preprocessing, declare_set

EXAMPLE = "tfdml embed photos embeddings.parquet --model run"


def declare(parser: argparse.ArgumentParser) -> None:
    """Embed a set to disk."""
    declare_set(parser)
    parser.add_argument("out", metavar="OUT", help="a .parquet file, or a folder for .npy and .csv files")
    parser.add_argument("--model", required=True, metavar="MODEL", help=MODEL)
    declare_preprocessing(parser)
