"""The JSON of a request, read one level at a time: a value stays text until its type is known.

As lists and objects of Python, hostile JSON takes up to thirty times the memory of its text. JSON of another form is a
`RefusedError`.
"""

import binascii
import difflib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from tfdml.serving.limits import RefusedError

Plain = str | int | float | bool | None
Form = TypeVar("Form", bound=msgspec.Struct)
_MAX_NAMES = 1_000  # of an object
_MAX_REASON, _SHOWN, _SHOWN_NAMES = 200, 40, 8  # characters, characters of a name, names
_LIST = "a list of at least one image"
_BASE64 = re.compile(r"[A-Za-z0-9+/ \t\r\n]*+[= \t\r\n]*+")


class _Name:
    """Stands for a name of an object. Each is a key of its own, so that a name that comes twice is seen."""


def read_object(text: bytes | Raw) -> dict[str, Raw]:
    """The values of a JSON object by name, as text; each name may come once."""
    names: list[str] = []

    def add_name(_, name):
        names.append(name)
        require_request(len(names) <= _MAX_NAMES, f"an object of more than {_MAX_NAMES:,} names", "fewer", 413)
        return _Name()

    values = read_json(text, dict[_Name, Raw], dec_hook=add_name).values()
    require_request(len(set(names)) == len(names), "an object with a name twice", "each name once")
    return dict(zip(names, values, strict=True))


def read_form(text: bytes | Raw, form: type[Form]) -> Form:
    """A JSON object of known names, each at most once."""
    names, expected = list(read_object(text)), form.__struct_encode_fields__
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
    require_request(kind_of(text) == "a list", kind_of(text), _LIST)
    try:
        rows = msgspec.structs.astuple(msgspec.json.decode(text, type=_rows(most)))
    except msgspec.ValidationError as error:
        reason = f"Received more than {most} images, expected at most that many. Send several requests."
        raise RefusedError(413, reason) from error
    require_request(rows[0], "no images", _LIST)
    return [row for row in rows if row]


def read_base64(text: Raw) -> bytes:
    """The content of a file in base64; line ends are skipped, and padding may lack."""
    require_request(kind_of(text) == "a text", f"b64 that is {kind_of(text)}", "the content of a file in base64")
    try:
        return binascii.a2b_base64(memoryview(text)[1:-1], strict_mode=True)  # no copy of the text
    except binascii.Error:
        plain = read_json(text, str) + "=="
    try:
        return binascii.a2b_base64(plain, strict_mode=not _BASE64.fullmatch(plain))
    except ValueError as error:  # binascii.Error, or letters beyond ASCII
        reason = f"Received b64 that is not base64 ({error}), expected the content of a file."
        raise RefusedError(400, reason) from error


def require_request(condition: Any, received: str, expected: str, status: int = 400) -> None:
    """Refuse a request unless a condition holds."""
    if not condition:
        raise RefusedError(status, f"Received {received}, expected {expected}.")


def shown(value: Raw) -> str:
    """A value of JSON in a few words: of its data, no more than some names."""
    kind = kind_of(value)
    return f"an object with {listed(read_object(value))}" if kind == "an object" else kind


def kind_of(text: Raw) -> str:
    """A value of JSON in a few words, without any data of the request."""
    kinds = {b"{": "an object", b"[": "a list", b'"': "a text", b"n": "null", b"t": "true", b"f": "false"}
    return kinds.get(bytes(memoryview(text)[:1]), "a number" if text else "nothing")


@lru_cache
def _rows(most):
    """The type of a list of at most this many values. msgspec makes all items of a list before it counts them."""
    fields = [(f"row_{number}", Raw, Raw(b"")) for number in range(most)]
    return msgspec.defstruct("Rows", fields, array_like=True, forbid_unknown_fields=True)
