"""Requests and answers in the REST form of TensorFlow Serving, and embeddings in the form of language models.

A request of another form is a `RefusedError`.

Source: TensorFlow Serving, RESTful API, https://www.tensorflow.org/tfx/serving/api_rest.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Raw

from tfdml.serving.bodies import (
    Boxed,
    Plain,
    is_whole,
    kind_of,
    read_base64,
    read_json,
    read_object,
    read_pixels,
    read_rows,
    with_box,
)
from tfdml.serving.embedder import heat_pictures
from tfdml.serving.limits import Limits, RefusedError
from tfdml.serving.signatures import FILES, INPUT, PIXELS, Signature

_K = 10
_ITEMS = 12  # random items
_MAX_TEXT = 1_000  # characters of a query in words
_NOTHING = Raw(b"")
_DIGITS = re.compile("[0-9]{1,19}")
_DATA_URL = re.compile(rb'"data:image\\?/[a-z0-9.+-]{1,40};base64,')  # JSON may have a backslash before a slash
_FORMS = {"instances": "predictions", "inputs": "outputs"}
_TYPES = {"string": "DT_STRING", "uint8": "DT_UINT8", "float32": "DT_FLOAT", "float16": "DT_HALF", "int64": "DT_INT64"}


def read_predict(
    body: bytes, signatures: dict[str, Signature], shape: tuple[int, int, int], limits: Limits
) -> tuple[str, str, list[bytes | Boxed | np.ndarray]]:
    """Read the JSON of a `:predict` request.

    Returns the name of the results, "predictions" or "outputs"; the name of the signature; and one image per row: the
    content of a file, alone or with a box, or pixels of `shape`, height, width and channels.
    """
    request = read_object(body)
    signature = _plain(request["signature_name"]) if "signature_name" in request else PIXELS
    is_valid = isinstance(signature, str) and signature in signatures
    named = repr(signature[:40]) if isinstance(signature, str) else "another value"
    _require(is_valid, f"signature_name={named}", " or ".join(map(repr, signatures)))
    form, rows = _rows_of(request)
    dtype = signatures[signature].dtype
    read = read_file if dtype == "string" else _pixel_reader(shape, dtype)
    return _FORMS[form], str(signature), read_images(rows, read, limits)


def read_search(
    body: bytes, limits: Limits, max_neighbors: int | None = None
) -> tuple[list[bytes | Boxed | str | tuple[str, Any]], int, str]:
    """Read the JSON of a `:search` request, with k up to `max_neighbors`, or up to the limit.

        {"instances": [{"b64": "...", "box": [8, 0, 72, 40]}, {"id": 17}], "k": 10, "where": {"label": ["cat", "dog"]}}

    Returns queries, contents of files, alone or with a box, items of the index as `("id", id)` or `("row", row)`, and
    the texts of `{"text": "a red kangaroo"}`; k; and the filter.
    """
    request, largest = read_object(body), max_neighbors or limits.max_neighbors
    k = _plain(request["k"]) if "k" in request else min(_K, largest)
    _require(type(k) is int and 1 <= k <= largest, "another k", f"a whole number from 1 to {largest}")
    where = _read_where(request["where"], limits) if "where" in request else {}
    queries = read_images(request.get("instances", _NOTHING), _read_query, limits)
    return queries, k, json.dumps(where, sort_keys=True)


def read_pair(body: bytes, limits: Limits) -> list[bytes | Boxed | tuple[str, Any]]:
    """Read the JSON of an `:explain` request: `instances` are two queries of a `:search`, files or items."""
    pair = read_images(read_object(body).get("instances", _NOTHING), _read_query, limits)
    _require(len(pair) == 2 and str not in map(type, pair), f"{len(pair)} instances", "two, files or items")
    return pair


def explanation(images: list[np.ndarray], maps: Sequence[np.ndarray]) -> bytes:
    """The answer of `:explain`: maps of two images, their sum, and the images under them as data URLs."""
    _require(np.isfinite(maps).all(), "images whose similarity is not finite", "finite numbers")
    urls = [f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in heat_pictures(images, maps)]
    return as_json({"cosine": maps[0].sum(dtype=np.float64), "maps": maps, "pictures": urls})


def read_embeddings(body: bytes, name: str, dim: int, limits: Limits) -> tuple[list[bytes | Boxed], bool]:
    """Read the JSON of `/v1/embeddings`: `input` is one image or several, as data URLs; nothing is fetched.

        {"model": "animals", "input": ["data:image/png;base64,..."], "encoding_format": "base64"}

    `boxes` has a box, or null for the whole image, for each of a list of images. Returns contents of files, alone or
    with their boxes, and whether the embeddings are wanted in base64. Other names are ignored.
    """
    request = read_object(body)
    for key, value in (("model", name), ("dimensions", dim)):
        _require(key not in request or _plain(request[key]) == value, f"another {key}", repr(value))
    form = _plain(request["encoding_format"]) if "encoding_format" in request else "float"
    _require(form in ("float", "base64"), "another encoding_format", "'float' or 'base64'")
    rows = request.get("input", _NOTHING)
    rows = Raw(b"[" + bytes(rows) + b"]") if kind_of(rows) == "a text" else rows
    files = read_images(rows, _read_data_url, limits)
    boxes = read_rows(request["boxes"], limits.max_images) if "boxes" in request else [None] * len(files)
    _require(len(boxes) == len(files), f"{len(boxes)} boxes", f"{len(files)}: a box, or null, for each image")
    boxed = [_numbered(number, with_box, *each) for number, each in enumerate(zip(files, boxes, strict=True))]
    return boxed, form == "base64"


def embeddings(name: str, vectors: list[np.ndarray], as_base64: bool) -> bytes:
    """The answer of `/v1/embeddings`: lists of numbers, or float32, lowest byte first, in base64."""
    values = [base64.b64encode(x.astype("<f4").tobytes()) if as_base64 else x for x in vectors]
    data = [{"object": "embedding", "index": row, "embedding": value} for row, value in enumerate(values)]
    return as_json({"object": "list", "data": data, "model": name, "usage": {"prompt_tokens": 0, "total_tokens": 0}})


def read_items(query: Mapping[str, str], limits: Limits) -> tuple[int, int | None]:
    """Read `?n=12&seed=7`: the number of items, 12 by default, and the seed, None for other items every time."""
    unknown = sorted(set(query) - {"n", "seed"})
    _require(not unknown and len(query) == len(set(query)), f"parameters {_listed(query)}", "n and seed, once each")
    n = _whole(query, "n", 1, limits.max_neighbors)
    seed = _whole(query, "seed", 0, 2**63 - 1)
    return min(_ITEMS, limits.max_neighbors) if n is None else n, seed


def as_json(value: Any) -> bytes:
    """JSON of results: arrays and tensors of text as lists."""
    return json.dumps(value, default=_as_list, allow_nan=False).encode()


def answer(form: str, rows: list[dict[str, Any]]) -> bytes:
    """The JSON of the outputs of each image: as "predictions" row by row, or as "outputs" by name."""
    names = list(rows[0])
    columns = {name: [row[name] for row in rows] for name in names}
    single = columns[names[0]] if len(names) == 1 else None  # an output alone has no name
    return as_json({form: single or (columns if form == "outputs" else rows)})


def read_images(rows: Raw, read: Callable[[Raw], Any], limits: Limits) -> list[Any]:
    """`read(row)` for a list of rows; a row that it refuses is named by its number."""
    return [_numbered(number, read, row) for number, row in enumerate(read_rows(rows, limits.max_images))]


def read_file(row: Raw) -> bytes | Boxed:
    """The content of a file: `{"b64": "..."}`, or `{"images": {"b64": "..."}}`, and a `box` beside `b64`."""
    row = _unnamed(row)
    values = read_object(row) if kind_of(row) == "an object" else {}
    text = values.get("b64", _NOTHING)
    _require(kind_of(text) == "a text", _shown(row), 'a file as {"b64": "..."}')
    return with_box(read_base64(text), values.get("box"))


def metadata(
    name: str, version: str, fingerprint: str | None, shape: tuple[int, int, int], signatures: dict[str, Signature]
) -> dict[str, Any]:
    """The answer of `/v1/models/NAME/metadata`, in which the fingerprint stands beside the signatures."""
    definitions = {key: _definition(signature, shape) for key, signature in signatures.items()}
    spec = {"name": name, "signature_name": "", "version": version}
    return {
        "model_spec": spec,
        "metadata": {"signature_def": {"signature_def": definitions}, "fingerprint": fingerprint},
    }


def status(version: str) -> dict[str, Any]:
    """The answer of `/v1/models/NAME`."""
    good = {"error_code": "OK", "error_message": ""}
    return {"model_version_status": [{"version": version, "state": "AVAILABLE", "status": good}]}


def _definition(signature, shape):
    inputs = {INPUT: _tensor(signature.dtype, () if signature.dtype == "string" else shape)}
    outputs = {name: _tensor(*output) for name, output in signature.outputs.items()}
    return {"inputs": inputs, "outputs": outputs, "method_name": "tensorflow/serving/predict"}


def _tensor(dtype, shape):
    dims = [{"size": str(size), "name": ""} for size in (-1, *shape)]
    return {"dtype": _TYPES[dtype], "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": ""}


def _rows_of(request):
    """`instances`, one row after the other, or `inputs`, by name."""
    forms = [name for name in _FORMS if name in request]
    _require(len(forms) == 1, f"an object with {_listed(request)}", "either instances or inputs")
    rows = request[forms[0]]
    return forms[0], _unnamed(rows) if forms == ["inputs"] else rows


def _pixel_reader(shape, dtype):
    kind = "integers from 0 to 255" if dtype == "uint8" else "finite numbers"
    expected = f"{kind} of shape {shape}. Files need another signature_name, such as {FILES!r}"

    def read(row):
        row = _unnamed(row)
        numbers = read_pixels(row, shape) if kind_of(row) == "a list" else None
        if numbers is None:
            raise RefusedError(400, f"Received {_shown(row)}, expected {expected}.")
        with np.errstate(over="ignore"):
            are_bytes = is_whole(row) and numbers.min() >= 0 and numbers.max() <= 255
            pixels = numbers.astype(np.uint8 if are_bytes else np.float32)
        good = pixels.dtype == np.uint8 or (dtype != "uint8" and np.isfinite(pixels).all())
        _require(good, f"numbers from {numbers.min():g} to {numbers.max():g}", expected)
        return pixels.astype(dtype)

    return read


def _read_query(row):
    values = read_object(row) if kind_of(row) == "an object" else {}
    if "text" in values:
        return _read_text(values)
    item = [name for name in ("id", "row") if name in values]
    _require(not item or "box" not in values, f"a box beside {_listed(item)}", "a box in a file: an item has its own")
    _require(not item or len(values) == 1, _listed(values), "an id, a row or a file alone")
    return (item[0], _plain(values[item[0]])) if item else read_file(row)


def _read_text(values):
    text = _plain(values["text"])
    is_text = kind_of(values["text"]) == "a text" and 0 < len(text.strip()) <= _MAX_TEXT
    _require(is_text and len(values) == 1, _listed(values), f"a text alone, of 1 to {_MAX_TEXT:,} characters")
    return text


def _read_data_url(row):
    start = _DATA_URL.match(bytes(memoryview(row)[:100]))
    if start is None:
        raise RefusedError(400, f'Received {_shown(row)}, expected an image as "data:image/png;base64,...".')
    return read_base64(Raw(b'"' + memoryview(row)[start.end() :]))


def _read_where(where, limits):
    """The columns of a filter with their values."""
    if len(bytes(where)) > limits.max_filter:
        raise RefusedError(413, f"Received where of {len(bytes(where))} bytes, expected at most {limits.max_filter}.")
    _require(kind_of(where) == "an object", _shown(where), "where as an object of columns with their values")
    return {name: _read_values(name, values) for name, values in read_object(where).items()}


def _read_values(name, values):
    try:
        return read_json(values, Plain | list[Plain])
    except RefusedError as error:
        expected = "texts, numbers, booleans or null, or a list of them"
        raise RefusedError(400, f"Received where with {_listed([name])}, expected {expected}.") from error


def _unnamed(row):
    """The image of a row that names its input, or the row."""
    values = read_object(row) if kind_of(row) == "an object" else {}
    beside = [name for name in ("box", "boxes") if INPUT in values and name in values]
    _require(not beside, f"{_listed(beside)} beside {INPUT!r}", "'box' beside 'b64' of each image")
    return values.get(INPUT, row)


def _plain(text):
    """A text, a number, true, false or null; any other JSON stays text, which is no valid value of anything."""
    return text if kind_of(text) in ("an object", "a list") else read_json(text, Plain)


def _as_list(value):
    """JSON values of arrays, NumPy numbers and TensorFlow's bytes."""
    return value.decode() if isinstance(value, bytes) else value.tolist()


def _numbered(number, read, *values):
    try:
        return read(*values)
    except RefusedError as error:
        raise RefusedError(error.status, f"Image {number}: {error}") from error


def _whole(query, name, least, most):
    """A parameter that is a whole number, None where it is missing."""
    text = query.get(name)
    number = int(text) if text is not None and _DIGITS.fullmatch(text) else None
    is_valid = text is None or (number is not None and least <= number <= most)
    _require(is_valid, f"another {name}", f"a whole number from {least} to {most}")
    return number


def _require(condition, received, expected):
    if not condition:
        raise RefusedError(400, f"Received {received}, expected {expected}.")


def _shown(value):
    """A value of JSON in a few words, without any data of the request."""
    kind = kind_of(value)
    return f"an object with {_listed(read_object(value))}" if kind == "an object" else kind


def _listed(names):
    return ", ".join(repr(name[:40]) for name in list(names)[:8]) or "no names"
