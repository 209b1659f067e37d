"""The command line: `tfdml embed`, `evaluate`, `search`, `serve`, `verify` and `zoo`.

A command is a function of the parsed options that prints its results and returns the exit code, and a function that
declares the options; `COMMANDS` lists both.
"""

import argparse
import contextlib
import importlib.metadata
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdml import datasets, evaluation, export, models, search, zoo
from tfdml._core.checks import require
from tfdml._core.json_files import read_json
from tfdml._core.terminal import visible
from tfdml.embedding.in_memory import embed_loadable
from tfdml.zoo.entries import open_named
from tfdml.zoo.paths import folder_of

GOOD, FAILED, USAGE = 0, 1, 2

_SET = "a folder with one subfolder of images per class; a .csv, .tsv or .parquet table; or tfds:NAME"
_MODEL = (
    "a SavedModel folder that tfdml exported, or a folder of its versions; a .keras file; or a model of the zoo: its "
    "name, folder or URL"
)
_INDEX = "what tfdml.search saved, or tfdml embed wrote"
_TABLES = (".csv", ".tsv", ".parquet")
_K = 10
_LIMITS = {
    "max_bytes": "maximum size of an image file, and of the images of a request together (default: 20 MiB)",
    "max_pixels": "maximum of width times height (default: 33,554,432)",
    "max_images": "maximum number of images of a request (default: 64)",
    "max_neighbors": "maximum number of neighbors (default: 100)",
    "max_requests": "requests that are answered at the same time (default: 64)",
    "seconds": "time for a request (default: 30)",
}


class UsageError(Exception):
    """An argument that does not lead to a set, a model or an index."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: words of the command line after `tfdml`; None for those of this process.

    Returns:
        Exit code: 0 for success, 1 if something was found or failed, 2 for arguments that cannot be used.

    Raises:
        SystemExit: after `--help`, `--version`, and for options that are not known (with code 2).
    """
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _say(f"warning: {message}")
        try:
            return options.run(options)
        except UsageError as error:
            return _fail(error, USAGE)
        except KeyboardInterrupt:
            return _fail("interrupted", FAILED)
        except Exception as error:  # of readers, decoders and TensorFlow: none of their types says more
            return _fail(error, FAILED)


def embed(options: argparse.Namespace) -> int:
    """Embed a set to disk."""
    model, view = open_model(options.model, options.preprocessing)
    part = open_set(options, view)
    skipped = models.write_embeddings(model, part, options.out, batch_size=options.batch_size)
    _say_skipped(skipped)
    record = {"out": options.out, "embedded": len(part) - len(skipped), "skipped": _as_records(skipped)}
    _print(options, record, [f"{record['embedded']:,} examples embedded in {options.out}, {len(skipped):,} skipped"])
    return FAILED if skipped else GOOD


def evaluate(options: argparse.Namespace) -> int:
    """Measure retrieval in a set."""
    model, view = open_model(options.model, options.preprocessing)
    part = open_set(options, view)
    embeddings, rows, skipped = embed_loadable(model, part, options.batch_size)
    _say_skipped(skipped)
    found = evaluation.evaluate(embeddings, part.take(rows))
    if options.html is not None:
        found.html(options.html)
    _print(options, {**found.as_dict(), "skipped_examples": _as_records(skipped)}, _lines(found))
    return FAILED if skipped else GOOD


def find(options: argparse.Namespace) -> int:
    """Find the neighbors of images in an index."""
    model, view = open_model(options.model, options.preprocessing)
    index, describe = open_index(options.index, columns=bool(options.where))
    with _usage(f"--where {options.where}"):
        where = _mask(options.where, index) if options.where else None
    images = _read_images(options.images, view)
    k = min(_K, len(index) if where is None else int(where.sum())) if options.k is None else options.k
    found = index.search(models.embed(model, images, batch_size=options.batch_size), k, where=where)
    records = [
        {
            "image": image,
            "neighbors": [
                {"id": id, "score": score, "metadata": describe(id)} for id, score in zip(*lists, strict=True)
            ],
        }
        for image, *lists in zip(options.images, *(part.tolist() for part in found), strict=True)
    ]
    _print(options, records, [line for record in records for line in _neighbor_lines(record)])
    return GOOD


def _neighbor_lines(record):
    yield record["image"]
    for neighbor in record["neighbors"]:
        about = [str(neighbor["metadata"][name]) for name in ("label", "path") if name in neighbor["metadata"]]
        yield "  ".join([f"{neighbor['score']:9.5f}", f"{neighbor['id']:>8}", *about])


