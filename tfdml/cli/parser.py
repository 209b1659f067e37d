"""The options of the commands: the docstring of a command's function is the text of its `--help`.

This module imports neither Keras nor TensorFlow, so that `--help` and wrong options are answered at once.
"""

import argparse
import math
import runpy
from functools import partial
from pathlib import Path
from typing import Any, get_args

from tfdml._core.optional import version
from tfdml.cli.arguments import (
    IMAGENET,
    INDEX_TEXT,
    MODEL_TEXT,
    SET_TEXT,
    file_in_folder,
    file_named,
    folder_named,
    index_named,
    index_or_run,
    model_named,
    model_or_imagenet,
    set_named,
    vectors_named,
)

MAX_NEIGHBORS = 10  # of `search`, unless -k is given
FORMATS = ("savedmodel", "onnx", "openvino", "litert", "web")
SEARCHES = ("exact", "partitioned")
METRICS = ("cosine", "dot", "euclidean")
DTYPES = ("float32", "bfloat16", "int8")
RULES = ("typical", "diverse", "uncertain", "all")
LIMITS = {
    "max_bytes": "maximum size of an image file, and of the images of a request together (default: 20 MiB)",
    "max_pixels": "maximum of width times height (default: 33,554,432)",
    "max_images": "maximum number of images of a request (default: 64)",
    "max_neighbors": "maximum number of neighbors (default: 100)",
    "max_requests": "requests that are answered at the same time (default: 64)",
    "seconds": "time for a request (default: 30)",
}
_SETTINGS = runpy.run_path(str(Path(__file__).parents[1] / "training" / "settings.py"))["SETTINGS"]  # without Keras
_MODEL: dict[str, Any] = {"type": model_named, "metavar": "MODEL", "help": MODEL_TEXT}
_INDEX: dict[str, Any] = {"type": index_named, "metavar": "INDEX", "help": INDEX_TEXT}
_FORMS: dict[type, dict[str, Any]] = {
    bool: {"action": argparse.BooleanOptionalAction},
    int: {"type": int, "metavar": "N"},
    float: {"type": float, "metavar": "X"},
    str: {"type": str, "metavar": "NAME"},
}


def new_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    tfdml = argparse.ArgumentParser(
        prog="tfdml",
        description="Train on, embed, evaluate, compare, search, serve, check and clean images, with your models "
        "or the zoo's.",
    )
    tfdml.add_argument("--version", action="version", version=f"tfdml {version('tfdml')}")
    commands = tfdml.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, (declare, example) in COMMANDS.items():
        text = declare.__doc__
        command = commands.add_parser(name, help=text, description=text, epilog=f"example: {example}")
        declare(command)
        command.add_argument("--json", action="store_true", help="print the results as JSON")
    return tfdml


def _train(command):
    """Train a model on a set, and leave a folder to serve."""
    _declare_set(command)
    text = "color behind transparent pixels, such as 255 or 255,255,255, in training and in every use of the model"
    command.add_argument("--background", type=_color, metavar="COLOR", help=text)
    command.add_argument("--out", required=True, metavar="RUN", help="new folder; with --resume, the folder of the run")
    text = "settings.toml of another run, to repeat it"
    command.add_argument("--config", type=file_named("--config"), metavar="FILE", help=text)
    command.add_argument("--resume", action="store_true", help="go on with the run in RUN, after its last whole epoch")
    command.add_argument("--quick", action="store_true", help="smoke test: a few small batches")
    text = "limit for the training, from which the number of steps follows (default: 6 on a CPU, 30 on a GPU)"
    command.add_argument("--max-minutes", type=_positive_number, metavar="N", help=text)
    text = "of the trained model, for its card, such as Apache-2.0 (default: what is known of the weights at the start)"
    command.add_argument("--license", metavar="NAME", help=text)
    settings = command.add_argument_group("settings", "Each follows from the set and the machine unless it is given.")
    for name, setting in _SETTINGS.items():
        form = _FORMS.get(setting.type, {"choices": get_args(setting.type)})
        settings.add_argument(f"--{name.replace('_', '-')}", help=setting.metadata["text"], **form)


