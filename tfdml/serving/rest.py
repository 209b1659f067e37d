"""Requests and answers in the REST form of TensorFlow Serving, and embeddings in the form of language models.

A request of another form is a `RefusedError`.

Source: TensorFlow Serving, RESTful API, https://www.tensorflow.org/tfx/serving/api_rest.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Raw, UnsetType

from tfdml.serving.bodies import (
    Boxed,
    Plain,
    kind_of,
    listed,
    read_base64,
    read_form,
    read_json,
    read_object,
    read_rows,
    unknown,
)
from tfdml.serving.embedder import heat_pictures
from tfdml.serving.limits import Limits, RefusedError
from tfdml.serving.signatures import FILES, INPUT, Signature

Box = tuple[float, float, float, float]
_K = 10
_ITEMS = 12  # random items
_MAX_TEXT = 1_000  # characters of a query in words
_NOTHING = Raw(b"")
_DIGITS = re.compile("[0-9]{1,19}")
_DATA_URL = re.compile(rb'"data:image\\?/[a-z0-9.+-]{1,40};base64,')  # JSON may have a backslash before a slash
_ADDRESS = re.compile(r"\s*([a-z][a-z0-9+.-]*://|data:)", re.IGNORECASE)
_FORMS = {"instances": "predictions", "inputs": "outputs"}
_TYPES = {"string": "DT_STRING", "uint8": "DT_UINT8", "float32": "DT_FLOAT", "float16": "DT_HALF", "int64": "DT_INT64"}


class Predict(msgspec.Struct):
    """A `:predict` request: images row by row, or by the name of the input."""

    signature_name: str = FILES
    instances: Raw = _NOTHING
    inputs: Raw = _NOTHING


class Search(msgspec.Struct):
    """A `:search` request."""

    instances: Raw = _NOTHING
    k: int | UnsetType = UNSET
    where: Raw = Raw(b"{}")


class Explain(msgspec.Struct):
    """An `:explain` request."""

    instances: Raw = _NOTHING


class Embeddings(msgspec.Struct):
    """A `/v1/embeddings` request: images or texts, boxes of the images, and what all clients of this form may send."""

    input: Raw = _NOTHING
    boxes: Raw = _NOTHING
    model: str | None = None
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None


class Named(msgspec.Struct):
    """An image, or all of them, by the name of the input."""

    images: Raw


class FileQuery(msgspec.Struct):
    """The content of an image file in base64, and the box of what is searched in it."""

    b64: Raw
    box: Box | None = None

    def content(self) -> bytes | Boxed:
        """The decoded file."""
        _require(kind_of(self.b64) == "a text", f"b64 that is {kind_of(self.b64)}", "the content of a file in base64")
        return _boxed(read_base64(self.b64), self.box)


class IdQuery(msgspec.Struct):
    """An item by its id."""

    id: str | int

    def content(self) -> tuple[str, Any]:
        """Its kind and its id."""
        return "id", self.id


class RowQuery(msgspec.Struct):
    """An item by its row."""

    row: int

    def content(self) -> tuple[str, Any]:
        """Its kind and its row."""
        return "row", self.row


class TextQuery(msgspec.Struct):
    """A query in words."""

    text: str

    def content(self) -> str:
        """The text, which is neither blank nor long."""
        good = self.text.strip() and len(self.text) <= _MAX_TEXT
        _require(good, "another text", f"a text of 1 to {_MAX_TEXT:,} characters")
        return self.text


_QUERIES: dict[str, type[FileQuery | IdQuery | RowQuery | TextQuery]] = {
    "b64": FileQuery,
    "id": IdQuery,
    "row": RowQuery,
    "text": TextQuery,
}


def read_predict(body: bytes, signatures: dict[str, Signature], limits: Limits) -> tuple[str, str, list[bytes | Boxed]]:
    """Read the JSON of a `:predict` request.

    Returns the name of the results, "predictions" or "outputs"; the name of the signature; and the content of a file
    per row, alone or with a box.
    """
    request = read_form(body, Predict)
    name = request.signature_name
    _require(name in signatures, f"signature_name={name[:40]!r}", " or ".join(map(repr, signatures)))
    stated = [form for form in _FORMS if getattr(request, form)]
    _require(len(stated) == 1, listed(stated), "either instances or inputs")
    rows = _unnamed(request.inputs) if request.inputs else request.instances
    return _FORMS[stated[0]], name, read_images(rows, read_file, limits)


def read_search(
    body: bytes, limits: Limits, max_neighbors: int | None = None
) -> tuple[list[bytes | Boxed | str | tuple[str, Any]], int, str]:
    """Read the JSON of a `:search` request, with k up to `max_neighbors`, or up to the limit.

        {"instances": [{"b64": "...", "box": [8, 0, 72, 40]}, {"id": 17}], "k": 10, "where": {"label": ["cat", "dog"]}}

    Returns queries, contents of files, alone or with a box, items of the index as `("id", id)` or `("row", row)`, and
    the texts of `{"text": "a red kangaroo"}`; k; and the filter.
    """
    request, largest = read_form(body, Search), max_neighbors or limits.max_neighbors
    k = min(_K, largest) if request.k is UNSET else request.k
    _require(1 <= k <= largest, "another k", f"a whole number from 1 to {largest}")
    where = _read_where(request.where, limits)
    return read_images(request.instances, read_query, limits), k, json.dumps(where, sort_keys=True)


def read_pair(body: bytes, limits: Limits) -> list[bytes | Boxed | tuple[str, Any]]:
    """Read the JSON of an `:explain` request: `instances` are two queries of a `:search`, files or items."""
    pair = read_images(read_form(body, Explain).instances, read_query, limits)
    _require(len(pair) == 2 and str not in map(type, pair), f"{len(pair)} instances", "two, files or items")
    return pair


def explanation(images: list[np.ndarray], maps: Sequence[np.ndarray], windows: Sequence[tuple[slice, slice]]) -> bytes:
    """The answer of `:explain`: the cosine of two images, their maps, each of which sums up to it, and their pictures.

    The pictures are data URLs of what is inside the windows, under the maps.
    """
    _require(np.isfinite(maps).all(), "images whose similarity is not finite", "finite numbers")
    urls = [f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in heat_pictures(images, maps, windows)]
    return as_json({"cosine": maps[0].sum(dtype=np.float64), "maps": maps, "pictures": urls})


def read_embeddings(body: bytes, name: str, dim: int, limits: Limits) -> tuple[list[bytes | Boxed | str], bool]:
    """Read the JSON of `/v1/embeddings`: `input` is one image or text, or several; images are data URLs.

        {"model": "animals", "input": ["data:image/png;base64,..."], "encoding_format": "base64"}

    `boxes` has a box, or null for the whole image, for each of a list of images. Returns contents of files, alone or
    with their boxes, and texts; and whether the embeddings are wanted in base64. `user` has no effect.
    """
    request = read_form(body, Embeddings)
    for key, value in (("model", name), ("dimensions", dim)):
        _require(getattr(request, key) in (None, value), f"another {key}", repr(value))
    rows = Raw(b"[" + bytes(request.input) + b"]") if kind_of(request.input) == "a text" else request.input
    inputs = read_images(rows, _read_input, limits)
    has_boxes = kind_of(request.boxes) not in ("nothing", "null")
    boxes = read_rows(request.boxes, limits.max_images) if has_boxes else [Raw(b"null")] * len(inputs)
    _require(len(boxes) == len(inputs), f"{len(boxes)} boxes", f"{len(inputs)}: a box, or null, for each image")
    pairs = enumerate(zip(inputs, boxes, strict=True))
    return [_numbered(number, _with_box, *pair) for number, pair in pairs], request.encoding_format == "base64"


def embeddings(name: str, vectors: list[np.ndarray], as_base64: bool) -> bytes:
    """The answer of `/v1/embeddings`: lists of numbers, or float32, lowest byte first, in base64."""
    values = [base64.b64encode(x.astype("<f4").tobytes()) if as_base64 else x for x in vectors]
    data = [{"object": "embedding", "index": row, "embedding": value} for row, value in enumerate(values)]
    return as_json({"object": "list", "data": data, "model": name, "usage": {"prompt_tokens": 0, "total_tokens": 0}})


def read_items(query: Mapping[str, str], limits: Limits) -> tuple[int, int | None]:
    """Read `?n=12&seed=7`: the number of items, 12 by default, and the seed, None for other items every time."""
    if not set(query) <= {"n", "seed"}:
        raise unknown(f"parameters {listed(query)}", query, ("n", "seed"))
    _require(len(query) == len(set(query)), f"parameters {listed(query)}", "n and seed, once each")
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
    is_file = kind_of(row) == "an object" and "b64" in read_object(row)
    _require(is_file, _shown(row), 'a file as {"b64": "..."}')
    return read_form(row, FileQuery).content()


def read_query(row: Raw) -> bytes | Boxed | str | tuple[str, Any]:
    """A query of one kind: a file, an item by its id or its row, or a text."""
    row = _unnamed(row)
    names = list(read_object(row)) if kind_of(row) == "an object" else []
    kinds = [kind for kind in _QUERIES if kind in names]
    if len(kinds) != 1:
        raise unknown(_shown(row), names, _QUERIES)
    return read_form(row, _QUERIES[kinds[0]]).content()


def metadata(name: str, version: str, fingerprint: str | None, signatures: dict[str, Signature]) -> dict[str, Any]:
    """The answer of `/v1/models/NAME/metadata`, in which the fingerprint stands beside the signatures."""
    definitions = {key: _definition(signature) for key, signature in signatures.items()}
    spec = {"name": name, "signature_name": "", "version": version}
    return {
        "model_spec": spec,
        "metadata": {"signature_def": {"signature_def": definitions}, "fingerprint": fingerprint},
    }


def served_models(name: str, version: str, created: int) -> dict[str, Any]:
    """The answer of `/v1/models`: the model as clients of language models list it, with its status."""
    model = {"id": name, "object": "model", "created": created, "owned_by": "tfdml", **status(version)}
    return {"object": "list", "data": [model]}


def status(version: str) -> dict[str, Any]:
    """The answer of `/v1/models/NAME`."""
    good = {"error_code": "OK", "error_message": ""}
    return {"model_version_status": [{"version": version, "state": "AVAILABLE", "status": good}]}


def _definition(signature):
    inputs = {INPUT: _tensor("string", ())}
    outputs = {name: _tensor(*output) for name, output in signature.outputs.items()}
    return {"inputs": inputs, "outputs": outputs, "method_name": "tensorflow/serving/predict"}


def _tensor(dtype, shape):
    dims = [{"size": str(size), "name": ""} for size in (-1, *shape)]
    return {"dtype": _TYPES[dtype], "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": ""}


def _read_input(row):
    """An image as a data URL, or a text. An address is no text, since nothing is fetched."""
    start = _DATA_URL.match(bytes(memoryview(row)[:100]))
    if start is not None:
        return read_base64(Raw(b'"' + memoryview(row)[start.end() :]))
    text = read_json(row, str) if kind_of(row) == "a text" else None
    received = _shown(row) if text is None else "an address, which is not fetched"
    expected = 'a text, or an image as "data:image/png;base64,..."'
    _require(text is not None and _ADDRESS.match(text) is None, received, expected)
    return TextQuery(text).content()


def _with_box(image, box):
    box = read_json(box, Box | None)
    _require(box is None or isinstance(image, bytes), "a box beside a text", "null, or an image")
    return _boxed(image, box)


def _boxed(content, box):
    return content if box is None else Boxed(content, box)


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
        raise RefusedError(400, f"Received where with {listed([name])}, expected {expected}.") from error


def _unnamed(row):
    """The image of a row that names its input, or the row."""
    is_named = kind_of(row) == "an object" and INPUT in read_object(row)
    return read_form(row, Named).images if is_named else row


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
    return f"an object with {listed(read_object(value))}" if kind == "an object" else kind
