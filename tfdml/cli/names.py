"""Whether what arguments name and need is there, which a command answers before Keras is imported."""

import argparse
import contextlib
import csv
import socket
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tfdml._core.optional import optional_packages
from tfdml.cli.parser import IMAGENET, INDEX, MODEL, SET
from tfdml.cli.paths import INDEX as INDEX_KIND
from tfdml.cli.paths import RUN, is_model, kind_of, names_of_zoo, nothing_at
from tfdml.cli.printing import UsageError

DELIMITERS = {".csv": ",", ".tsv": "\t"}
_TABLES = (*DELIMITERS, ".parquet")
_TOWERS = ("query", "gallery")
_EXTRAS = {
    **dict.fromkeys(("aiohttp", "msgspec", "prometheus_client"), "serving"),
    **dict.fromkeys(("matplotlib", "PIL"), "plots"),
    "pyarrow": "tables",
    "faiss": "faiss",
    **dict.fromkeys(("keras", "tensorflow"), "tensorflow"),
}


def require_names(options: argparse.Namespace) -> None:
    """Raise a `UsageError` for the first argument that names nothing, for a folder in use, and for a taken port."""
    for name, check in _CHECKS.items():
        if getattr(options, name, None) is not None:
            check(options)


def require_packages(options: argparse.Namespace) -> None:
    """Raise an ImportError that names all packages which a command needs and does not have, and their extras."""
    missing = [package for package in _packages(options) if find_spec(package) is None]
    extras = sorted({_EXTRAS[package] for package in missing})
    optional_packages(missing, feature=f"tfdml {options.command}", extra=",".join(extras))


def _packages(options):
    """The packages of extras that the arguments of a command need; `tfdml train` names its own ones itself."""
    common = [] if options.command in ("compare", "drift") else ["keras", "tensorflow"]
    if options.command == "train":
        return common
    return [
        *common,
        *(["aiohttp", "msgspec", "prometheus_client"] if options.command == "serve" else []),
        *(["matplotlib", "PIL"] if getattr(options, "html", None) else []),
        *(["pyarrow"] if _has_parquet(options) else []),
        *(["faiss"] if any(word.endswith((".faiss", ".index")) for word in _words_of_compare(options)) else []),
    ]


def _has_parquet(options):
    """Whether the set, the result or the index of a command is a Parquet file, or has one."""
    index = getattr(options, "index", None) or f"{getattr(options, 'model', '')}/index"
    is_searched = options.command in ("serve", "search", "index")
    named = [getattr(options, "set", ""), index, options.out if options.command == "embed" else ""]
    named += [str(split_member(word)[0]) for word in _words_of_compare(options)]
    return any(name.endswith(".parquet") for name in named) or (is_searched and any(Path(index).rglob("*.parquet")))


def is_table(name: str) -> bool:
    """Whether SET is a table."""
    return name.endswith(_TABLES)


def _require(condition, argument, received, expected):
    if not condition:
        raise UsageError(f"{argument}: Received {received}, expected {expected}.")


def _require_files(argument, names, is_there=Path.is_file, expected="a file"):
    missing = [name for name in names if not is_there(Path(name).expanduser())]
    if missing:
        kind = kind_of(missing[0]) or nothing_at(missing[0])
        _require(False, argument, f"{', '.join(missing)}: {kind}", expected)


def _require_set(options):
    name = options.set
    if not name.startswith("tfds:"):
        is_there = Path(name).is_file() if is_table(name) else Path(name).is_dir()
        _require(is_there, f"SET={name!r}", kind_of(name) or nothing_at(name), SET)
    if Path(name).suffix in DELIMITERS:
        _require_columns(options)


def _require_columns(options):
    with (
        contextlib.suppress(UnicodeDecodeError, csv.Error),
        open(options.set, encoding="utf-8-sig", newline="") as file,
    ):
        columns = next(csv.reader(file, delimiter=DELIMITERS[Path(options.set).suffix]), [])
        named = {
            "--path-column": [options.path_column],
            "--label-column": [options.label_column],
            "--box-columns": options.box_columns or [],
        }
        for argument, names in named.items():
            missing = ", ".join(repr(name) for name in names if name not in columns)
            _require(
                not missing, f"SET={options.set!r}", f"a table without {missing} ({argument})", f"some of {columns}"
            )


def _require_model(options):
    """A model at a path, a URL, or the name of a model of the zoo, with or without one of its towers."""
    name, entries, kind = options.model, names_of_zoo(), kind_of(options.model)
    entry, _, last = name.rstrip("/").rpartition("/")
    names = [name.rstrip("/"), entry] if entry and last in _TOWERS else [name.rstrip("/")]
    is_elsewhere = "://" in name or (options.command == "clean" and name == IMAGENET)
    if is_elsewhere or any(each in entries or is_model(kind_of(each)) for each in names):
        return
    zoo = f": {', '.join(entries)}" if entries else ""
    expected = _advice(options, kind) or f"{MODEL}{zoo}"
    _require(False, f"MODEL={name!r}", kind or nothing_at(name, entries), expected)


