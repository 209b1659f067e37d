"""Requests and answers in the REST form of TensorFlow Serving.

Source: TensorFlow Serving, RESTful API, https://www.tensorflow.org/tfx/serving/api_rest.
"""

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tfdml.serving.limits import Limits, RefusedError

PIXELS, FILES = "serving_default", "serve_bytes"
_INPUT, _OUTPUT = "images", "embedding"
_K = 10
_FORMS = {"instances": "predictions", "inputs": "outputs"}


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a request.

    Raises:
        RefusedError: another form.
    """
    try:
        found = json.loads(body)
    except (RecursionError, ValueError) as error:
        raise RefusedError(400, f"Received a body that is not JSON ({error}), expected a JSON object.") from error
    _require(isinstance(found, dict), f"JSON of type {type(found).__name__}", "an object")
    return found


def read_predict(body: bytes, shape: tuple[int, int, int], limits: Limits) -> tuple[str, list[bytes | np.ndarray]]:
    """What a `:predict` request asks for.

    Args:
        body: its JSON.
        shape: height, width and channels of the model's images.
        limits: those of the server.

    Returns:
        the name of the results, "predictions" or "outputs"; and one image per row: a file's content, or uint8 pixels
        of `shape`.

    Raises:
        RefusedError: a request of another form, or beyond a limit.
    """
    request = read_object(body)
    signature = request.get("signature_name", PIXELS)
    _require(signature in (PIXELS, FILES), f"signature_name={signature!r}", f"{PIXELS!r} or {FILES!r}")
    name, rows = _rows_of(request)
    read = read_file if signature == FILES else _pixel_reader(shape)
    return _FORMS[name], read_images(rows, read, limits)


def read_search(body: bytes, limits: Limits) -> tuple[list[bytes | tuple[str, Any]], int, str]:
    """What a `:search` request asks for.

        {"instances": [{"b64": "..."}, {"id": 17}], "k": 10, "where": {"label": ["cat", "dog"]}}

    Args:
        body: its JSON.
        limits: those of the server.

    Returns:
        the queries: the contents of files, and items of the index as `("id", id)` or `("row", row)`; k; and the filter
        as JSON text.

    Raises:
        RefusedError: a request of another form, or beyond a limit.
    """
    request = read_object(body)
    k, where = request.get("k", _K), request.get("where", {})
    whole = type(k) is int and 1 <= k <= limits.max_neighbors
    _require(whole, "another k", f"a whole number from 1 to {limits.max_neighbors}")
    _require(isinstance(where, dict), _shown(where), "where as an object of columns with their values")
    return read_images(request.get("instances"), _read_query, limits), k, json.dumps(where, sort_keys=True)


def read_images(rows: Any, read: Callable[[Any], Any], limits: Limits) -> list[Any]:
    """`read(row)` for a list of rows.

    Raises:
        RefusedError: no list, no row or too many, or a row that `read` refuses, with its place.
    """
    _require(isinstance(rows, list) and len(rows) > 0, _shown(rows), "a list of at least one image")
    if len(rows) > limits.max_images:
        raise RefusedError(
            413, f"Received {len(rows)} images, expected at most {limits.max_images}. Send several requests."
        )
    return [_at_place(place, read, row) for place, row in enumerate(rows)]


def read_file(row: Any) -> bytes:
    """The content of a file: `{"b64": "..."}`, or `{"images": {"b64": "..."}}`.

    Raises:
        RefusedError: another form.
    """
    row = row.get(_INPUT, row) if isinstance(row, dict) else row
    text: Any = row.get("b64") if isinstance(row, dict) else None
    _require(isinstance(text, str), _shown(row), 'a file as {"b64": "..."}')
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RefusedError(
            400, f"Received b64 that is not base64 ({error}), expected the content of a file."
        ) from error


def metadata(name: str, version: str, shape: tuple[int, int, int], dim: int) -> dict[str, Any]:
    """The answer of `/v1/models/NAME/metadata`."""
    outputs = {_OUTPUT: _tensor("DT_FLOAT", (-1, dim))}
    inputs = {PIXELS: _tensor("DT_UINT8", (-1, *shape)), FILES: _tensor("DT_STRING", (-1,))}
    signatures = {
        signature: {"inputs": {_INPUT: tensor}, "outputs": outputs, "method_name": "tensorflow/serving/predict"}
        for signature, tensor in inputs.items()
    }
    spec = {"name": name, "signature_name": "", "version": version}
    return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": signatures}}}


def status(version: str) -> dict[str, Any]:
    """The answer of `/v1/models/NAME`."""
    good = {"error_code": "OK", "error_message": ""}
    return {"model_version_status": [{"version": version, "state": "AVAILABLE", "status": good}]}


def _tensor(dtype, shape):
    dims = [{"size": str(size), "name": ""} for size in shape]
    return {"dtype": dtype, "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": ""}


def _rows_of(request):
    """`instances`, one row after the other, or `inputs`, by name."""
    given = [name for name in _FORMS if name in request]
    _require(len(given) == 1, f"an object with {_listed(request)}", "either instances or inputs")
    rows = request[given[0]]
    named = given == ["inputs"] and isinstance(rows, dict)
    return given[0], rows.get(_INPUT) if named else rows


def _pixel_reader(shape):
    def read(row):
        row = row.get(_INPUT, row) if isinstance(row, dict) else row
        expected = f"integers from 0 to 255 of shape {shape}. Files need signature_name={FILES!r}"
        try:
            pixels = np.array(row)
        except ValueError as error:  # rows of different lengths
            raise RefusedError(400, f"Received {_shown(row)}, expected {expected}.") from error
        right = pixels.dtype.kind in "iu" and pixels.shape == shape
        _require(right, f"{pixels.dtype} of shape {pixels.shape}", expected)
        _require(pixels.min() >= 0 and pixels.max() <= 255, f"values up to {np.abs(pixels).max()}", expected)
        return pixels.astype(np.uint8)

    return read


def _read_query(row):
    item = [name for name in ("id", "row") if isinstance(row, dict) and name in row]
    return (item[0], row[item[0]]) if item else read_file(row)


def _at_place(place, read, row):
    try:
        return read(row)
    except RefusedError as error:
        raise RefusedError(error.status, f"Image {place}: {error}") from error


def _require(condition, received, expected):
    if not condition:
        raise RefusedError(400, f"Received {received}, expected {expected}.")


def _shown(value):
    """A value of JSON in a few words: none of a request's data is repeated."""
    if isinstance(value, dict):
        return f"an object with {_listed(value)}"
    return f"a list of {len(value)}" if isinstance(value, list) else f"a value of type {type(value).__name__}"


def _listed(names):
    return ", ".join(repr(name[:40]) for name in list(names)[:8]) or "no names"
