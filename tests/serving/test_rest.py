"""Requests in the REST form of TensorFlow Serving."""

import base64
import json

import numpy as np
import pytest

from tfdml.serving import Limits, rest
from tfdml.serving.limits import RefusedError
from tfdml.serving.signatures import signatures_of

LIMITS = Limits(max_images=3, max_neighbors=20)
B64 = {"b64": base64.b64encode(b"file").decode()}
FILES = {"signature_name": "serve_bytes"}
SIGNATURES = signatures_of(None, 8)


def predict(request):
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return rest.read_predict(body, SIGNATURES, LIMITS)


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ({"instances": [B64, B64]}, "predictions"),
        ({"instances": [B64, B64], "signature_name": "serve_bytes"}, "predictions"),
        ({"instances": [{"images": B64}, B64]}, "predictions"),
        ({"inputs": [B64, B64]}, "outputs"),
        ({"inputs": {"images": [B64, B64]}}, "outputs"),
    ],
)
def test_files_come_by_row_or_by_name(request_, name):
    assert predict(request_) == (name, "serve_bytes", [b"file", b"file"])


def test_a_box_is_beside_the_content_of_its_file():
    boxed = {**B64, "box": [1, 2.5, 3, 4]}
    _, _, files = predict({**FILES, "instances": [boxed, {"images": boxed}, {**B64, "box": None}]})
    assert [(file.content, file.box) for file in files[:2]] == [(b"file", (1, 2.5, 3, 4))] * 2
    assert files[2] == b"file"
    url = f"data:image/png;base64,{B64['b64']}"
    request = {"input": [url, url], "boxes": [None, [1, 2, 3, 4]]}
    (whole, part), _ = rest.read_embeddings(json.dumps(request).encode(), "model", 8, LIMITS)
    assert (whole, part.content, part.box) == (b"file", b"file", (1, 2, 3, 4))


def search(request):
    return rest.read_search(json.dumps(request).encode(), LIMITS)


def test_a_search_has_files_and_items_with_ten_neighbors_and_no_filter_by_default():
    assert search({"instances": [B64, {"id": "a"}, {"row": 3}]}) == ([b"file", ("id", "a"), ("row", 3)], 10, "{}")
    assert search({"instances": [{"text": "a red bird"}, B64]})[0] == ["a red bird", b"file"]
    assert search({"instances": [B64], "k": 20, "where": {"b": 1, "a": [2]}})[1:] == (20, '{"a": [2], "b": 1}')


URL = f"data:image/png;base64,{B64['b64']}"


@pytest.mark.parametrize(
    ("request_", "number", "as_base64"),
    [
        ({"input": URL}, 1, False),
        ({"input": [URL, URL], "model": "m", "dimensions": 8, "encoding_format": "base64", "user": "u"}, 2, True),
        (
            {"input": URL, "model": None, "dimensions": None, "encoding_format": None, "user": None, "boxes": None},
            1,
            False,
        ),
        (json.dumps({"input": [URL]}).replace("/", "\\/").encode(), 1, False),  # as PHP writes it
    ],
)
def test_images_to_embed_come_as_data_urls(request_, number, as_base64):
    body = request_ if isinstance(request_, bytes) else json.dumps(request_).encode()
    assert rest.read_embeddings(body, "m", 8, LIMITS) == ([b"file"] * number, as_base64)