def _advice(options, kind):
    """The words to type in place of arguments that are exchanged, or of the index of a run; None for anything else."""
    if kind == INDEX_KIND and options.command == "serve":
        run = str(Path(options.model).parent)
        if kind_of(run) == RUN:
            return f"a model. A run is served with its index: tfdml serve {run}"
        return f"a model: tfdml serve MODEL --index {options.model}"
    other = next((name for name in ("set", "index") if is_model(kind_of(getattr(options, name, None) or ""))), None)
    return None if other is None else f"a model, which is in the place of {other.upper()}: exchange the two"


def _require_index(options):
    name = options.index
    if "://" not in name:
        _require_files("INDEX", [name], Path.exists, INDEX)
        is_taken = options.command == "index" or kind_of(name) != RUN  # tfdml index takes the run of an index
        _require(is_taken, f"INDEX={name!r}", RUN, f"its index, {name.rstrip('/')}/index")


def _require_new_run(options):
    """Only `tfdml train` begins with a new folder."""
    folder = Path(options.out).expanduser()
    if options.command == "train" and not options.resume and folder.exists():
        is_empty = folder.is_dir() and not any(folder.iterdir())
        expected = "a new or an empty folder, or --resume to go on with its run"
        _require(is_empty, f"--out {options.out}", "what is not an empty folder", expected)


def _require_free_port(options):
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        socket.create_server((options.host, options.port), family=family).close()
    except OSError as error:
        received = f"an address that cannot be used ({error.strerror})"
        _require(False, f"--host {options.host} --port {options.port}", received, "a free port, or 0 for any")


def split_member(word: str) -> tuple[Path, str]:
    """A file, and the name of an array or column in it: "x.npz::a"; empty without one."""
    file, separator, member = word.rpartition("::")
    return Path(file if separator else word).expanduser(), member if separator else ""


def named_files(words: Sequence[str]) -> dict[str, str]:
    """Files by the name of their model: NAME=FILE, or the name of the file without its suffix."""
    files: dict[str, str] = {}
    for word in words:
        name, separator, file = word.partition("=")
        if not separator or split_member(word)[0].exists():
            name, file = split_member(word)[0].stem, word
        received = f"{files.get(name)} and {file}, both of which are called {name!r}"
        _require(name not in files, "FILE", received, f"different names. Write NAME={file}")
        files[name] = file
    return files


def _words_of_compare(options):
    """The files that `tfdml compare` names."""
    if options.command != "compare":
        return []
    return [
        *options.files,
        *(options.gallery or ()),
        *filter(None, (options.labels, options.gallery_labels, options.scores)),
    ]


def _require_compared(options):
    """Files of models with labels or judgements, and none with a table of scores."""
    if options.scores is not None:
        _require(not options.files, "--scores", "FILEs beside it", "the table alone")
    else:
        _require(len(options.files) > 0, "FILE", "none", "one file or more")
    words = {"FILE": named_files(options.files).values(), "--gallery": options.gallery or ()}
    for argument, files in words.items():
        _require_files(
            argument, [str(split_member(file)[0]) for file in files], Path.exists, "files of vectors or runs"
        )
    _require(
        (options.gallery is None) == (options.gallery_labels is None),
        "--gallery",
        "one of the two",
        "--gallery and --gallery-labels, or neither",
    )
    number = len(options.gallery or options.files)
    _require(number == len(options.files), "--gallery", f"{number} files", f"{len(options.files)}, one for each FILE")


def _require_queries(options):
    _require(not options.text or options.box is None, "--box", "a box in a text", "a box in an image, without --text")
    _require_files("IMAGE", [] if options.text else options.images, expected="image files")


_CHECKS = {
    "set": _require_set,
    "folders": lambda options: _require_files("FOLDER", options.folders, Path.is_dir, "folders of images"),
    "preprocessing": lambda options: _require_files("--preprocessing", [options.preprocessing]),
    "config": lambda options: _require_files("--config", [options.config]),
    "model": _require_model,
    "index": _require_index,
    "images": _require_queries,
    "out": _require_new_run,
    "files": _require_compared,
    "labels": lambda options: _require_files("--labels", [options.labels]),
    "gallery_labels": lambda options: _require_files("--gallery-labels", [options.gallery_labels]),
    "qrels": lambda options: _require_files("--qrels", [options.qrels]),
    "scores": lambda options: _require_files("--scores", [options.scores]),
    "reference": lambda options: _require_files("REFERENCE LOG", [options.reference, options.log]),
    "root": lambda options: (
        options.command == "zoo" or _require_files("--root", [options.root], Path.is_dir, "a folder of images")
    ),
    "log": lambda options: _require_files("--log", [str(Path(options.log).parent)], Path.is_dir, "a file in a folder"),
    "port": _require_free_port,
}
