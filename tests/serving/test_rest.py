"""Requests in the REST form of TensorFlow Serving."""

import base64
import json
import re

import numpy as np
import pytest

from tfdml.serving import Limits, rest
from tfdml.serving.limits import RefusedError
from tfdml.serving.signatures import Signature, signatures_of

LIMITS = Limits(max_images=3, max_neighbors=20)
SHAPE = (2, 1, 1)
B64 = {"b64": base64.b64encode(b"file").decode()}
FILES = {"signature_name": "serve_bytes"}
EMBED = Signature(pixels="embed", dtype="float32", outputs={"embedding": ("float32", (8,))})
SIGNATURES = {**signatures_of(None, 8), "embed": EMBED}


def predict(request):
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return rest.read_predict(body, SIGNATURES, SHAPE, LIMITS)


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ({"instances": [B64, B64]}, "predictions"),
        ({"instances": [{"images": B64}, B64]}, "predictions"),
        ({"inputs": [B64, B64]}, "outputs"),
        ({"inputs": {"images": [B64, B64]}}, "outputs"),
    ],
)
def test_files_come_by_row_or_by_name(request_, name):
    assert predict({**FILES, **request_}) == (name, "serve_bytes", [b"file", b"file"])


@pytest.mark.parametrize(("name", "result"), [("instances", "predictions"), ("inputs", "outputs")])
def test_pixels_are_the_default_signature(name, result):
    found, signature, (pixels,) = predict({name: [[[[0]], [[255]]]]})
    assert signature == "serving_default"
    assert (found, pixels.dtype, pixels.tolist()) == (result, np.uint8, [[[0]], [[255]]])
    assert predict({"signature_name": "serving_default", name: [{"images": [[[0]], [[7]]]}]})[0] == result


def test_floats_are_the_input_of_the_network_in_any_notation():
    body = b'{"signature_name": "embed", "instances": [[ [[-0.5]],\n[[2.5e1]] ], [[[0]],[[255]]]]}'
    _, signature, images = predict(body)
    assert signature == "embed"
    np.testing.assert_array_equal(images, [[[[-0.5]], [[25]]], [[[0]], [[255]]]])
    assert [image.dtype for image in images] == ["float32", "float32"]


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        (b"", 400, "not JSON"),
        (b"\xff\xfe\xfa", 400, "not JSON"),
        (json.dumps({}).encode("utf-16"), 400, "not JSON"),
        (b"[" * 100_000, 400, "another form"),
        (b'{"a":' * 5_000, 400, "not JSON"),
        (b"9" * 10_000, 400, "another form"),
        (b"[]", 400, "JSON of another form: Expected `object`, got `array`"),
        (b'{"instances": [1], "instances": [1]}', 400, "an object with a name twice"),
        (b'{"instances": [1], "instance\\u0073": [1]}', 400, "an object with a name twice"),
        (b'{"signature_name": "serve_bytes", "instances": [{"b64": "", "b64": ""}]}', 400, "a name twice"),
        (b'{"instances": [NaN]}', 400, "not JSON"),
        (b'{"instances": [{"b64": NaN}, {"b64": "QUJD"}]}', 400, "not JSON"),
        (
            b'{"signature_name": "[[[0]], [[1]]]", "instances": [1]}',
            400,
            "'\\[\\[\\[0\\]\\], .*expected 'serving_default'",
        ),
        ({}, 400, "an object with no names, expected either instances or inputs"),
        ({"instances": [B64], "inputs": [B64]}, 400, "either instances or inputs"),
        ({"signature_name": "train", "instances": [B64]}, 400, "'train', expected 'serving_default' or 'serve_bytes'"),
        ({"signature_name": ["train"], "instances": [B64]}, 400, "expected 'serving_default' or 'serve_bytes'"),
        ({"signature_name": "x" * 60_000, "instances": [B64]}, 400, "expected 'serving_default' or 'serve_bytes'"),
        ({"signature_name": "\ud800", "instances": [B64]}, 400, "not JSON"),
        ({**FILES, "instances": []}, 400, "no images, expected a list of at least one image"),
        ({**FILES, "instances": "abc"}, 400, "a text, expected a list"),
        ({**FILES, "instances": [B64] * 4}, 413, "more than 3 images"),
        ({"instances": [[[[0]], [[0]]]] * 4}, 413, "more than 3 images"),
        ({**FILES, "instances": ["a"] * 4}, 413, "more than 3 images, expected at most that many"),
        (
            {**FILES, "instances": [B64, "/etc/passwd"]},
            400,
            "Image 1: Received a text, expected a file as",
        ),
        ({**FILES, "instances": [{"b64": 3}]}, 400, "an object with 'b64'"),
        ({**FILES, "instances": [{"b64": "a"}]}, 400, "not base64"),
        ({**FILES, "instances": [[[[0]], [[1]]]]}, 400, "a list, expected a file as"),
        ({"instances": [B64]}, 400, "Files need another signature_name, such as 'serve_bytes'"),
        ({"instances": [[[[0]], [[256]]]]}, 400, "numbers from 0 to 256, expected integers from 0 to 255"),
        ({"instances": [[[[0]], [[-1]]]]}, 400, "expected integers from 0 to 255"),
        ({"instances": [[[[0]], [[0.5]]]]}, 400, "numbers from 0 to 0.5"),
        ({"instances": [[[[0]], [[10**30]]]]}, 400, "numbers from 0 to 1e\\+30, expected integers"),
        ({"instances": [[[[0]], [["7"]]]]}, 400, "a list, expected integers"),
        ({"instances": [[[0], [0]]]}, 400, r"a list, expected integers from 0 to 255 of shape \(2, 1, 1\)"),
        ({"instances": [["x" * 60_000] + [""] * 900]}, 400, "a list, expected integers"),
        (b'{"instances": [[[[0]], [[NaN]]]]}', 400, "not JSON"),
        ({"signature_name": "embed", "instances": [[[[0]], [[1e60]]]]}, 400, "expected finite numbers"),
    ],
)
def test_other_requests_are_refused_with_a_reason(request_, status, reason):
    with pytest.raises(RefusedError, match=reason) as refused:
        predict(request_)
    assert refused.value.status == status
    assert len(str(refused.value)) < 400


