"""The body of a request as an object: files and images are cut out of its text before the rest is read as JSON.

As lists of Python, numbers take up to thirty times the memory of their text, and texts as numbers far more. An image is
therefore cut out only if all of it are numbers in lists of the right lengths, and what is left has to be short.
"""

import json
import re
from functools import lru_cache
from typing import Any

import numpy as np

from tfdml.serving.limits import Limits, RefusedError

_SPACE = rb"[ \t\n\r]*+"
_NUMBER = rb"-?+(?:0|[1-9]\d{0,15}+)(?:\.\d{1,20}+)?+(?:[eE][+-]?+\d{1,2}+)?+"
_FILE = rb'"b64"' + _SPACE + b":" + _SPACE + rb'"([^"]*+)"'
_NO_BRACKETS = bytes.maketrans(b"[]", b"  ")


def read_object(body: bytes, limits: Limits, shape: tuple[int, int, int] | None = None) -> dict[str, Any]:
    """The JSON object of a request.

    Args:
        body: its text, in UTF-8.
        limits: those of the server.
        shape: height, width and channels of the images that are cut out; None: only files are.

    Returns:
        the object. The value of each `b64` is its text as bytes. An image is a NumPy array of `shape`, uint8 if its
        numbers are whole and between 0 and 255, else float32.

    Raises:
        RefusedError: no JSON object, a name twice in an object, NaN or Infinity, or beyond a limit.
    """
    _require_few_lists(body, limits, shape)
    parts: list[Any] = []
    text = _pattern(shape).sub(lambda match: _cut(match, parts, shape, limits), body)
    _require_short(text, limits)
    return _parsed(text, parts)


def _require_few_lists(body, limits, shape):
    """Lists that nothing could mean are refused before they are searched for images: that takes ten times as long."""
    height, width, _ = shape or (0, 0, 0)
    most = limits.max_values + limits.max_images * (1 + height + height * width)
    count = body.count(b"[")
    if count > most:
        raise RefusedError(413, f"Received {count} lists, expected at most {most}. Send fewer images, or files.")


def _cut(match, parts, shape, limits):
    """Keeps a file or an image, and returns what takes its place: NaN, which JSON does not have."""
    if len(parts) == limits.max_images:
        raise RefusedError(
            413, f"Received more than {limits.max_images} images, expected at most that many. Send several requests."
        )
    is_file = match[1] is not None
    parts.append(match[1] if is_file else _image(match[0], shape))
    return b'"b64":NaN' if is_file else b"NaN"


def _image(text, shape):
    numbers = np.fromstring(text.translate(_NO_BRACKETS), np.float64, sep=",").reshape(shape)
    whole = re.search(rb"[.eE]", text) is None
    with np.errstate(over="ignore"):
        return numbers.astype(np.uint8 if whole and numbers.min() >= 0 and numbers.max() <= 255 else np.float32)


def _require_short(text, limits):
    values = sum(map(text.count, (b"[", b"{", b",", b":")))
    if len(text) > limits.max_text or values > limits.max_values:
        raise RefusedError(
            413,
            f"Received {len(text)} bytes with {values} values beside files and images of the model's shape, expected "
            f"at most {limits.max_text} with {limits.max_values}. Send images of that shape, and files as base64.",
        )


def _parsed(text, parts):
    rest = iter(parts)
    try:
        found = json.loads(text.decode(), parse_constant=lambda name: _next(rest, name), object_pairs_hook=_as_object)
    except (RecursionError, ValueError) as error:
        reason = getattr(error, "msg", error)
        raise RefusedError(400, f"Received a body that is not JSON ({reason}), expected a JSON object.") from error
    if not isinstance(found, dict) or next(rest, None) is not None:
        kind = f"JSON of type {type(found).__name__}" if not isinstance(found, dict) else "an image inside a text"
        raise RefusedError(400, f"Received {kind}, expected an object.")
    return found


def _next(rest, name):
    found = next(rest, None) if name == "NaN" else None
    if found is None:
        raise RefusedError(400, "Received NaN or Infinity, which JSON does not have, expected numbers.")
    return found


def _as_object(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedError(400, "Received an object with a name twice, expected each name once.")
    return found


@lru_cache
def _pattern(shape):
    """What is cut out. It matches in linear time: no part of it gives back what it has taken."""
    if shape is None:
        return re.compile(_FILE)
    image = _NUMBER
    for length in reversed(shape):
        image = _list_of(image, length)
    return re.compile(_FILE + b"|" + image)


def _list_of(item, length):
    return rb"\[" + _SPACE + item + _SPACE + b"(?:," + _SPACE + item + _SPACE + b"){%d}+" % (length - 1) + rb"\]"
