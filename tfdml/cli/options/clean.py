"""Options of `tfdml clean`."""

import argparse

from tfdml.cli.options.common import MODEL, declare_preprocessing, positive_number

IMAGENET = "imagenet"

EXAMPLE = "tfdml clean photos --out findings"


def declare(parser: argparse.ArgumentParser) -> None:
    """List near-duplicates, leaks, label suspects and outliers; nothing is deleted. OUT.unfinished has embeddings."""
    text = "a folder of images, of one subfolder per class, or of the folders train, validation and test with those"
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help=f"{text}; of several, leaks are searched, too")
    parser.add_argument("--out", required=True, metavar="OUT", help="folder to write: findings.csv and report.html")
    text = f"{MODEL} (default: {IMAGENET}, the first blocks of EfficientNet-Lite0)"
    parser.add_argument("--model", default=IMAGENET, metavar="MODEL", help=text)
    text = "cosine similarity of near-duplicates (default: calibrated on copies of the images)"
    parser.add_argument("--similarity", type=positive_number, metavar="X", help=text)
    text = "of the pairs of known copies, for the calibration (default: 0.99)"
    parser.add_argument("--precision", type=positive_number, default=0.99, metavar="X", help=text)
    text = "take images for near-duplicates by their similarity alone, without a comparison of their pixels"
    parser.add_argument("--no-verify", action="store_true", help=text)
    declare_preprocessing(parser, batch_size=64)
