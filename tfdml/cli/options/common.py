"""Options that several commands share."""

import argparse
import math

SET = "a folder with one subfolder of images per class; a .csv, .tsv or .parquet table; or tfds:NAME"
MODEL = (
    "a SavedModel folder that tfdml exported, or a folder of its versions; what tfdml train wrote; a .keras file; or a "
    "model of the zoo: its name, folder or URL"
)
INDEX = "what tfdml.search saved, or tfdml embed wrote"


def declare_set(parser: argparse.ArgumentParser) -> None:
    """Declare SET, and how it is read."""
    parser.add_argument("set", metavar="SET", help=SET)
    parser.add_argument("--split", help="folder of a split, value of the column split, or split of a TFDS data set")
    parser.add_argument("--path-column", default="path", metavar="NAME", help="column of a table (default: path)")
    parser.add_argument("--label-column", default="label", metavar="NAME", help="column of a table (default: label)")
    parser.add_argument("--box-columns", nargs=4, metavar=("LEFT", "UPPER", "RIGHT", "LOWER"), help="columns of boxes")


def declare_preprocessing(parser: argparse.ArgumentParser, batch_size: int = 256) -> None:
    """Declare how images are read for a model."""
    parser.add_argument("--preprocessing", metavar="FILE", help="JSON of a Preprocessing, instead of the model's own")
    text = f"images at a time (default: {batch_size})"
    parser.add_argument("--batch-size", type=positive, default=batch_size, metavar="N", help=text)


def declare_other_model(parser: argparse.ArgumentParser) -> None:
    """Declare that the index may be of another model than MODEL."""
    parser.add_argument("--other-model", action="store_true", help="take an INDEX that another model made")


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"Received {text!r}, expected a whole number of at least 1.")
    return int(text)


def color(text: str) -> int | tuple[int, ...]:
    """A gray level from 0 to 255, or three levels with commas between them."""
    levels = text.split(",")
    if len(levels) not in (1, 3) or not all(level.isdecimal() and int(level) <= 255 for level in levels):
        raise argparse.ArgumentTypeError(f"Received {text!r}, expected a level from 0 to 255, or RED,GREEN,BLUE.")
    return int(text) if len(levels) == 1 else tuple(map(int, levels))


def port(text: str) -> int:
    """A whole number from 0 to 65535."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"Received {text!r}, expected a port from 0 to 65535.")
    return int(text)


def positive_number(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"Received {text!r}, expected a number above 0.")
    return value
