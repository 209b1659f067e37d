"""Checksums of the files of a folder, in a file that `sha256sum -c` reads, and fingerprints of models."""

import hashlib
import os
import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.checks import require

SUMS = "SHA256SUMS"
PATH, BOX, CLASS, LABEL = "path", "box", "class", "label"  # of an item of an index
ROOT, SIZE, CHECKSUM = "_root", "_size", "_checksum"  # of the owner of an index: such names never reach clients
FILE_TYPES = {ROOT: "string", SIZE: "int64", CHECKSUM: "string"}  # of Arrow
_DIGITS = 16  # of the checksum of a file of an item
_PARALLEL_FILES = 8
_PART = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+"  # one name; not the folder itself or the one above
_NAME = rf"{_PART}(?:/{_PART})*"
_LINE = re.compile(rf"([0-9a-f]{{64}})  ({_NAME})")
_BESIDE = re.compile(r"\.(partial-\d+-[0-9a-f]{8}|lock)-")  # of a writer, before the name of what it writes
_BLOCK = 2**26  # bytes of rows that are in memory at the same time
_WITH_PREPROCESSING = re.compile(r"(.+)/([0-9a-f]{16})")  # a fingerprint


def write_checksums(folder: Path, sums: str = SUMS, apart: Collection[str] = ()) -> None:
    """Write the sha256 of all other files of a folder into its file `sums`, but for what stands `apart`."""
    (folder / sums).write_text(_text({name: sha256_of(file) for name, file in _files(folder, sums, apart).items()}))


def require_checksums(folder: Path, sums: str = SUMS) -> None:
    """Raise a ValueError if the file `sums`, or one that it lists, has changed or is missing; others may be added."""
    changes = [problem for problem in problems(folder, sums) if not problem.endswith(f": not in {sums}")]
    received = f"{str(folder)!r}, in which {'; '.join(changes)}"
    require(not changes, received, "the files as they were written. Copy them again")


def problems(folder: Path, sums: str = SUMS, apart: Collection[str] = ()) -> tuple[str, ...]:
    """Differences between a folder and its checksum file, names with reasons; only regular files are opened.

    What stands `apart`, files and folders by name, with their locks and temporary folders, may change by itself.
    """
    try:
        listed = parsed((folder / sums).read_bytes())
    except (OSError, ValueError) as error:
        return (f"{sums}: {error}",)
    files = _files(folder, sums, apart)
    return tuple(
        f"{name}: {reason}"
        for name in sorted({*listed, *files})
        if (reason := _problem(files.get(name), listed.get(name), sums)) is not None
    )


def parsed(content: bytes) -> dict[str, str]:
    """Checksums by the relative name of the file, if the content is to the byte what `write_checksums` writes."""
    lines = [_LINE.fullmatch(line) for line in content.decode("ascii", "replace").splitlines()]
    listed = {line[2]: line[1] for line in lines if line}
    expected = "lines of a checksum and the name of a file, sorted by name"
    require(bool(listed) and _text(listed).encode() == content, "checksums of another form", expected)
    return listed


def is_listable(name: str) -> bool:
    """Whether a checksum file can hold a name: relative, of letters, digits, ".", "_" and "-", inside the folder."""
    return re.fullmatch(_NAME, name) is not None


def listed_files(folder: Path, sums: str = SUMS) -> frozenset[str]:
    """Names of the files in a checksum file, and its own name; empty where it is missing or malformed."""
    try:
        return frozenset({*parsed((folder / sums).read_bytes()), sums})
    except (OSError, ValueError):
        return frozenset()


