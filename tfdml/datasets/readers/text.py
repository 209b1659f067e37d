"""Text from outside: names of files, and lists, whose bytes may not be UTF-8.

Python keeps such bytes of a file name as lone surrogates; TensorFlow, JSON and Parquet refuse these. Sets hold names in
UTF-8 only, and readers list other names in `skipped`.
"""

import os
import pathlib
import unicodedata
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tfdml._core.checks import require

MOST_CHARACTERS = 4096  # of a name: NumPy gives every name of an array the room of the longest one
_MOST_BYTES, _MOST_LINES = 2**25, 10**6  # of a list; the longest of a public set has 20 MB and half a million lines
_DIGITS = 18
_ROOM = 2**26  # characters that an array of names may take, or
_TIMES = 16  # times as many as its names have
_EXACT = 2**53  # float64 has every whole number below it


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    r"""A text with escapes such as `\udce9` in place of bytes that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def class_name(text: str) -> str:
    """The text of a class, a split or a group in one spelling: NFC of Unicode, without blanks at its ends."""
    require_short("a name", text)
    return unicodedata.normalize("NFC", text).strip() or text


def class_name_of(value: Any, option: str) -> str:
    """The `class_name` of a cell: text, a whole number, or a whole float below 2**53, where floats are exact."""
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, float):
        return class_name(str(value))
    require(value.is_integer(), f"{option} {value!r}", "text or a whole number")
    expected = "whole numbers that were not converted to float64, which merges them from 2**53 on. Read them as text"
    require(abs(value) < _EXACT, f"{option} {value!r}", expected)
    return str(int(value))


def numbered_classes(labels: list[Any], names: Sequence[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels of a library as indices into names: its own numbers and names, or sorted text and numbers.

    None is -1, no label.
    """
    kinds = {type(label).__name__ for label in labels} - {"int", "str", "bytes", "NoneType"}
    require(not kinds, f"labels of type {', '.join(kinds)}", "classes, text or whole numbers. Name another label=")
    if names is not None:
        return np.array([-1 if label is None else label for label in labels], np.int64), tuple(names)
    texts = [label.decode("utf-8", "surrogateescape") if isinstance(label, bytes) else label for label in labels]
    texts = [class_name(text) if isinstance(text, str) else text for text in texts]
    unique = np.unique([text for text in texts if text is not None]).tolist()
    number_of = {None: -1} | {text: number for number, text in enumerate(unique)}
    return np.array([number_of[text] for text in texts], np.int64), tuple(map(str, unique))


def require_short(what: str, text: str) -> None:
    """Raise a ValueError unless a name has at most 4,096 characters."""
    received = f"{what} of {len(text):,} characters ({text[:40]!r}...)"
    require(len(text) <= MOST_CHARACTERS, received, f"at most {MOST_CHARACTERS:,}. Shorten it, or leave it out")


def as_names(texts: Sequence[str]) -> np.ndarray:
    """Names as an array `(n,)`; each takes the room of the longest; one that is far longer is an error."""
    longest = max(texts, key=len, default="")
    require_short("a name", longest)
    received = f"{len(texts):,} names, one of them of {len(longest):,} characters ({longest[:40]!r}...)"
    has_room = len(texts) * len(longest) <= max(_ROOM, _TIMES * sum(map(len, texts)))
    require(has_room, received, "names of similar length. Shorten it, or leave it out")
    return np.array(texts, str)


def numbered(names: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels `(n,)` int64 as indices into the different names, and these, sorted."""
    different = sorted(set(names))
    number_of = {name: number for number, name in enumerate(different)}
    return np.array([number_of[name] for name in names], np.int64), tuple(different)


def warn_of_similar(names: Iterable[str], *, stacklevel: int) -> None:
    """Warn once of names of classes that differ in upper and lower case only; single letters may."""
    spellings = defaultdict(list)
    for name in dict.fromkeys(names):
        spellings[name.casefold()].append(name)
    similar = [" and ".join(map(repr, same)) for same in spellings.values() if len(same) > 1 and len(same[0]) > 1]
    if similar:
        warnings.warn(
            f"Received the classes {', '.join(similar[:5])}, which differ in upper and lower case only. "
            "Each is a class. Rename them if they are one.",
            stacklevel=stacklevel + 1,
        )


def require_utf8(name: str, texts: Iterable[str]) -> None:
    """Raise a ValueError that shows the first text that is not UTF-8; `name` is the name of the argument."""
    texts = list(map(str, texts))
    if not is_utf8("".join(texts)):
        text = next(text for text in texts if not is_utf8(text))
        raise ValueError(f"Received {name} with {text!r}, expected names in UTF-8. Rename it, or leave it out.")


def is_whole(word: str) -> bool:
    """Whether a word is a whole number from 0 that int64 holds."""
    return word.isdecimal() and len(word) <= _DIGITS


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a text file, see `read_utf8`; at most a million."""
    lines = read_utf8(path).splitlines()
    require(len(lines) <= _MOST_LINES, f"{os.fspath(path)!r} of {len(lines):,} lines", f"at most {_MOST_LINES:,}")
    return lines


def read_utf8(path: str | os.PathLike[str]) -> str:
    """The content of a text file of at most 32 MiB, without a byte order mark; an error names a line not in UTF-8."""
    size = os.path.getsize(path)
    require(size <= _MOST_BYTES, f"{os.fspath(path)!r} of {size:,} bytes", f"a list of at most {_MOST_BYTES:,}")
    content = pathlib.Path(path).read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        received = f"Received line {line} of {os.fspath(path)!r} with the byte 0x{content[error.start]:02x}"
        raise ValueError(f"{received}, expected a text file in UTF-8. Save it in this encoding.") from error