def serve(options: argparse.Namespace) -> int:
    """Answer requests over HTTP, with a page for neighbors."""
    from tfdml import serving  # needs the extra serving

    with _usage(f"--host {options.host} --port {options.port}"):
        listening = serving.listen(options.host, options.port)
    with listening:
        model, view = open_model(options.model, options.preprocessing)
        application = _application(serving, options, model, view)
        url = _url(options.host, listening.getsockname()[1])
        has_page = options.index is not None or "search" in getattr(model, "signatures", ())
        record = {"model": f"{url}v1/models/{options.name}", "page": url if has_page else None}
        _print(options, record, [f"{name}: {place}" for name, place in record.items() if place])
        sys.stdout.flush()
        serving.run(application, listening)
    return GOOD


def _application(serving, options, model, view):
    """The server that the options describe."""
    index = None if options.index is None else _open_described(options.index)
    with _usage(f"MODEL={options.model!r}"):
        limits = {name: getattr(options, name) for name in _LIMITS if getattr(options, name) is not None}
        return serving.application(
            model,
            view,
            name=options.name,
            version=model.version if isinstance(model, export.LoadedModel) else 1,
            index=index,
            limits=serving.Limits(**limits),
            batch_size=options.batch_size,
        )


def _url(host, port):
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def verify(options: argparse.Namespace) -> int:
    """List the examples of a set that should be left out."""
    part = open_set(options, datasets.Preprocessing(size=224))
    found = part.verify().problems
    unusable = [(name, reason) for name, reason in part.skipped if _is_table(options.set) and not _elsewhere(reason)]
    records = [{"row": None, "name": name, "reason": reason} for name, reason in unusable] + _as_records(found)
    head = f"{len(part) + len(unusable):,} examples, of which {len(records):,} have a problem"
    lines = [f"  {record['name']}  {record['reason']}" for record in records]
    _print(options, {"examples": len(part) + len(unusable), "problems": records}, [head, *lines])
    return FAILED if records else GOOD


def models_of_zoo(options: argparse.Namespace) -> int:
    """List the models of the zoo with their numbers, measure them again, or compare their files with checksums."""
    run = {"list": _list_zoo, "evaluate": _evaluate_zoo, "verify": _verify_zoo}[options.action]
    if options.names:
        with _usage("NAME"):
            for name in options.names:
                folder_of(name, options.root)
        return run(options, options.names, ())
    with _usage(f"--root {options.root}"):
        listing = zoo.list(options.root)
    return run(options, listing.names, listing.unreadable)


def _list_zoo(options, names, unreadable):
    if options.names:
        cards = [zoo.card(name, root=options.root) for name in names]
        lines = [line for card in cards for line in _lines(card)]
    else:
        listing = zoo.list(options.root)
        cards, lines = listing.cards, _lines(listing)
    _print(options, [card.as_dict() for card in cards], lines)
    if options.json:
        _say_unreadable(unreadable)
    return FAILED if unreadable else GOOD


def _evaluate_zoo(options, names, unreadable):
    found = [zoo.evaluate(name, root=options.root) for name in names]
    _print(options, [each.as_dict() for each in found], [line for each in found for line in _lines(each)])
    _say_unreadable(unreadable)
    return GOOD if all(each.agrees for each in found) and not unreadable else FAILED


def _verify_zoo(options, names, unreadable):
    found = {name: zoo.verify(name, root=options.root) for name in names}
    found |= {name: (reason,) for name, reason in unreadable}
    lines = [f"{name}: {problem}" for name, problems in found.items() for problem in problems or ("whole",)]
    _print(options, found, lines)
    return FAILED if any(found.values()) else GOOD


def _say_unreadable(unreadable):
    for name, reason in unreadable:
        _say(f"{name}: {reason}")


def open_model(path: str, preprocessing: str | None) -> tuple[Any, datasets.Preprocessing]:
    """A model for `tfdml.models.embed`, and how it reads images.

    Raises:
        UsageError: there is no model, or it cannot be read.
    """
    with _usage(f"--preprocessing {preprocessing}"):
        view = None if preprocessing is None else datasets.Preprocessing.from_config(read_json(Path(preprocessing)))
    with _usage(f"MODEL={path!r}"):
        if Path(path).is_file() and path.endswith(".keras"):
            model = keras.saving.load_model(path, compile=False)
            return model, view or _view_of_input(model)
        named = None if (Path(path) / "saved_model.pb").is_file() else open_named(path)
        if named is not None:
            return named[0], view or named[1]
        require(Path(path).is_dir(), "no such file or folder", _MODEL)
        model = export.load(path)
        return model, view or model.preprocessing