READERS = {
    "predict": lambda body: rest.read_predict(body, SIGNATURES, LIMITS),
    "search": lambda body: rest.read_search(body, LIMITS),
    "explain": lambda body: rest.read_pair(body, LIMITS),
    "embeddings": lambda body: rest.read_embeddings(body, "m", 8, LIMITS),
}
SIGNATURE_NAMES = "expected 'serve_bytes'"
REFUSED = {  # for each reader, requests and a part of the reason
    "predict": [
        (b"", "not JSON"),
        (b"\xff\xfe\xfa", "not JSON"),
        (json.dumps({}).encode("utf-16"), "not JSON"),
        (b"[" * 100_000, "another form"),
        (b'{"a":' * 5_000, "not JSON"),
        (b"9" * 10_000, "another form"),
        (b"[]", "JSON of another form: Expected `object`, got `array`"),
        (b'{"instances": [1], "instances": [1]}', "an object with a name twice"),
        (b'{"instances": [1], "instance\\u0073": [1]}', "an object with a name twice"),
        (b'{"signature_name": "serve_bytes", "instances": [{"b64": "", "b64": ""}]}', "a name twice"),
        (b'{"instances": [NaN]}', "not JSON"),
        (b'{"instances": [{"b64": NaN}, {"b64": "QUJD"}]}', "not JSON"),
        ({}, "no names, expected either instances or inputs"),
        ({"instances": [B64], "inputs": [B64]}, "either instances or inputs"),
        ({"signature_name": "train", "instances": [B64]}, f"'train', {SIGNATURE_NAMES}"),
        ({"signature_name": ["train"], "instances": [B64]}, "Expected `str`, got `array` - at `$.signature_name`"),
        ({"signature_name": "x" * 60_000, "instances": [B64]}, SIGNATURE_NAMES),
        ({"signature_name": "\ud800", "instances": [B64]}, "not JSON"),
        ({"signature": "serve_bytes", "instances": [B64]}, "Did you mean 'signature_name'?"),
        ({**FILES, "instances": []}, "no images, expected a list of at least one image"),
        ({**FILES, "instances": "abc"}, "a text, expected a list"),
        ({**FILES, "instances": [B64] * 4}, "more than 3 images"),
        ({**FILES, "instances": [B64, "/etc/passwd"]}, "Image 1: Received a text, expected a file as"),
        ({**FILES, "instances": [{"b64": 3}]}, "b64 that is a number"),
        ({**FILES, "instances": [{"b64": "a"}]}, "not base64"),
        ({**FILES, "instances": [{"id": 3}]}, "'id', expected a file as"),
        ({**FILES, "instances": [[[[0]], [[1]]]]}, "a list, expected a file as"),
        ({"signature_name": "serving_default", "instances": [B64]}, f"'serving_default', {SIGNATURE_NAMES}"),
        ({**FILES, "instances": [{"images": B64, "boxes": [1, 2, 3, 4]}]}, "Image 0: Received an object with 'images'"),
    ],
    "search": [
        *[({"instances": [B64], "k": k}, "another k, expected a whole number from 1 to 20") for k in (0, 21, 10**30)],
        *[({"instances": [B64], "k": k}, "Expected `int`, got") for k in (True, 2.0, "2", None)],
        *[
            ({"instances": [B64], name: 3}, f"{name!r}, expected 'instances' or 'k' or 'where'.")
            for name in ("top_k", "size")
        ],
        *[
            (
                {"instances": [B64], "filter": {"label": "cat"}, "filters": []},
                "an object with 'instances', 'filter', 'filters'",
            )
        ],
        ({"instance": [B64]}, "Did you mean 'instances'?"),
        ({"instances": [B64], "x" * 60_000: 1}, f"'{'x' * 40}'"),
        ({"instances": [B64], "where": []}, "a list, expected where as an object"),
        ({"instances": [B64], "where": {"a": {"b": 1}}}, "where with 'a', expected texts, numbers, booleans or null"),
        ({"instances": [B64], "where": {"a": [[1]]}}, "where with 'a'"),
        (b'{"instances": [{"b64": ""}], "where": {"a": 1, "a": 2}}', "a name twice"),
        (b'{"instances": [{"b64": ""}], "where": {"a": NaN}}', "not JSON"),
        ({"instances": None}, "null, expected a list"),
        ({}, "nothing, expected a list"),
        ({"instances": [{"row": 1}, {}]}, "Image 1: Received an object with no names, expected 'b64' or 'id'"),
        *[({"instances": [{"id": id}]}, "Image 0: Received JSON of another form") for id in (True, None, ["a"], 1.5)],
        *[({"instances": [{"row": row}]}, "Image 0: Received JSON of another form") for row in (True, 1.0, "1", None)],
        *[({"instances": [{"text": text}]}, "text") for text in (" ", 1001 * "a", ["a"], 7)],
        ({"instances": [{"row": 0, **B64}]}, "an object with 'row', 'b64', expected 'b64' or 'id' or 'row' or 'text'"),
        ({"instances": [{"id": 7, "row": 7}]}, "an object with 'id', 'row'"),
        ({"instances": [{"id": 7, "box": [1, 2, 3, 4]}]}, "an object with 'id', 'box', expected 'id'."),
        ({"instances": [{"text": "a", "box": [0, 0, 1, 1]}]}, "an object with 'text', 'box', expected 'text'."),
        ({"instances": [{**B64, "bbox": [1, 2, 3, 4]}]}, "Did you mean 'box'?"),
        ({"instances": [{"base64": ""}]}, "Did you mean 'b64'?"),
        *[
            ({"instances": [B64, {**B64, "box": box}]}, "Image 1: Received JSON of another form")
            for box in (
                [1, 2, 3],
                [1, 2, 3, 4, 5],
                [1, 2, 3, "4"],
                [1, 2, 3, None],
                [1, 2, 3, True],
                "1",
                7,
                {},
                [[1] * 4],
            )
        ],
    ],
    "explain": [
        ({"instances": [B64]}, "1 instances, expected two, files or items"),
        ({"instances": [B64] * 3}, "3 instances"),
        ({"instances": [B64, {"text": "a cat"}]}, "two, files or items"),
        ({"instances": [B64] * 2, "k": 3}, "'k', expected 'instances'."),
    ],
    "embeddings": [
        ({}, "Received nothing, expected a list of at least one image"),
        ({"input": []}, "Received no images"),
        ({"input": [URL] * 4}, "more than 3 images"),
        *[
            (
                {"input": [URL, text]},
                'Image 1: Received an address, which is not fetched, expected a text, or an image as "data:image',
            )
            for text in (
                "https://example.org/cat.png",
                "file:///etc/passwd",
                "data:text/plain,x",
                "DATA:image/png;base64,",
            )
        ],
        *[({"input": [text]}, "Image 0: Received another text, expected a text of 1 to") for text in ("", 1001 * "a")],
        *[({"input": tokens}, "Image 0: Received a") for tokens in ([7], [[7, 8]])],
        ({"input": URL[:-4] + "!!"}, "Image 0: Received b64 that is not base64"),
        ({"input": URL, "model": "n"}, "Received another model, expected 'm'"),
        ({"input": URL, "dimensions": 4}, "Received another dimensions, expected 8"),
        ({"input": URL, "encoding_format": "float16"}, "Invalid enum value 'float16'"),
        ({"input": URL, "encoding_format": ["float"]}, "at `$.encoding_format`"),
        ({"input": URL, "encoding_format": "x" * 60_000}, "Invalid enum value"),
        ({"input": [URL, URL], "boxes": [None]}, "Received 1 boxes, expected 2: a box, or null, for each image"),
        ({"input": URL, "boxes": [[1, 2, 3]]}, "Image 0: Received JSON of another form"),
        ({"input": "a cat", "boxes": [[1, 2, 3, 4]]}, "Image 0: Received a box beside a text"),
        ({"input": URL, "box": [1, 2, 3, 4]}, "Did you mean 'boxes'?"),
        ({"inputs": URL}, "Did you mean 'input'?"),
        (
            {"input": URL, "truncate": True},
            "an object with 'input', 'truncate', expected 'input' or 'boxes' or 'model'",
        ),
    ],
}