def _embed(command):
    """Embed a set to disk."""
    _declare_set(command)
    command.add_argument("out", metavar="OUT", help="a .parquet file, or a folder for .npy and .csv files")
    command.add_argument("--model", required=True, **_MODEL)
    _declare_preprocessing(command)


def _evaluate(command):
    """Measure retrieval in a set."""
    command.add_argument("model", **_MODEL | {"type": partial(model_named, order="MODEL SET")})
    _declare_set(command)
    _declare_preprocessing(command)
    text = "search among the images without a label, too: they are relevant to no query (default: they are left out)"
    command.add_argument("--distractors", action="store_true", help=text)
    command.add_argument("--html", metavar="FILE", help="write a page with curves and pictures, too")


def _compare(command):
    """Compare models by their embeddings, rankings or scores, with intervals and tests of each pair."""
    text = (
        "embeddings of a model: .npy; .npz, with ::NAME for one of several arrays; .parquet; .faiss; what tfdml embed "
        "wrote. With --qrels, a ranking in TREC form. NAME=FILE names the model (default: the name of the file)"
    )
    command.add_argument("files", type=vectors_named, metavar="FILE", nargs="*", help=text)
    source = command.add_mutually_exclusive_group(required=True)
    text = ".csv, .tsv or .parquet table with a row for each vector"
    source.add_argument("--labels", type=file_named("--labels"), metavar="TABLE", help=text)
    text = "judgements in TREC form"
    source.add_argument("--qrels", type=file_named("--qrels"), metavar="QRELS", help=text)
    text = "table with the columns model, query or seed, and score; without FILEs"
    source.add_argument("--scores", type=file_named("--scores"), metavar="TABLE", help=text)
    command.add_argument("--label-column", default="label", metavar="NAME", help="column of a table (default: label)")
    command.add_argument("--path-column", metavar="NAME", help="column of a table, image files for the page")
    command.add_argument(
        "--by", action="extend", nargs="+", default=[], metavar="NAME", help="columns of the labels, to group by"
    )
    text = "column of .parquet files (default: embedding)"
    command.add_argument("--embedding-column", default="embedding", metavar="NAME", help=text)
    text = "vectors to search in, a file for each FILE in their order (default: all other rows)"
    command.add_argument("--gallery", type=vectors_named, nargs="+", metavar="FILE", help=text)
    text = "table with a row for each vector of the gallery"
    command.add_argument("--gallery-labels", type=file_named("--gallery-labels"), metavar="TABLE", help=text)
    command.add_argument("--metric", choices=METRICS, help="similarity of vectors (default: cosine)")
    text = (
        "names with commas between them, the first one for the pairs (default: map@r and others, or ndcg@10 and others)"
    )
    command.add_argument("--metrics", type=_names, metavar="NAMES", help=text)
    command.add_argument(
        "--against", metavar="NAME", help="a model; pairs of it with the others only (default: all pairs)"
    )
    command.add_argument("--confidence", type=_positive_number, metavar="X", help="of the intervals (default: 0.95)")
    text = "queries of a pair that differ most, on the page (default: 5)"
    command.add_argument("--shown", type=_positive, metavar="N", help=text)
    command.add_argument("--out", metavar="OUT", help="folder to write: evaluation.json and index.html")


def _drift(command):
    """Tell whether searches have moved: means of days of a reference and of later days."""
    text = ".csv, .tsv or .parquet table with the column time, and numbers, such as serve --log writes"
    command.add_argument("reference", type=file_named("REFERENCE"), metavar="REFERENCE", help=text)
    command.add_argument("log", type=file_named("LOG"), metavar="LOG", help="the same of later days")
    command.add_argument("--confidence", type=_positive_number, metavar="X", help="of the intervals (default: 0.95)")


