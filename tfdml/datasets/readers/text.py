"""Text from outside: names of files, and lists, whose bytes may not be UTF-8.

Python keeps such bytes of a file name as lone surrogates, which TensorFlow, JSON and Parquet refuse. Sets hold names in
UTF-8 only, and readers list other names in `skipped`.
"""

import os
import pathlib
from collections.abc import Iterable


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


def require_utf8(name: str, texts: Iterable[str]) -> None:
    """Raise a ValueError that shows the first text that is not UTF-8; `name` is the name of the argument."""
    texts = list(map(str, texts))
    if not is_utf8("".join(texts)):
        text = next(text for text in texts if not is_utf8(text))
        raise ValueError(f"Received {name} with {text!r}, expected names in UTF-8. Rename it, or leave it out.")


def read_utf8(path: str | os.PathLike[str]) -> str:
    """The content of a text file.

    Raises:
        OSError: the file cannot be read.
        ValueError: a byte that is not UTF-8; the error names the file and the line.
    """
    content = pathlib.Path(path).read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        received = f"Received line {line} of {os.fspath(path)!r} with the byte 0x{content[error.start]:02x}"
        raise ValueError(f"{received}, expected a text file in UTF-8. Save it in this encoding.") from error