def open_set(options: argparse.Namespace, view: datasets.Preprocessing) -> datasets.LabeledSet:
    """The set that SET names, read as the model reads images.

    Raises:
        UsageError: there is no set, it has no images, or it cannot be read.
    """
    found: Any
    with _usage(f"SET={options.set!r}"):
        splits = None if options.split is None else (options.split,)
        if options.set.startswith("tfds:"):
            require(splits is not None, "no --split", "--split with the name of a split of the data set")
            found = datasets.tfds(options.set.removeprefix("tfds:"), options.split, load=view)
        elif _is_table(options.set):
            columns = {"path": options.path_column, "label": options.label_column, "box": options.box_columns}
            found = datasets.table(options.set, splits=splits, load=view, on_error="skip", **columns)
        else:
            require(Path(options.set).is_dir(), "no such file or folder", _SET)
            found = datasets.folder(options.set, splits=splits, load=view)
    part = found[0] if isinstance(found, tuple) else found
    _say_left_out(part)
    return part


def open_index(path: str, *, columns: bool = False) -> tuple[Any, Callable[[Any], dict[str, Any]]]:
    """An index, and a function from an id to what is known about it.

    Args:
        path: folder of an index, or what `tfdml.models.write_embeddings` wrote.
        columns: whether labels and paths of embeddings become metadata of the index, which needs pyarrow.

    Raises:
        UsageError: there is neither an index nor embeddings, or they cannot be read.
    """
    if columns or (Path(path) / "index.json").is_file():
        return (index := _open_described(path)), lambda id: _metadata(index, id)
    with _usage(f"INDEX={path!r}"):
        found = models.read_embeddings(path)
        return search.Exact(found.embeddings, found.rows), _description(found)


def _open_described(path):
    """An index with what is known about its items as metadata."""
    with _usage(f"INDEX={path!r}"):
        if (Path(path) / "index.json").is_file():
            return search.load(path)
        found = models.read_embeddings(path)
        columns = {} if found.paths is None else {"path": found.paths}
        if found.labels is not None:
            columns["label"] = np.array(found.class_names)[found.labels]
        return search.Exact(found.embeddings, found.rows, metadata=columns or None)


def _mask(conditions, index):
    """The vectors whose columns have one of the values of `COLUMN=VALUE`, `(n,)` bool; None for all."""
    from pyarrow import array, compute

    columns = index.metadata.column_names if index.metadata is not None else []
    wanted: dict[str, list[str]] = {}
    for column, _, value in (condition.partition("=") for condition in conditions):
        require(column in columns, f"column {column!r}", f"one of {', '.join(columns) or 'an index with metadata'}")
        wanted.setdefault(column, []).append(value)
    values = {column: array(texts).cast(index.metadata[column].type) for column, texts in wanted.items()}
    mask = np.logical_and.reduce([index.mask(compute.field(column).isin(found)) for column, found in values.items()])
    require(bool(mask.any()), "values that no item has", "values of the columns")
    return mask


def _metadata(index, id):
    """The metadata columns of an id, as JSON has them."""
    found = [] if index.metadata is None else index.metadata.take(index.rows([id])).to_pylist()
    return {name: _as_json(value) for row in found for name, value in row.items()}


def _as_json(value):
    """A value that JSON has; anything else as text."""
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _description(found):
    def describe(row):
        place = np.searchsorted(found.rows, row)  # they ascend
        label = {} if found.labels is None else {"label": found.class_names[found.labels[place]]}
        return label | ({} if found.paths is None else {"path": str(found.paths[place])})

    return describe


def _read_images(paths, view):
    """Image files as an array of what the model takes."""
    with _usage("IMAGE"):
        part = datasets.LabeledSet(
            paths=np.array(paths), labels=np.zeros(len(paths), int), class_names=("",), load=view
        )
        broken = part.broken()
        require(not broken, "; ".join(f"{name}: {reason}" for _, name, reason in broken), "image files")
        return part.examples()


def _view_of_input(model):
    """Images stretched to the input of a Keras model, as `tfdml.export.saved_model` reads them."""
    shape = tuple(model.input_shape[1:]) if isinstance(model.input_shape, tuple) else ()
    expected = "an input (height, width, channels) of fixed size; or pass --preprocessing"
    require(len(shape) == 3 and None not in shape, f"a model of inputs {model.input_shape}", expected)
    return datasets.Preprocessing(size=shape[:2], channels=shape[2])


def _is_table(name):
    return name.endswith(_TABLES)


def _elsewhere(reason):
    """Whether a row of a table is left out for its split, which is no problem."""
    return reason.startswith("split ")


def _say_left_out(part):
    """Say what is not in the set."""
    left_out = [(name, reason) for name, reason in part.skipped if not _elsewhere(reason)]
    if left_out:
        name, reason = left_out[0]
        _say(f"left out of the set: {len(left_out):,}, first {name}: {reason}")