def _search(command):
    """Find the neighbors of images, or of texts, in an index."""
    command.add_argument("model", **_MODEL | {"type": partial(model_named, order="MODEL INDEX IMAGE")})
    command.add_argument("index", **_INDEX)
    command.add_argument("images", metavar="IMAGE", nargs="+", help="image files, or texts with --text")
    text = "each IMAGE is a text, such as 'a red bird'; MODEL is hub:PRESET, or has a text model: recipes/captions.py"
    command.add_argument("--text", action="store_true", help=text)
    text = "search for what is in this box, in pixels of the upright image (default: the whole image)"
    sides = ("LEFT", "UPPER", "RIGHT", "LOWER")
    command.add_argument("--box", nargs=4, type=_number, metavar=sides, help=text)
    command.add_argument("-k", type=_positive, metavar="N", help=f"number of neighbors (default: {MAX_NEIGHBORS})")
    text = "only items with this value; repeat it for other columns, and for other values of a column"
    command.add_argument("--where", action="append", metavar="COLUMN=VALUE", help=text)
    _declare_item_column(command)
    text = "images of an item whose mean score is its score (default: 1)"
    command.add_argument("--best", type=_positive, default=1, metavar="N", help=text)
    _declare_prior(command)
    _declare_other_model(command)
    _declare_preprocessing(command)


def _index(command):
    """Add photographs to an index, remove, list, or label its items; a server that runs follows."""
    actions = command.add_subparsers(required=True, metavar="ACTION", dest="action")
    for name, (declare, example) in ACTIONS.items():
        text = declare.__doc__
        action = actions.add_parser(name, help=text, description=text, epilog=f"example: {example}")
        action.add_argument("index", type=index_or_run, metavar="INDEX", help=f"a run, or {INDEX_TEXT}")
        declare(action)
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print the results as JSON")
        if name != "list":
            action.add_argument("--dry-run", action="store_true", help="count, and write nothing")


def _index_add(action):
    """Embed the photographs of a set that are new or have changed, and add or update them."""
    _declare_set(action)
    action.add_argument("--model", **_MODEL | {"help": f"{MODEL_TEXT} (default: the run of INDEX)"})
    _declare_preprocessing(action)


def _index_remove(action):
    """Remove items by their ids, their paths or the values of their columns."""
    _declare_items(action)


def _index_set(action):
    """Set a column of items, such as the label of one that had none; an empty VALUE removes it."""
    text = "a column of INDEX, and a value of its type; with --table, the column alone"
    action.add_argument("value", metavar="COLUMN=VALUE", help=text)
    _declare_items(action)
    text = "table with the columns path and label, a value for each file, in place of VALUE"
    action.add_argument("--table", type=file_named("--table"), metavar="TABLE", help=text)


def _index_list(action):
    """List all items, or some of them."""
    _declare_items(action)


def _declare_items(action):
    action.add_argument("ids", metavar="ID", nargs="*", help="ids of items")
    text = "file of an item, as INDEX or this folder has it, or a folder of some; repeat it for others"
    action.add_argument("--path", action="append", metavar="PATH", help=text)
    text = "items with this value; repeat it for other columns, and for other values of a column"
    action.add_argument("--where", action="append", metavar="COLUMN=VALUE", help=text)


ACTIONS = {
    "add": (_index_add, "tfdml index add run photos"),
    "remove": (_index_remove, "tfdml index remove run --path photos/mug"),
    "list": (_index_list, "tfdml index list run --where class=mug"),
    "set": (_index_set, "tfdml index set run class=mug 17 18"),
}
"""The function that declares the options of each action of `tfdml index`, and an example of its use."""


def _migrate(command):
    """Embed the images of an index again by a new model, while it answers. A later call resumes."""
    text = "what tfdml.search saved, with a column path; INDEX.migrating has the new vectors until the end"
    command.add_argument("index", **_INDEX | {"help": text})
    command.add_argument("--to", required=True, dest="model", **_MODEL)
    _declare_root(command)
    _declare_preprocessing(command)


