"""Files and images are cut out of a request before its JSON is read: what is left, and how much memory it takes."""

import base64
import json
import tracemalloc

import numpy as np
import pytest

from tfdml.serving import Limits, rest
from tfdml.serving.bodies import read_object
from tfdml.serving.limits import RefusedError
from tfdml.serving.signatures import Signature, signatures_of

MIB = 2**20
LIMITS = Limits(max_bytes=4 * MIB)
SIGNATURES = signatures_of(None, 8) | {"embed": Signature(pixels="embed", dtype="float32", outputs={})}


@pytest.mark.parametrize("shape", [(2, 1, 1), (1, 1, 1), (3, 2, 3), (1, 4, 3)])
@pytest.mark.parametrize("indent", [None, 2])
def test_what_is_cut_out_is_what_json_reads(shape, indent):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, shape), rng.normal(size=shape), rng.integers(-300, 300, shape), np.zeros(shape, int)]
    near = [[0, 1], "[[[0]]]"[:-1], [[[[[]]]]], {"b64": "QQ"}, {"c": {"b64": ""}}, [None, True, 1e5, "\u00e9"]]
    request = {"instances": [image.tolist() for image in images], "other": near, "b64": 7}
    found = read_object(json.dumps(request, indent=indent).encode(), LIMITS, shape)
    for image, cut in zip(images, found["instances"], strict=True):
        assert cut.dtype == (np.uint8 if image.dtype.kind == "i" and 0 <= image.min() <= image.max() <= 255 else "f4")
        np.testing.assert_array_equal(cut, image.astype(cut.dtype))
    assert found["other"][3:5] == [{"b64": b"QQ"}, {"c": {"b64": b""}}]
    assert {**found, "instances": [], "other": near[:3] + near[5:]} == {
        "instances": [],
        "other": [*found["other"][:3], found["other"][5]],
        "b64": 7,
    }


@pytest.mark.parametrize("number", ["01", "1.", ".5", "+1", "1e", "- 1", "0x1", "1 2", "Infinity", "٣"])
def test_a_number_that_json_does_not_have_is_refused(number):
    with pytest.raises(RefusedError):
        read_object(f'{{"instances": [[[[{number}]]]]}}'.encode(), LIMITS, (1, 1, 1))


def filled(begin, unit, end=b""):
    """The largest body that the server takes."""
    return begin + unit * ((LIMITS.max_body - len(begin) - len(end)) // len(unit)) + end


def images_of(shape, number):
    row = b",".join([b"[" + b",".join([number] * shape[2]) + b"]"] * shape[1])
    image = b"[" + b",".join([b"[" + row + b"]"] * shape[0]) + b"],"
    return b'{"signature_name":"embed","instances":[' + image * min(64, LIMITS.max_body // len(image) - 1) + b"1]}"


HOSTILE = {
    "lists": filled(b'{"instances":[', b"[],", b"[]]}"),
    "lists of one": filled(b'{"instances":[', b"[0],", b"[]]}"),
    "lists in a row": filled(b'{"instances":[[', b"[],", b"[]]]}"),
    "objects": filled(b'{"instances":[', b'{"a":0},', b"0]}"),
    "numbers": filled(b'{"instances":[[', b"300,", b"0]]}"),
    "texts": filled(b'{"instances":[[', b'"ab",', b"0]]}"),
    "depth": filled(b'{"instances":', b"["),
    "images begun": filled(b'{"instances":[', b"[[[1,2,3],"),
    "too much text": filled('{"instances":"\U0001f600'.encode(), b"a", b'"}'),
    "text of two kinds": '{"instances":"\U0001f600'.encode() + b"a" * (MIB - 40) + b'"}',
    "escapes": b'{"instances":"\\ud83d\\ude00' + b"a" * (MIB - 40) + b'"}',
    "texts as pixels": b'{"instances":[["' + b"x" * 190_000 + b'"' + b',""' * 3_000 + b"]]}",
    "allowed values": b'{"instances":[' + b"[0]," * 8_000 + b"0]}",
    "allowed objects": b'{"instances":[' + b'{"a":0},' * 5_000 + b"0]}",
    "empty files": filled(b'{"instances":[', b'{"b64":""},', b"0]}"),
    "a file": filled(b'{"signature_name":"serve_bytes","instances":[{"b64":"', b"AAAA", b'"}]}'),
    "images": images_of((224, 224, 3), b"7"),
    "one file of two": b'{"signature_name":"serve_bytes","instances":[{"b64":"' + b"AAAA" * MIB + b'"},{"b64":"A"}]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_request_takes_four_times_max_bytes_and_4_mib(name):
    body = HOSTILE[name]
    assert len(body) <= LIMITS.max_body
    rest.read_predict(b'{"instances":[[[[0]]]]}', SIGNATURES, (1, 1, 1), LIMITS)  # what is made once
    tracemalloc.start()
    try:
        found = rest.read_predict(body, SIGNATURES, (224, 224, 3), LIMITS)
    except RefusedError as error:
        found = error
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    refused = isinstance(found, RefusedError)
    assert refused == (name != "a file")
    assert not refused or (400 <= found.status < 500 and len(str(found)) < 400)
    assert peak + len(body) <= 4 * LIMITS.max_bytes + 4 * MIB


def test_a_long_text_and_a_long_list_of_values_are_read_in_a_search():
    where = {"label": [f"class {number}" for number in range(10_000)]}
    file = {"b64": base64.b64encode(b"file").decode()}
    body = json.dumps({"instances": [file, {"id": "x" * 500_000}], "where": where}).encode()
    queries, _, found = rest.read_search(body, LIMITS)
    assert queries == [b"file", ("id", "x" * 500_000)]
    assert json.loads(found) == where
