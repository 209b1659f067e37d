"""`tfdml export`."""

import argparse
import math
from pathlib import Path

from tfdml import export
from tfdml._core.checks import require
from tfdml.cli import inputs
from tfdml.cli.options import INDEX, declare_other_model, positive
from tfdml.cli.printing import EXIT_OK, print_result
from tfdml.export.graph_search.quantized import DTYPES

FORMATS = ("savedmodel", "onnx", "openvino", "litert", "web")
_SEARCHES = {"exact": export.ExactSearch, "partitioned": export.PartitionedSearch}


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    text = "what tfdml train wrote, whose index is exported, too; a .keras file; or a model of the zoo"
    parser.add_argument("model", metavar="RUN", help=text)
    text = f"formats with commas between them: {', '.join(FORMATS)}"
    parser.add_argument("--to", required=True, type=formats, metavar="FORMATS", help=text)
    text = "folder to write, with a folder per format (default: RUN-exports)"
    parser.add_argument("--out", metavar="OUT", help=text)
    parser.add_argument("--index", metavar="INDEX", help=f"{INDEX} (default: the one of the run)")
    declare_other_model(parser)
    parser.add_argument("-k", type=positive, metavar="N", help="neighbors of an image (default: 10)")
    parser.add_argument("--search", choices=_SEARCHES, help="how the index is searched (default: exact)")
    parser.add_argument("--dtype", choices=DTYPES, help="type of the stored vectors (default: float32)")
    text = "similarity from which the nearest item is a match, otherwise the image is unknown"
    parser.add_argument("--threshold", type=number, metavar="X", help=text)
    parser.add_argument("--preprocessing", metavar="FILE", help="JSON of a Preprocessing, instead of the model's own")
    text = "folder dist of the npm package onnxruntime-web, for --to web (default: OUT/onnxruntime-web, not copied)"
    parser.add_argument("--runtime", metavar="DIST", help=text)


def run(options: argparse.Namespace) -> int:
    """Write a model and its index for other runtimes."""
    model, preprocessing, class_names = inputs.open_keras_model(options.model, options.preprocessing)
    index, search = _index(options), _search(options)
    with inputs.as_usage_error(f"RUN={options.model!r}"):
        require(index is not None or search is None, "-k, --search or --dtype without an index", "--index")
        require(options.runtime is None or "web" in options.to, "--runtime without --to web", "--to web")
    out = Path(options.out or f"{options.model.rstrip('/')}-exports")
    settings = {"preprocessing": preprocessing, "class_names": class_names, "threshold": options.threshold}
    settings |= {"index": index, "search": search, "other_model": options.other_model}
    writers = {
        "savedmodel": lambda path: export.saved_model(model, path, on_error="skip", **settings),
        "onnx": lambda path: export.onnx(model, path, **settings),
        "openvino": lambda path: export.openvino(model, path, **settings),
        "litert": lambda path: export.litert(model, path, **settings),
        "web": lambda path: export.web(model, path, runtime=options.runtime, **settings),
    }
    written = {name: str(writers[name](out / name)) for name in options.to}
    print_result(options, written, [f"{name}: {path}" for name, path in written.items()])
    return EXIT_OK


def _index(options):
    """The index of the options, or the one of the run; None for none."""
    if options.index is not None:
        return inputs.open_index_with_metadata(options.index)
    return inputs.open_run(options.model)[0]


def _search(options):
    """The search of the options; None without any."""
    settings = {name: value for name in ("k", "dtype") if (value := getattr(options, name)) is not None}
    return _SEARCHES[options.search or "exact"](**settings) if settings or options.search else None


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