def _serve(command):
    """Answer requests over HTTP, with a page for neighbors."""
    command.add_argument("model", **_MODEL)
    command.add_argument("--index", **_INDEX)
    command.add_argument("--name", help="name of the model in addresses (default: the name of RUN, else model)")
    _declare_address(command)
    _declare_root(command)
    text = "table, .csv, to which each searched image adds a line: time, score, unknown, recall; for tfdml drift"
    command.add_argument("--log", type=file_in_folder, metavar="FILE", help=text)
    _declare_prior(command)
    text = "share of the searches, such as 0.01, that are also made exactly, for the recall of the index in the metrics"
    command.add_argument("--check-recall", type=_share, default=0.0, metavar="X", help=text)
    text = "further sizes of an embedding, such as 32,64, of a model that MatryoshkaLoss trained, for /v1/embeddings"
    command.add_argument("--dimensions", type=_sizes, default=(), metavar="SIZES", help=text)
    text = "processes that answer, such as one per core; each loads the model (default: 1)"
    command.add_argument("--processes", type=_positive, default=1, metavar="N", help=text)
    _declare_item_column(command)
    _declare_other_model(command)
    _declare_preprocessing(command, batch_size=32)
    for name, text in LIMITS.items():
        command.add_argument(f"--{name.replace('_', '-')}", type=_positive, metavar="N", help=text)


def _export(command):
    """Write a model and its index for other runtimes."""
    text = "what tfdml train wrote, with its index; a .keras file; hub:PRESET; or a model of the zoo"
    command.add_argument("model", type=model_named, metavar="RUN", help=text)
    text = f"formats with commas between them: {', '.join(FORMATS)}"
    command.add_argument("--to", required=True, type=_formats, metavar="FORMATS", help=text)
    text = "folder to write, with a folder per format (default: RUN-exports)"
    command.add_argument("--out", metavar="OUT", help=text)
    command.add_argument("--index", **_INDEX | {"help": f"{INDEX_TEXT} (default: the one of the run)"})
    _declare_other_model(command)
    command.add_argument("-k", type=_positive, metavar="N", help="neighbors of an image (default: 10)")
    command.add_argument("--search", choices=SEARCHES, help="how the index is searched (default: exact)")
    command.add_argument("--dtype", choices=DTYPES, help="type of the stored vectors (default: float32)")
    _declare_item_column(command)
    text = "similarity from which the nearest item is a match, otherwise the image is unknown"
    command.add_argument("--threshold", type=_number, metavar="X", help=text)
    _declare_prior(command)
    text = "onnx, openvino and litert take a photograph and boxes, in place of images"
    command.add_argument("--boxes", action="store_true", help=text)
    _declare_view(command)
    text = "folder dist of the npm package onnxruntime-web, for --to web (default: OUT/onnxruntime-web, not copied)"
    command.add_argument("--runtime", metavar="DIST", help=text)


def _check(command):
    """List the examples of a set that should be left out."""
    _declare_set(command)


def _clean(command):
    """List near-duplicates, leaks, label suspects and outliers; nothing is deleted. OUT.unfinished has embeddings."""
    text = "a folder of images, of one subfolder per class, or of the folders train, validation and test with those"
    text = f"{text}; of several, leaks are searched, too"
    command.add_argument("folders", type=folder_named("FOLDER"), metavar="FOLDER", nargs="+", help=text)
    command.add_argument("--out", required=True, metavar="OUT", help="folder to write: findings.csv and report.html")
    text = f"{MODEL_TEXT} (default: {IMAGENET}, the first blocks of EfficientNet-Lite0)"
    command.add_argument("--model", type=model_or_imagenet, default=IMAGENET, metavar="MODEL", help=text)
    text = "cosine similarity of near-duplicates (default: calibrated on copies of the images)"
    command.add_argument("--similarity", type=_positive_number, metavar="X", help=text)
    text = "of the pairs of known copies, for the calibration (default: 0.99)"
    command.add_argument("--precision", type=_positive_number, default=0.99, metavar="X", help=text)
    text = "take images for near-duplicates by their similarity alone, without a comparison of their pixels"
    command.add_argument("--no-verify", action="store_true", help=text)
    _declare_preprocessing(command, batch_size=64)