def test_a_box_is_beside_the_content_of_its_file():
    boxed = {**B64, "box": [1, 2.5, 3, 4]}
    _, _, files = predict({**FILES, "instances": [boxed, {"images": boxed}, {**B64, "box": None}]})
    assert [(file.content, file.box) for file in files[:2]] == [(b"file", (1, 2.5, 3, 4))] * 2
    assert files[2] == b"file"
    url = f"data:image/png;base64,{B64['b64']}"
    request = {"input": [url, url], "boxes": [None, [1, 2, 3, 4]]}
    (whole, part), _ = rest.read_embeddings(json.dumps(request).encode(), "model", 8, LIMITS)
    assert (whole, part.content, part.box) == (b"file", b"file", (1, 2, 3, 4))
    with pytest.raises(RefusedError, match="Received 1 boxes, expected 2: a box, or null, for each image"):
        rest.read_embeddings(json.dumps({**request, "boxes": [None]}).encode(), "model", 8, LIMITS)


@pytest.mark.parametrize(
    "box", [[1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, "4"], [1, 2, 3, None], "1", 7, {}, [[1, 2, 3, 4]]]
)
def test_a_box_of_other_than_four_numbers_is_refused(box):
    with pytest.raises(RefusedError, match=r"Image 1: Received another box, expected four numbers \[left, upper"):
        search({"instances": [B64, {**B64, "box": box}]})
    with pytest.raises(RefusedError, match="Image 0: Received 'boxes' beside 'images', expected 'box' beside 'b64'"):
        predict({**FILES, "instances": [{"images": B64, "boxes": box}]})
    with pytest.raises(RefusedError, match="Image 0: Received a box beside 'id', expected a box in a file"):
        search({"instances": [{"id": 7, "box": box}]})


def search(request):
    return rest.read_search(json.dumps(request).encode(), LIMITS)