@pytest.mark.parametrize("reader", READERS)
def test_other_requests_are_refused_with_a_reason(reader):
    for request, reason in REFUSED[reader]:
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        with pytest.raises(RefusedError) as refused:
            READERS[reader](body)
        assert reason in str(refused.value), body[:100]
        assert refused.value.status == (413 if "more than 3 images" in reason else 400), body[:100]
        assert len(str(refused.value)) < 500


@pytest.mark.parametrize("reader", READERS)
def test_an_unknown_name_is_named_with_the_known_ones(reader):
    for name in ("filter", "filters", "top_k", "bbox", "metric", "\u00e9"):
        with pytest.raises(
            RefusedError, match=f"Received an object with '{name}', expected '(instances|input|signature_name)'"
        ) as refused:
            READERS[reader](json.dumps({name: 1}).encode())
        assert refused.value.status == 400


def test_embeddings_are_numbers_or_float32_in_base64():
    vectors = [np.array([0.5, -2.0], "float32"), np.array([1.0, 0.1], "float32")]
    plain, encoded = (json.loads(rest.embeddings("m", vectors, as_base64)) for as_base64 in (False, True))
    assert (plain["object"], plain["model"], [row["index"] for row in plain["data"]]) == ("list", "m", [0, 1])
    assert plain["data"][0] == {"object": "embedding", "index": 0, "embedding": [0.5, -2.0]}
    assert encoded["data"][0]["embedding"] == "AAAAPwAAAMA="  # 3f000000 and c0000000, lowest byte first
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(encoded["data"][1]["embedding"]), "<f4"), vectors[1])