def _say_skipped(skipped):
    for _, name, reason in skipped:
        _say(f"skipped {name}: {reason}")


def _as_records(found):
    return [{"row": row, "name": name, "reason": reason} for row, name, reason in found]


def _lines(result):
    """The lines of a result that prints as a table."""
    return str(result).split("\n")


def _print(options, record, lines):
    """The results on stdout."""
    print(json.dumps(record) if options.json else "\n".join(map(visible, lines)))


def _say(text):
    print(f"tfdml: {visible(text)}", file=sys.stderr)


def _fail(error, code):
    """Say an error in one line."""
    _say(f"error: {' '.join(str(error).split()) or type(error).__name__}")
    return code


@contextlib.contextmanager
def _usage(argument: str) -> Iterator[None]:
    """Errors inside become `UsageError`, which names the argument."""
    try:
        yield
    except Exception as error:  # of any library that reads files
        raise UsageError(f"{argument}: {error}") from error


def _positive(text):
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"Received {text!r}, expected a whole number of at least 1.")
    return int(text)


def _port(text):
    """A whole number from 0 to 65535."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"Received {text!r}, expected a port from 0 to 65535.")
    return int(text)


def _set_options(parser):
    parser.add_argument("set", metavar="SET", help=_SET)
    parser.add_argument("--split", help="folder of a split, value of the column split, or split of a TFDS data set")
    parser.add_argument("--path-column", default="path", metavar="NAME", help="column of a table (default: path)")
    parser.add_argument("--label-column", default="label", metavar="NAME", help="column of a table (default: label)")
    parser.add_argument("--box-columns", nargs=4, metavar=("LEFT", "UPPER", "RIGHT", "LOWER"), help="columns of boxes")


def _model_options(parser, batch_size=256):
    parser.add_argument("--preprocessing", metavar="FILE", help="JSON of a Preprocessing, instead of the model's own")
    text = f"images at a time (default: {batch_size})"
    parser.add_argument("--batch-size", type=_positive, default=batch_size, metavar="N", help=text)


def _embed_options(parser):
    _set_options(parser)
    parser.add_argument("out", metavar="OUT", help="a .parquet file, or a folder for .npy and .csv files")
    parser.add_argument("--model", required=True, metavar="MODEL", help=_MODEL)
    _model_options(parser)


def _evaluate_options(parser):
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    _set_options(parser)
    _model_options(parser)
    parser.add_argument("--html", metavar="FILE", help="write a page with curves and pictures, too")


def _find_options(parser):
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    parser.add_argument("index", metavar="INDEX", help=_INDEX)
    parser.add_argument("images", metavar="IMAGE", nargs="+", help="image files")
    parser.add_argument("-k", type=_positive, metavar="N", help=f"number of neighbors (default: {_K})")
    text = "only items with this value; repeat it for other columns, and for other values of a column"
    parser.add_argument("--where", action="append", metavar="COLUMN=VALUE", help=text)
    _model_options(parser)


def _serve_options(parser):
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    parser.add_argument("--index", metavar="INDEX", help=_INDEX)
    parser.add_argument("--name", default="model", help="name of the model in addresses (default: model)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine)")
    parser.add_argument("--port", type=_port, default=8501, help="port, 0 for a free one (default: 8501)")
    _model_options(parser, batch_size=32)
    for name, text in _LIMITS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=_positive, metavar="N", help=text)


def _zoo_options(parser):
    actions = "list, with NAMEs their cards; evaluate, again, and compare with the cards; verify checksums"
    parser.add_argument("action", choices=("list", "evaluate", "verify"), help=actions)
    parser.add_argument("names", metavar="NAME", nargs="*", help="models (default: all)")
    parser.add_argument(
        "--root", metavar="ROOT", help="folder or URL of the models (default: savedmodels, then installed packages)"
    )


COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], Callable[[argparse.ArgumentParser], None]]] = {
    "embed": (embed, _embed_options),
    "evaluate": (evaluate, _evaluate_options),
    "search": (find, _find_options),
    "serve": (serve, _serve_options),
    "verify": (verify, _set_options),
    "zoo": (models_of_zoo, _zoo_options),
}


def _parser():
    parser = argparse.ArgumentParser(
        prog="tfdml",
        description="Embed, evaluate, search, serve and verify sets of images, with your models or those of the zoo.",
    )
    parser.add_argument("--version", action="version", version=f"tfdml {importlib.metadata.version('tfdml')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (run, declare) in COMMANDS.items():
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        declare(command)
        command.add_argument("--json", action="store_true", help="print the results as JSON")
        command.set_defaults(run=run)
    return parser
