"""Types of arguments: a word that names nothing is refused before Keras is imported."""

import argparse
import contextlib
import csv
import socket
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tfdml._core.optional import optional_packages
from tfdml.cli.paths import INDEX, RUN, is_model, kind_of, names_of_zoo, nothing_at
from tfdml.cli.printing import UsageError

SET_TEXT = "a folder with one subfolder of images per class, or of images; a .csv, .tsv or .parquet table; or tfds:NAME"
PRESET = "hub:"  # before the name of a preset of KerasHub, or its folder
MODEL_TEXT = (
    "a SavedModel folder that tfdml exported, or a folder of its versions; what tfdml train wrote; a .keras file; "
    "hub:PRESET, images and texts of a preset of KerasHub; or a model of the zoo: its name, folder or URL"
)
INDEX_TEXT = "what tfdml.search saved, or tfdml embed wrote"
IMAGENET = "imagenet"  # the model of `clean` unless one is named
DELIMITERS = {".csv": ",", ".tsv": "\t"}
_TABLES = (*DELIMITERS, ".parquet")
_TOWERS = ("query", "gallery")
_EXTRAS = {
    **dict.fromkeys(("aiohttp", "msgspec", "prometheus_client"), "serving"),
    **dict.fromkeys(("matplotlib", "PIL"), "plots"),
    "skimage": "samples",
    "pyarrow": "tables",
    "faiss": "faiss",
    "keras_hub": "hub",
    **dict.fromkeys(("keras", "tensorflow"), "tensorflow"),
}


def refuse_unless(condition: bool, argument: str, received: str, expected: str) -> None:
    """Raise a `UsageError` of an argument unless a condition holds."""
    if not condition:
        raise UsageError(f"{argument}: Received {received}, expected {expected}.")


def _require_there(argument, word, is_there, expected):
    """Refuse a word with the kind of what is at its path, or with the nearest name beside it."""
    if not is_there:
        refuse_unless(False, f"{argument}={word!r}", kind_of(word) or nothing_at(word), expected)
    return word


def file_named(argument: str, expected: str = "a file") -> Callable[[str], str]:
    """The type of an argument that names a file."""
    return lambda word: _require_there(argument, word, Path(word).expanduser().is_file(), expected)


def folder_named(argument: str, expected: str = "a folder of images") -> Callable[[str], str]:
    """The type of an argument that names a folder."""
    return lambda word: _require_there(argument, word, Path(word).expanduser().is_dir(), expected)


def file_in_folder(word: str) -> str:
    """The type of --log: a new or an existing file in a folder."""
    refuse_unless(
        Path(word).parent.is_dir(), f"--log={word!r}", nothing_at(str(Path(word).parent)), "a file in a folder"
    )
    return word


def is_table(name: str) -> bool:
    """Whether SET is a table."""
    return name.endswith(_TABLES)


def set_named(word: str) -> str:
    """The type of SET."""
    is_there = word.startswith("tfds:") or (Path(word).is_file() if is_table(word) else Path(word).is_dir())
    return _require_there("SET", word, is_there, SET_TEXT)


def model_named(word: str, order: str = "") -> str:
    """The type of MODEL: a path, a URL, or the name of a model of the zoo, with or without one of its towers.

    `order` are the words of a command whose arguments may have been exchanged.
    """
    entries, kind, name, run = names_of_zoo(), kind_of(word), word.rstrip("/"), str(Path(word).parent)
    entry, _, tower = name.rpartition("/")
    names = [name, entry] if entry and tower in _TOWERS else [name]
    if word.startswith(PRESET) or "://" in word or any(each in entries or is_model(kind_of(each)) for each in names):
        return word
    expected = f"{MODEL_TEXT}{': ' * bool(entries)}{', '.join(entries)}"
    if kind is not None and order:
        expected = f"a model: the order is {order}"
    if kind == INDEX and kind_of(run) == RUN:
        expected = f"a model, such as the run of this index, {run}"
    refuse_unless(False, f"MODEL={word!r}", kind or nothing_at(word, entries), expected)
    return word


def model_or_imagenet(word: str) -> str:
    """The type of the MODEL of `tfdml clean`."""
    return word if word == IMAGENET else model_named(word)


def index_or_run(word: str) -> str:
    """The type of the INDEX of `tfdml index`."""
    return _require_there("INDEX", word, "://" in word or Path(word).expanduser().exists(), INDEX_TEXT)


def index_named(word: str) -> str:
    """The type of other INDEXes."""
    refuse_unless(kind_of(index_or_run(word)) != RUN, f"INDEX={word!r}", RUN, f"its index, {word.rstrip('/')}/index")
    return word