def test_metadata_and_status_have_the_form_of_tensorflow_serving():
    found = rest.metadata("cats", "1", "f00d", SIGNATURES)
    assert found["metadata"]["fingerprint"] == "f00d"
    assert found["model_spec"] == {"name": "cats", "signature_name": "", "version": "1"}
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == {"serve_bytes"}
    assert [dim["size"] for dim in signatures["serve_bytes"]["inputs"]["images"]["tensor_shape"]["dim"]] == ["-1"]
    assert signatures["serve_bytes"]["outputs"]["embedding"]["tensor_shape"]["dim"][1]["size"] == "8"
    assert rest.served_models("cats", "2", 5) == {
        "object": "list",
        "data": [{"id": "cats", "object": "model", "created": 5, "owned_by": "tfdml", **rest.status("2")}],
    }
    assert rest.status("1")["model_version_status"][0]["state"] == "AVAILABLE"


def test_answers_of_one_output_have_no_name_and_text_is_text():
    rows = [{"id": b"a\xc3\xa9", "score": np.float32(0.5)}, {"id": b"", "score": np.float32(-1)}]
    assert json.loads(rest.answer("predictions", rows)) == {
        "predictions": [{"id": "aé", "score": 0.5}, {"id": "", "score": -1}]
    }
    assert json.loads(rest.answer("outputs", rows)) == {"outputs": {"id": ["aé", ""], "score": [0.5, -1]}}
    alone = [{"ids": np.array([2**60 + 1, 3])}]
    assert json.loads(rest.answer("predictions", alone)) == {"predictions": [[2**60 + 1, 3]]}
    assert json.loads(rest.answer("outputs", alone)) == {"outputs": [[2**60 + 1, 3]]}


@pytest.mark.parametrize(("max_bytes", "expected"), [(3, 4), (4, 8), (6, 8)])
def test_a_request_has_room_for_the_largest_file_as_base64(max_bytes, expected):
    assert len(base64.b64encode(bytes(max_bytes))) == expected
    assert Limits(max_bytes=max_bytes).max_body == expected + 2**16


@pytest.mark.parametrize("wrong", [{"max_bytes": 0}, {"max_requests": 1.5}, {"seconds": 0}, {"seconds": -1}])
def test_a_limit_is_positive(wrong):
    with pytest.raises(ValueError, match=r"Received .*, expected"):
        Limits(**wrong)