def test_a_search_has_files_and_items_with_ten_neighbors_and_no_filter_by_default():
    assert search({"instances": [B64, {"id": "a"}, {"row": 3}]}) == ([b"file", ("id", "a"), ("row", 3)], 10, "{}")
    assert search({"instances": [{"text": "a red bird"}, B64]})[0] == ["a red bird", b"file"]
    assert search({"instances": [B64], "k": 20, "where": {"b": 1, "a": [2]}})[1:] == (20, '{"a": [2], "b": 1}')


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"k": 0}, "another k, expected a whole number from 1 to 20"),
        ({"k": 21}, "another k"),
        ({"k": True}, "another k"),
        ({"k": 2.0}, "another k"),
        ({"where": []}, "a list, expected where as an object"),
        ({"where": {"a": {"b": 1}}}, "where with 'a', expected texts, numbers, booleans or null"),
        ({"where": {"a": [[1]]}}, "where with 'a'"),
        ({"where": {"a": float("nan")}}, "not JSON"),
        ({"instances": None}, "null, expected a list"),
        ({"instances": [{"text": " "}]}, "Image 0: Received 'text', expected a text alone, of 1 to 1,000 characters"),
        ({"instances": [{"text": 1001 * "a"}]}, "Received 'text', expected a text alone"),
        ({"instances": [{"text": ["a"]}]}, "Received 'text', expected a text alone"),
        ({"instances": [{"text": "a", "box": [0, 0, 1, 1]}]}, "Received 'text', 'box', expected a text alone"),
        ({"instances": [{"row": 1}, {}]}, "Image 1: Received an object with no names"),
    ],
)
def test_another_search_is_refused_with_a_reason(options, reason):
    with pytest.raises(RefusedError, match=reason):
        search({"instances": [B64], **options})


URL = f"data:image/png;base64,{B64['b64']}"


@pytest.mark.parametrize(
    ("request_", "number", "as_base64"),
    [
        ({"input": URL}, 1, False),
        ({"input": [URL, URL], "model": "m", "dimensions": 8, "encoding_format": "base64", "user": "u"}, 2, True),
        (json.dumps({"input": [URL]}).replace("/", "\\/").encode(), 1, False),  # as PHP writes it
    ],
)
def test_images_to_embed_come_as_data_urls(request_, number, as_base64):
    body = request_ if isinstance(request_, bytes) else json.dumps(request_).encode()
    assert rest.read_embeddings(body, "m", 8, LIMITS) == ([b"file"] * number, as_base64)


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        ({}, 400, "Received nothing, expected a list of at least one image"),
        ({"input": []}, 400, "Received no images"),
        ({"input": [URL] * 4}, 413, "more than 3 images"),
        ({"input": [URL, "a cat"]}, 400, 'Image 1: Received a text, expected an image as "data:image/png;base64,'),
        ({"input": "https://example.org/cat.png"}, 400, "Image 0: Received a text, expected an image"),
        ({"input": [7]}, 400, "Image 0: Received a number, expected an image"),
        ({"input": URL[:-4] + "!!"}, 400, "Image 0: Received b64 that is not base64"),
        ({"input": URL, "model": "n"}, 400, "Received another model, expected 'm'"),
        ({"input": URL, "dimensions": 4}, 400, "Received another dimensions, expected 8"),
        ({"input": URL, "encoding_format": ["float"]}, 400, "another encoding_format, expected 'float' or 'base64'"),
    ],
)
def test_another_request_for_embeddings_is_refused_with_a_reason(request_, status, reason):
    with pytest.raises(RefusedError, match=re.escape(reason)) as caught:
        rest.read_embeddings(json.dumps(request_).encode(), "m", 8, LIMITS)
    assert caught.value.status == status


def test_embeddings_are_numbers_or_float32_in_base64():
    vectors = [np.array([0.5, -2.0], "float32"), np.array([1.0, 0.1], "float32")]
    plain, encoded = (json.loads(rest.embeddings("m", vectors, as_base64)) for as_base64 in (False, True))
    assert (plain["object"], plain["model"], [row["index"] for row in plain["data"]]) == ("list", "m", [0, 1])
    assert plain["data"][0] == {"object": "embedding", "index": 0, "embedding": [0.5, -2.0]}
    assert encoded["data"][0]["embedding"] == "AAAAPwAAAMA="  # 3f000000 and c0000000, lowest byte first
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(encoded["data"][1]["embedding"]), "<f4"), vectors[1])


def test_metadata_and_status_have_the_form_of_tensorflow_serving():
    found = rest.metadata("cats", "1", "f00d", (4, 5, 3), SIGNATURES)
    assert found["metadata"]["fingerprint"] == "f00d"
    assert found["model_spec"] == {"name": "cats", "signature_name": "", "version": "1"}
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == {"serving_default", "serve_bytes", "embed"}
    shape = signatures["serving_default"]["inputs"]["images"]["tensor_shape"]
    assert [dim["size"] for dim in shape["dim"]] == ["-1", "4", "5", "3"]
    assert [dim["size"] for dim in signatures["serve_bytes"]["inputs"]["images"]["tensor_shape"]["dim"]] == ["-1"]
    assert signatures["serve_bytes"]["outputs"]["embedding"]["tensor_shape"]["dim"][1]["size"] == "8"
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
