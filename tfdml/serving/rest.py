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
    Plain,
    kind_of,
    listed,
    read_base64,
    read_form,
    read_json,
    read_object,
    read_rows,
    require_request,
    shown,
    unknown,
)
from tfdml.serving.embedder import FILES, Signature, heat_pictures
from tfdml.serving.limits import Limits, RefusedError
from tfdml.serving.queries import INPUT, Box, FileQuery, ItemQuery, TextQuery, read_file, read_query, unnamed

_K = 10
_ITEMS = 12  # random items
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
    positive: Raw = Raw(b"[]")
    negative: Raw = Raw(b"[]")


class Explain(msgspec.Struct):
    """An `:explain` request."""

    instances: Raw = _NOTHING


class Part(msgspec.Struct):
    """A part of a message, as clients of language models write it: a text, or the data URL of an image."""

    type: Literal["text", "image_url"]
    text: Raw = _NOTHING
    image_url: Raw = _NOTHING


class _Address(msgspec.Struct):
    url: Raw
    detail: str | None = None


class Embeddings(msgspec.Struct):
    """A `/v1/embeddings` request: images or texts, boxes of the images, and what all clients of this form may send."""

    input: Raw = _NOTHING
    boxes: Raw = _NOTHING
    model: str | None = None
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None


def read_predict(body: bytes, signatures: dict[str, Signature], limits: Limits) -> tuple[str, str, list[FileQuery]]:
    """Read the JSON of a `:predict` request.

    Returns the name of the results, "predictions" or "outputs"; the name of the signature; and the files.
    """
    request = read_form(body, Predict)
    name = request.signature_name
    require_request(name in signatures, f"signature_name={name[:40]!r}", " or ".join(map(repr, signatures)))
    stated = [form for form in _FORMS if getattr(request, form)]
    require_request(len(stated) == 1, listed(stated), "either instances or inputs")
    rows = unnamed(request.inputs) if request.inputs else request.instances
    return _FORMS[stated[0]], name, read_images(rows, read_file, limits)


def read_search(
    body: bytes, limits: Limits, max_neighbors: int | None = None
) -> tuple[list[FileQuery | ItemQuery | TextQuery], int, str, tuple[list[str | int], list[str | int]]]:
    """Read the JSON of a `:search` request, with k up to `max_neighbors`, or up to the limit.

        {"instances": [{"b64": "...", "box": [8, 0, 72, 40]}, {"id": 17}], "k": 10, "where": {"label": ["cat", "dog"]}}
        {"instances": [{"id": 17}], "positive": [3, 4], "negative": [9]}

    Returns the queries, k, the filter as JSON with sorted names, and the ids of the items that are right and wrong.
    """
    request, largest = read_form(body, Search), max_neighbors or limits.max_neighbors
    k = min(_K, largest) if request.k is UNSET else request.k
    require_request(1 <= k <= largest, "another k", f"a whole number from 1 to {largest}")
    where = _read_where(request.where, limits)
    queries = read_images(request.instances, read_query, limits)
    return queries, k, json.dumps(where, sort_keys=True), _read_judged(request, queries, limits)


def read_pair(body: bytes, limits: Limits) -> list[FileQuery | ItemQuery | TextQuery]:
    """Read the JSON of an `:explain` request: `instances` are two queries of a `:search`."""
    pair = read_images(read_form(body, Explain).instances, read_query, limits)
    require_request(len(pair) == 2, f"{len(pair)} instances", "two, files or items")
    return pair


def explanation(images: list[np.ndarray], maps: Sequence[np.ndarray], windows: Sequence[tuple[slice, slice]]) -> bytes:
    """The answer of `:explain`: the cosine of two images, their maps, and their pictures.

    Each map sums up to the cosine. The pictures are data URLs of the insides of the windows, under the maps.
    """
    require_request(np.isfinite(maps).all(), "images whose similarity is not finite", "finite numbers")
    urls = [f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in heat_pictures(images, maps, windows)]
    return as_json({"cosine": maps[0].sum(dtype=np.float64), "maps": maps, "pictures": urls})


def read_embeddings(
    body: bytes, name: str, dims: Sequence[int], limits: Limits
) -> tuple[list[FileQuery | TextQuery], int, bool]:
    """Read the JSON of `/v1/embeddings`: `input` is one image or text, or several; images are data URLs.

        {"model": "animals", "input": ["data:image/png;base64,..."], "encoding_format": "base64"}

    A text or an image may stand in a part, as {"type": "image_url", "image_url": {"url": "data:..."}}. `boxes` has a
    box, or null for the whole image, for each of a list of images. `dims` are the sizes of an embedding that the model
    has, the largest one first. Returns the files and texts, the size that is wanted, and whether the embeddings are
    wanted in base64. `user` has no effect.
    """
    request = read_form(body, Embeddings)
    require_request(request.model in (None, name), "another model", repr(name))
    size = dims[0] if request.dimensions is None else request.dimensions
    require_request(size in dims, "another dimensions", " or ".join(map(str, dims)))
    is_alone = kind_of(request.input) == "a text"
    rows = read_rows(Raw(b"[" + bytes(request.input) + b"]") if is_alone else request.input, limits.max_images)
    has_boxes = kind_of(request.boxes) not in ("nothing", "null")
    boxes = read_rows(request.boxes, limits.max_images) if has_boxes else [Raw(b"null")] * len(rows)
    require_request(len(boxes) == len(rows), f"{len(boxes)} boxes", f"{len(rows)}: a box, or null, for each image")
    inputs = [
        _named(f"Image {number}", _read_input, *each) for number, each in enumerate(zip(rows, boxes, strict=True))
    ]
    return inputs, size, request.encoding_format == "base64"