def sha256_of(file: Path) -> str:
    """The sha256 of a file, in hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def state_of(file: str | os.PathLike) -> tuple[int | None, str | None]:
    """Size and short checksum of a file; None for one that cannot be read."""
    try:
        return os.path.getsize(file), sha256_of(Path(file))[:_DIGITS]
    except OSError:
        return None, None


def file_columns(paths: Sequence[str], root: str) -> dict[str, list[Any]]:
    """The columns by which files are known again, of names to owners of an index."""
    with ThreadPoolExecutor(_PARALLEL_FILES) as threads:
        states = list(threads.map(state_of, paths))
    return {
        ROOT: [root] * len(paths),
        SIZE: [size for size, _ in states],
        CHECKSUM: [checksum for _, checksum in states],
    }


def sha256_of_rows(data: Any) -> str:
    """The sha256 of all examples of an array, or of anything else that returns the examples of row numbers.

    Rows are read in blocks, once, at 1 to 2 GB per second of a core that has instructions for SHA.
    """
    checksum = hashlib.sha256(str(len(data)).encode())
    size = 1 if not len(data) else max(1, _BLOCK // max(1, sum(array.nbytes for array in _arrays_of(data, 0, 1))))
    for start in range(0, len(data), size):
        for array in _arrays_of(data, start, min(start + size, len(data))):
            checksum.update(f"{array.dtype.str} {array.shape} ".encode())
            checksum.update(repr(array.tolist()).encode() if array.dtype.hasobject else _bytes_of(array))
    return checksum.hexdigest()


def _arrays_of(data, start, stop):
    """The arrays of some examples. Arrays are cut without a copy; other data know row numbers only."""
    import keras

    rows = data[start:stop] if hasattr(data, "__array__") else data[np.arange(start, stop)]
    return [np.asarray(array) for array in keras.tree.flatten(rows)]


def _bytes_of(array):
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _problem(file, sha256, sums):
    """The reason why a file is not as listed; None if it is."""
    if sha256 is None:
        return f"not in {sums}"
    if file is None:
        return "missing"
    if file.is_symlink() or not file.is_file():
        return "not a regular file"
    return None if sha256_of(file) == sha256 else f"differs from {sums}"


def _files(folder, sums, apart=()):
    """Everything in a folder but its folders, its checksums and what stands apart, by relative name."""
    entries = [entry for entry in folder.iterdir() if _BESIDE.sub("", entry.name) not in apart]
    everything = [file for entry in entries for file in (entry, *(entry.rglob("*") if entry.is_dir() else ()))]
    files = [file for file in everything if file.is_symlink() or not file.is_dir()]
    names = {file.relative_to(folder).as_posix(): file for file in files}
    return {name: file for name, file in names.items() if name != sums}


def _text(listed):
    return "".join(f"{listed[name]}  {name}\n" for name in sorted(listed))


def fingerprint(model: Any, preprocessing: Any = None) -> str:
    """The fingerprint of a model: embeddings, indexes, exports and servers carry it, to refuse those of another model.

    It is the sha256 of what lies between the inputs and the outputs of the model: the kinds of its layers and how they
    are connected, their settings, and their weights in order. It stays the same if the model is compiled, saved,
    loaded, exported, renamed, frozen, moved to another backend, or merged with its LoRA. It changes with every weight:
    by training, quantization or another precision. Layers of a loss, the optimizer, initializers and what layers of
    Keras use in training alone (`rate`, `momentum`) do not count. Custom layers count by the name of their class and
    their `get_config`; a lambda function by its compiled code, which another version of Python may write in another
    way; any other function by its name.

    Example: a copy has the same.

        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
        >>> before, copy = tfdml.models.fingerprint(model), keras.models.clone_model(model)
        >>> copy.set_weights(model.get_weights())
        >>> len(before), tfdml.models.fingerprint(copy) == before
        (64, True)

    Args:
        model: a Keras model; or anything with an attribute `fingerprint`, such as a model of `tfdml.export.load`,
            the result of `read_embeddings` or an index, whose own one is taken.
        preprocessing: a `tfdml.datasets.Preprocessing` that reads the images of the model; None or another function: it
            is not stated, and compared with no other one.

    Returns:
        64 hexadecimal digits, followed by "/" and 16 digits of the preprocessing if there is one.
    """
    stated = getattr(model, "fingerprint", None)
    expected = "a Keras model, or an attribute fingerprint that is a text"
    is_known = isinstance(stated, str) or (stated is None and hasattr(model, "weights"))
    require(is_known, f"a model of type {type(model).__name__} without a fingerprint", expected)
    text = stated or _digest_of_model(model)
    digest = getattr(getattr(preprocessing, "__self__", preprocessing), "fingerprint", None)  # also of its method
    return text if digest is None else f"{_parts_of(text)[0]}/{digest()}"


def as_fingerprint(model: Any) -> str | None:
    """The fingerprint that `model=` states, of a model, embeddings or an index; a text is one, and None is unknown."""
    if isinstance(model, str):
        require(bool(model.strip()), f"model={model!r}", "a fingerprint, or another text that names the model")
        return model
    is_unknown = model is None or getattr(model, "fingerprint", "") is None
    return None if is_unknown else fingerprint(model)


def stated_model(model: Any, vectors: Any) -> Any:
    """The model that an argument states; if it is None, the fingerprint of vectors that know it, else None."""
    stated = getattr(vectors, "fingerprint", None)
    return stated if model is None and isinstance(stated, str) else model


def require_same_model(items: str, model: Any, owner: str, expected: str | None, *, other_model: bool = False) -> None:
    """Raise a ValueError if two models differ, or two preprocessings of one model.

    What one side does not state is not compared. `model` made `items`, such as "queries", or is its fingerprint;
    `expected` is the fingerprint of the model of their `owner`, such as "the index".
    """
    received = None if other_model or expected is None else as_fingerprint(model)
    if received is None or expected is None or is_same_model(received, expected):
        return
    (own_model, pixels), (expected_model, expected_pixels) = _parts_of(received), _parts_of(expected)
    is_same = own_model == expected_model
    names = (pixels, expected_pixels) if is_same else (own_model, expected_model)
    kind = "preprocessing" if is_same else "model"
    raise ValueError(
        f"Received {items} of {kind} {names[0][:12]} (fingerprint {received}), expected those of {kind} "
        f"{names[1][:12]}, as of {owner} (fingerprint {expected}). Embed them again with one model (tfdml migrate), "
        "upgrade the index (tfdml.search.upgrade), or pass other_model=True (--other-model) if both are compatible."
    )


def is_same_model(one: str, other: str) -> bool:
    """Whether two fingerprints are of one model, and of one preprocessing if both state theirs."""
    (one_model, one_pixels), (other_model, other_pixels) = _parts_of(one), _parts_of(other)
    return one_model == other_model and (None in (one_pixels, other_pixels) or one_pixels == other_pixels)


def _parts_of(text):
    """The fingerprint of a model, and that of its preprocessing or None."""
    match = _WITH_PREPROCESSING.fullmatch(text)
    return (match[1], match[2]) if match else (text, None)


def _digest_of_model(model):
    from tfdml._core.layer_digests import digest_of_model  # needs Keras

    require(getattr(model, "built", True), f"the model {model.name!r} without weights yet", "one that is built")
    return digest_of_model(model)