def _select(command):
    """Choose the images of a set to label next; a page has a field for the label of each."""
    _declare_labeling(command)
    text = "number of images to choose (default: 50)"
    command.add_argument("-n", dest="count", type=_positive, default=50, metavar="N", help=text)
    text = "typical of many others, diverse, uncertain by labels of their neighbors, or all of these in turn"
    command.add_argument("--rule", choices=RULES, default="typical", help=f"{text} (default: typical)")
    text = "cosine similarity of near copies, which are chosen once (default: 0.98)"
    command.add_argument("--similarity", type=_share, default=0.98, metavar="X", help=text)
    command.add_argument("--out", required=True, metavar="OUT", help="folder to write: selected.csv and label.html")


def _propose(command):
    """Propose labels for the images of a set without one, learned from those that have one; no set is changed."""
    _declare_labeling(command)
    text = "share of the proposals that should be right, by labels that were held back (default: 0.9)"
    command.add_argument("--precision", type=_share, default=0.9, metavar="X", help=text)
    command.add_argument("--out", required=True, metavar="OUT", help="new table to write, .csv")


def _declare_labeling(command):
    _declare_set(command)
    text = "table with the columns path and label, in place of labels of SET"
    command.add_argument("--labels", type=file_named("--labels"), metavar="TABLE", help=text)
    text = f"{MODEL_TEXT} (default: {IMAGENET}, EfficientNet-Lite0)"
    command.add_argument("--model", type=model_or_imagenet, default=IMAGENET, metavar="MODEL", help=text)
    _declare_preprocessing(command, batch_size=64)


def _zoo(command):
    """List the models of the zoo with their numbers, measure them again, or compare their files with checksums."""
    text = "list, with NAMEs their cards; evaluate, again, and compare with the cards; check checksums"
    command.add_argument("action", choices=("list", "evaluate", "check"), help=text)
    command.add_argument("names", metavar="NAME", nargs="*", help="models (default: all)")
    text = "folder or URL of the models (default: savedmodels, then installed packages)"
    command.add_argument("--root", metavar="ROOT", help=text)


def _demo(command):
    """Show a search in photographs that come with scikit-image and matplotlib, on a page; needs no data of yours."""
    text = "new or empty folder for the photographs, or that of an earlier demo (default: tfdml-demo)"
    command.add_argument("folder", metavar="FOLDER", nargs="?", default="tfdml-demo", help=text)
    text = "show the page after the search in the terminal (default), or end"
    command.add_argument("--serve", action=argparse.BooleanOptionalAction, default=True, help=text)
    _declare_address(command)


COMMANDS = {
    "demo": (_demo, "tfdml demo"),
    "train": (_train, "tfdml train photos --out run"),
    "embed": (_embed, "tfdml embed photos embeddings.parquet --model run"),
    "evaluate": (_evaluate, "tfdml evaluate run photos --html report.html"),
    "compare": (_compare, "tfdml compare old.npy new.npy --labels labels.csv"),
    "drift": (_drift, "tfdml drift march.csv april.csv"),
    "search": (_search, "tfdml search run run/index photo.jpg"),
    "index": (_index, "tfdml index add run photos"),
    "migrate": (_migrate, "tfdml migrate products --to run"),
    "serve": (_serve, "tfdml serve run"),
    "export": (_export, "tfdml export run --to onnx,web"),
    "check": (_check, "tfdml check photos"),
    "clean": (_clean, "tfdml clean photos --out findings"),
    "select": (_select, "tfdml select photos -n 50 --out to-label"),
    "propose": (_propose, "tfdml propose photos --labels photos/labels.csv --out proposals.csv"),
    "zoo": (_zoo, "tfdml zoo list"),
}
"""The function that declares the options of each command, and an example of its use."""