def embeddings(name: str, vectors: list[np.ndarray], size: int, as_base64: bool) -> bytes:
    """The answer of `/v1/embeddings`: lists of numbers, or float32, lowest byte first, in base64.

    Of vectors of more numbers, the first `size` numbers, scaled to norm 1.
    """
    vectors = [x if len(x) == size else _unit(np.asarray(x[:size])) for x in vectors]
    values = [base64.b64encode(x.astype("<f4").tobytes()) if as_base64 else x for x in vectors]
    data = [{"object": "embedding", "index": row, "embedding": value} for row, value in enumerate(values)]
    return as_json({"object": "list", "data": data, "model": name, "usage": {"prompt_tokens": 0, "total_tokens": 0}})


def read_items(query: Mapping[str, str], limits: Limits) -> tuple[int, int | None]:
    """Read `?n=12&seed=7`: the number of items, 12 by default, and the seed, None for other items every time."""
    if not set(query) <= {"n", "seed"}:
        raise unknown(f"parameters {listed(query)}", query, ("n", "seed"))
    require_request(len(query) == len(set(query)), f"parameters {listed(query)}", "n and seed, once each")
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
    return [_named(f"Image {number}", read, row) for number, row in enumerate(read_rows(rows, limits.max_images))]


def metadata(name: str, version: str, fingerprint: str | None, signatures: dict[str, Signature]) -> dict[str, Any]:
    """The answer of `/v1/models/NAME/metadata`, with the fingerprint beside the signatures."""
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


def _read_input(row, box):
    """An image as a data URL, with its box if there is one, or a text. An address is no text: nothing is fetched."""
    is_part = kind_of(row) == "an object"
    row, is_image = _content_of(row) if is_part else (row, False)
    start, box = _DATA_URL.match(bytes(memoryview(row)[:100])), read_json(box, Box | None)
    if start is not None:
        return FileQuery(read_base64(Raw(b'"' + memoryview(row)[start.end() :])), box)
    text = read_json(row, str) if kind_of(row) == "a text" and not is_image else None
    received = "an address, which is not fetched" if is_image or text is not None else shown(row)
    expected = 'a text, or an image as "data:image/png;base64,..."'
    require_request(text is not None and _ADDRESS.match(text) is None, received, expected)
    require_request(box is None, "a box beside a text", "null, or an image")
    return TextQuery(text)


def _content_of(row):
    """The text of a part of a message, and whether it is the URL of an image."""
    part = read_form(row, Part)
    stated = part.text if part.type == "text" else part.image_url
    require_request(stated, f"a part of type {part.type!r} without {part.type}", part.type)
    is_image = part.type == "image_url"
    return (read_form(stated, _Address).url if is_image and kind_of(stated) == "an object" else stated), is_image


def _unit(x):
    return x / max(float(np.linalg.norm(x)), 1e-12)


def _read_where(where, limits):
    """The columns of a filter with their values."""
    size = len(bytes(where))
    require_request(size <= limits.max_filter, f"where of {size} bytes", f"at most {limits.max_filter}", 413)
    require_request(kind_of(where) == "an object", shown(where), "where as an object of columns with their values")
    columns = read_object(where).items()
    return {name: _named(f"where {listed([name])}", read_json, each, Plain | list[Plain]) for name, each in columns}


def _read_judged(request, queries, limits):
    """The ids of the items of a search that are right, and of those that are wrong; both empty without any."""
    for name in ("positive", "negative"):
        size = len(bytes(getattr(request, name)))
        require_request(size <= limits.max_filter, f"{name} of {size} bytes", f"at most {limits.max_filter}", 413)
    positive, negative = (read_json(ids, list[str | int]) for ids in (request.positive, request.negative))
    most, judged = limits.max_neighbors, [*positive, *negative]
    require_request(len(judged) <= 2 * most, f"{len(judged)} judged items", f"{2 * most} at most", 413)
    received = f"judged items with {len(queries)} instances"
    require_request(not judged or len(queries) == 1, received, "one, whose answers they are")
    is_once = len(set(map(str, judged))) == len(judged)
    require_request(is_once, "an item that is judged twice", "each id once, in positive or in negative")
    return positive, negative


def _as_list(value):
    """JSON values of arrays, NumPy numbers and TensorFlow's bytes."""
    return value.decode() if isinstance(value, bytes) else value.tolist()


def _named(name, read, *values):
    """`read(*values)`; what it refuses is named."""
    try:
        return read(*values)
    except RefusedError as error:
        raise RefusedError(error.status, f"{name}: {error}") from error


def _whole(query, name, least, most):
    """A parameter that is a whole number, None where it is missing."""
    text = query.get(name)
    number = int(text) if text is not None and _DIGITS.fullmatch(text) else None
    is_valid = text is None or (number is not None and least <= number <= most)
    require_request(is_valid, f"another {name}", f"a whole number from {least} to {most}")
    return number