def split_member(word: str) -> tuple[Path, str]:
    """A file, and the name of an array or column in it: "x.npz::a"; empty without one."""
    file, separator, member = word.rpartition("::")
    return Path(file if separator else word).expanduser(), member if separator else ""


def vectors_named(word: str) -> str:
    """The type of FILE of `tfdml compare`: FILE or NAME=FILE, with or without a member."""
    path = split_member(word)[0]
    path = path if path.exists() or "=" not in word else split_member(word.partition("=")[2])[0]
    _require_there("FILE", str(path), path.exists(), "a file of vectors or a run")
    return word


def require_together(options: argparse.Namespace) -> None:
    """Raise a `UsageError` for arguments that do not fit each other, for a folder in use, and for a taken port."""
    if Path(getattr(options, "set", "")).suffix in DELIMITERS:
        _require_columns(options)
    if options.command == "search":
        refuse_unless(not options.text or options.box is None, "--box", "a box in a text", "an image, without --text")
        for image in [] if options.text else options.images:
            file_named("IMAGE", "an image file")(image)
    if options.command == "train" and not options.resume:
        folder = Path(options.out).expanduser()
        is_empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        expected = "a new or an empty folder, or --resume to go on with its run"
        refuse_unless(is_empty, f"--out {options.out}", "what is not an empty folder", expected)
    if options.command == "demo":
        folder = Path(options.folder).expanduser()
        is_usable = not folder.exists() or (folder / "photos.parquet").is_file() or not any(folder.iterdir())
        refuse_unless(is_usable, f"FOLDER={options.folder!r}", "a folder of other files", "a new or an empty folder")
    if options.command == "serve" or (options.command == "demo" and options.serve):
        _require_free_port(options)


def _require_columns(options):
    with (
        contextlib.suppress(UnicodeDecodeError, csv.Error),
        open(options.set, encoding="utf-8-sig", newline="") as file,
    ):
        columns = next(csv.reader(file, delimiter=DELIMITERS[Path(options.set).suffix]), [])
        for option in ("path_column", "label_column", "box_columns"):
            named = getattr(options, option) or []
            missing = [repr(name) for name in ([named] if isinstance(named, str) else named) if name not in columns]
            received = f"a table without {', '.join(missing)} (--{option.replace('_', '-')})"
            refuse_unless(not missing, f"SET={options.set!r}", received, f"some of {columns}")


def _require_free_port(options):
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        socket.create_server((options.host, options.port), family=family).close()
    except OSError as error:
        received = f"an address that cannot be used ({error.strerror})"
        refuse_unless(False, f"--host {options.host} --port {options.port}", received, "a free port, or 0 for any")


def require_packages(options: argparse.Namespace) -> None:
    """Raise an ImportError that names all packages which a command needs and does not have, and their extras."""
    missing = [package for package in _packages(options) if find_spec(package) is None]
    extras = sorted({_EXTRAS[package] for package in missing})
    optional_packages(missing, feature=f"tfdml {options.command}", extra=",".join(extras))


def _packages(options):
    """The packages of extras that the arguments of a command need; `tfdml train` names its own ones itself."""
    is_compare, words = options.command == "compare", []
    if is_compare:
        words = [*options.files, *(options.gallery or ()), options.labels, options.gallery_labels, options.scores]
    files = [str(split_member(word)[0]) for word in words if word is not None]
    yield from ("keras",) if options.command not in ("compare", "drift") else ()
    if options.command == "train":
        return
    if options.command in ("serve", "demo"):
        yield from ("tensorflow", "aiohttp", "msgspec", "prometheus_client")
    yield from ("pyarrow", "skimage") if options.command == "demo" else ()
    yield from ("keras_hub",) if str(getattr(options, "model", "")).startswith(PRESET) else ()
    yield from ("matplotlib", "PIL") if getattr(options, "html", None) else ()
    yield from ("pyarrow",) if _has_parquet(options, files) else ()
    yield from ("faiss",) if any(file.endswith((".faiss", ".index")) for file in files) else ()


def _has_parquet(options, files):
    """Whether the set, the result, the index or a file of a command is a Parquet file, or has one."""
    index = getattr(options, "index", None) or f"{getattr(options, 'model', '')}/index"
    names = [*files, getattr(options, "set", ""), index, options.out if options.command == "embed" else ""]
    is_searched = options.command in ("serve", "search", "index")
    return any(name.endswith(".parquet") for name in names) or (is_searched and any(Path(index).rglob("*.parquet")))