def _declare_set(command):
    command.add_argument("set", type=set_named, metavar="SET", help=SET_TEXT)
    command.add_argument("--split", help="folder of a split, value of the column split, or split of a TFDS data set")
    command.add_argument("--path-column", default="path", metavar="NAME", help="column of a table (default: path)")
    command.add_argument("--label-column", default="label", metavar="NAME", help="column of a table (default: label)")
    text = "folder or label whose images have no label; repeat it for others"
    command.add_argument("--no-label", action="append", default=[], metavar="NAME", help=text)
    command.add_argument("--unlabelled", type=_renamed, help=argparse.SUPPRESS)
    command.add_argument("--box-columns", nargs=4, metavar=("LEFT", "UPPER", "RIGHT", "LOWER"), help="columns of boxes")


def _declare_preprocessing(command, batch_size=256):
    _declare_view(command)
    text = f"images at a time (default: {batch_size})"
    command.add_argument("--batch-size", type=_positive, default=batch_size, metavar="N", help=text)


def _declare_view(command):
    text = "JSON of a Preprocessing, in place of the model's own"
    command.add_argument("--preprocessing", type=file_named("--preprocessing"), metavar="FILE", help=text)


def _declare_item_column(command):
    text = "column of INDEX with the item of each image, such as a product: each item is found once"
    command.add_argument("--item-column", metavar="NAME", help=text)


def _declare_address(command):
    command.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine)")
    command.add_argument("--port", type=_port, default=8501, help="port, 0 for a free one (default: 8501)")


def _declare_prior(command):
    text = "how often a query has a match in the index, for the probability beside the score (default: 0.5)"
    command.add_argument("--prior", type=_share, metavar="X", help=text)


def _declare_root(command):
    text = "folder in which the files of INDEX are now, if their set has moved"
    command.add_argument("--root", type=folder_named("--root"), metavar="FOLDER", help=text)


def _declare_other_model(command):
    command.add_argument("--other-model", action="store_true", help="take an INDEX that another model made")


def _wrong(text, expected):
    return argparse.ArgumentTypeError(f"Received {text!r}, expected {expected}.")


def _positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise _wrong(text, "a whole number of at least 1")
    return int(text)


def _sizes(text):
    """Whole numbers with commas between them."""
    return tuple(map(_positive, text.split(",")))


def _port(text):
    if not text.isdecimal() or int(text) > 65535:
        raise _wrong(text, "a port from 0 to 65535")
    return int(text)


def _number(text):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _wrong(text, "a number")
    return value


def _positive_number(text):
    value = _number(text)
    if value <= 0:
        raise _wrong(text, "a number above 0")
    return value


def _share(text):
    value = _positive_number(text)
    if value > 1:
        raise _wrong(text, "a share above 0, 1 at most")
    return value


def _renamed(text):
    raise _wrong(text, f"--no-label {text}, the name of this option (tfdml train --unlabeled learns without labels)")


def _color(text):
    """A gray level from 0 to 255, or three levels with commas between them."""
    levels = text.split(",")
    if len(levels) not in (1, 3) or not all(level.isdecimal() and int(level) <= 255 for level in levels):
        raise _wrong(text, "a level from 0 to 255, or RED,GREEN,BLUE")
    return int(text) if len(levels) == 1 else tuple(map(int, levels))


def _names(text):
    """Names with commas between them, each once."""
    return tuple(dict.fromkeys(filter(None, text.split(","))))


def _formats(text):
    """The names of formats, each once."""
    names = text.split(",")
    unknown = [name for name in names if name not in FORMATS]
    if unknown:
        raise _wrong(", ".join(unknown), f"some of {', '.join(FORMATS)}")
    return list(dict.fromkeys(names))
