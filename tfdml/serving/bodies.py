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
        limits: the limits of the server.
        shape: height, width and channels of the images that are cut out; None to cut out files only.

    Returns:
        The object. The value of each `b64` is its text as bytes. An image is a NumPy array of `shape`, uint8 if its
        numbers are whole and between 0 and 255, else float32.

    Raises:
        RefusedError: no JSON object, a name twice in an object, NaN or Infinity, or beyond a limit.
    """
    _require_few_lists(body, limits, shape)
    images: list[Any] = []
    text = _pattern(shape).sub(lambda match: _cut(match, images, shape, limits), body)
    _require_short(text, limits)
    return _parsed(text, images)


def _require_few_lists(body, limits, shape):
    """Refuse more lists than a valid request can have, before the search for images, which takes ten times as long."""
    height, width, _ = shape or (0, 0, 0)
    max_lists = limits.max_values + limits.max_images * (1 + height + height * width)
    num_lists = body.count(b"[")
    if num_lists > max_lists:
        received = f"Received {num_lists} lists, expected at most {max_lists}"
        raise RefusedError(413, f"{received}. Send fewer images, or files.")


def _cut(match, images, shape, limits):
    """Append a file or an image to `images`, and return NaN in its place, which valid JSON does not have."""
    if len(images) == limits.max_images:
        raise RefusedError(
            413, f"Received more than {limits.max_images} images, expected at most that many. Send several requests."
        )
    is_file = match[1] is not None
    images.append(match[1] if is_file else _image(match[0], shape))
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


def _parsed(text, images):
    images = iter(images)
    try:
        value = json.loads(text.decode(), parse_constant=lambda name: _next(images, name), object_pairs_hook=_as_object)
    except (RecursionError, ValueError) as error:
        reason = getattr(error, "msg", error)
        raise RefusedError(400, f"Received a body that is not JSON ({reason}), expected a JSON object.") from error
    if not isinstance(value, dict) or next(images, None) is not None:
        kind = f"JSON of type {type(value).__name__}" if not isinstance(value, dict) else "an image inside a text"
        raise RefusedError(400, f"Received {kind}, expected an object.")
    return value


def _next(images, name):
    image = next(images, None) if name == "NaN" else None
    if image is None:
        raise RefusedError(400, "Received NaN or Infinity, which JSON does not have, expected numbers.")
    return image


def _as_object(pairs):
    values = dict(pairs)
    if len(values) < len(pairs):
        raise RefusedError(400, "Received an object with a name twice, expected each name once.")
    return values


@lru_cache
def _pattern(shape):
    """Files, and images of a shape. Possessive quantifiers never backtrack, so that matching takes linear time."""
    if shape is None:
        return re.compile(_FILE)
    image = _NUMBER
    for length in reversed(shape):
        image = _list_of(image, length)
    return re.compile(_FILE + b"|" + image)


def _list_of(item, length):
    return rb"\[" + _SPACE + item + _SPACE + b"(?:," + _SPACE + item + _SPACE + b"){%d}+" % (length - 1) + rb"\]"
