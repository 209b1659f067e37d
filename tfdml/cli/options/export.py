"""Options of `tfdml export`."""

import argparse
import math

from tfdml.cli.options.common import INDEX, declare_other_model, positive

FORMATS = ("savedmodel", "onnx", "openvino", "litert", "web")
SEARCHES = ("exact", "partitioned")
DTYPES = ("float32", "bfloat16", "int8")

EXAMPLE = "tfdml export run --to onnx,web"


def declare(parser: argparse.ArgumentParser) -> None:
    """Write a model and its index for other runtimes."""
    text = "what tfdml train wrote, whose index is exported, too; a .keras file; or a model of the zoo"
    parser.add_argument("model", metavar="RUN", help=text)
    text = f"formats with commas between them: {', '.join(FORMATS)}"
    parser.add_argument("--to", required=True, type=formats, metavar="FORMATS", help=text)
    text = "folder to write, with a folder per format (default: RUN-exports)"
    parser.add_argument("--out", metavar="OUT", help=text)
    parser.add_argument("--index", metavar="INDEX", help=f"{INDEX} (default: the one of the run)")
    declare_other_model(parser)
    parser.add_argument("-k", type=positive, metavar="N", help="neighbors of an image (default: 10)")
    parser.add_argument("--search", choices=SEARCHES, help="how the index is searched (default: exact)")
    parser.add_argument("--dtype", choices=DTYPES, help="type of the stored vectors (default: float32)")
    text = "similarity from which the nearest item is a match, otherwise the image is unknown"
    parser.add_argument("--threshold", type=number, metavar="X", help=text)
    parser.add_argument("--preprocessing", metavar="FILE", help="JSON of a Preprocessing, instead of the model's own")
    text = "folder dist of the npm package onnxruntime-web, for --to web (default: OUT/onnxruntime-web, not copied)"
    parser.add_argument("--runtime", metavar="DIST", help=text)


def formats(text: str) -> list[str]:
    """Names of formats."""
    names = text.split(",")
    unknown = [name for name in names if name not in FORMATS]
    if unknown:
        raise argparse.ArgumentTypeError(f"Received {', '.join(unknown)!r}, expected some of {', '.join(FORMATS)}.")
    return list(dict.fromkeys(names))


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"Received {text!r}, expected a number.")
    return value
