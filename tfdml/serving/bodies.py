"""The JSON of a request, read one level at a time: a value stays text until its type is known.

As lists and objects of Python, hostile JSON takes up to thirty times the memory of its text. JSON of another form is a
`RefusedError`.
"""

import binascii
import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from tfdml.serving.limits import RefusedError

Plain = str | int | float | bool | None
Form = TypeVar("Form", bound=msgspec.Struct)
_MAX_NAMES = 1_000  # of an object
_MAX_REASON, _SHOWN, _SHOWN_NAMES = 200, 40, 8  # characters, characters of a name, names
_BASE64 = re.compile(r"[A-Za-z0-9+/ \t\r\n]*+[= \t\r\n]*+")


@dataclass(frozen=True, eq=False)
class Boxed:
    """The content of an image file, and the box that a client asks for, in pixels of the upright image."""

    content: bytes
    box: tuple[float, ...]


class _Name:
    """Stands for a name of an object. Each is a key of its own, so that a name that comes twice is seen."""


def read_object(text: bytes | Raw) -> dict[str, Raw]:
    """The values of a JSON object by name, as text; each name may come once."""
    names: list[str] = []

    def add_name(_, name):
        names.append(name)
        if len(names) > _MAX_NAMES:
            raise RefusedError(413, f"Received an object of more than {_MAX_NAMES:,} names, expected fewer.")
        return _Name()

    values = read_json(text, dict[_Name, Raw], dec_hook=add_name).values()
    if len(set(names)) < len(names):
        raise RefusedError(400, "Received an object with a name twice, expected each name once.")
    return dict(zip(names, values, strict=True))


def read_form(text: bytes | Raw, form: type[Form]) -> Form:
    """A JSON object of known names, each at most once."""
    names, expected = list(read_object(text)), form.__struct_fields__
    if not set(names) <= set(expected):
        raise unknown(f"an object with {listed(names)}", names, expected)
    return read_json(text, form)


def unknown(received: str, names: Iterable[str], expected: Iterable[str]) -> RefusedError:
    """The refusal of names, with the known ones, and those that are nearly the same as one of the names."""
    expected, others = list(expected), [name[:_SHOWN] for name in names if name not in expected][:_SHOWN_NAMES]
    near = dict.fromkeys(match for name in others for match in difflib.get_close_matches(name, expected, n=1))
    hint = f" Did you mean {listed(near)}?" if near else ""
    return RefusedError(400, f"Received {received}, expected {' or '.join(map(repr, expected))}.{hint}")


def listed(names: Iterable[str]) -> str:
    """Names that a client sent, cut where they are long or many."""
    return ", ".join(repr(name[:_SHOWN]) for name in list(names)[:_SHOWN_NAMES]) or "no names"


def read_json(text: bytes | Raw, kind: Any, **options: Any) -> Any:
    """JSON of a type."""
    try:
        return msgspec.json.decode(text, type=kind, **options)
    except msgspec.ValidationError as error:
        raise RefusedError(400, f"Received JSON of another form: {str(error)[:_MAX_REASON]}.") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RefusedError(400, f"Received a body that is not JSON ({error}), expected a JSON object.") from error


def read_rows(text: Raw, most: int) -> list[Raw]:
    """The items of a JSON list, as text: one at least, and at most `most`."""
    if kind_of(text) != "a list":
        raise RefusedError(400, f"Received {kind_of(text)}, expected a list of at least one image.")
    try:
        rows = msgspec.structs.astuple(msgspec.json.decode(text, type=_rows(most)))
    except msgspec.ValidationError as error:
        reason = f"Received more than {most} images, expected at most that many. Send several requests."
        raise RefusedError(413, reason) from error
    if not rows[0]:
        raise RefusedError(400, "Received no images, expected a list of at least one image.")
    return [row for row in rows if row]


def read_base64(text: Raw) -> bytes:
    """The content of a file in base64; line ends are skipped, and padding may lack."""
    try:
        return binascii.a2b_base64(memoryview(text)[1:-1], strict_mode=True)  # no copy of the text
    except binascii.Error as error:
        plain = read_json(text, str)
        if not _BASE64.fullmatch(plain):
            raise _not_base64(error) from error
    plain += "=="
    try:
        return binascii.a2b_base64(plain)
    except binascii.Error as error:
        raise _not_base64(error) from error


def _not_base64(error):
    return RefusedError(400, f"Received b64 that is not base64 ({error}), expected the content of a file.")


def kind_of(text: Raw) -> str:
    """A value of JSON in a few words, without any data of the request."""
    kinds = {b"{": "an object", b"[": "a list", b'"': "a text", b"n": "null", b"t": "true", b"f": "false"}
    return kinds.get(bytes(memoryview(text)[:1]), "a number" if text else "nothing")


@lru_cache
def _rows(most):
    """The type of a list of at most this many values. msgspec makes all items of a list before it counts them."""
    fields = [(f"row_{number}", Raw, Raw(b"")) for number in range(most)]
    return msgspec.defstruct("Rows", fields, array_like=True, forbid_unknown_fields=True)
