"""Values of a request are read when their type is known: files, and how much memory a request takes."""

import base64
import json
import tracemalloc

import pytest

from tfdml.serving import Limits, rest
from tfdml.serving.embedder import signatures_of
from tfdml.serving.limits import RefusedError

MIB = 2**20
LIMITS = Limits(max_bytes=4 * MIB)
SIGNATURES = signatures_of(None, 8)


CONTENT = bytes(range(256)) * 3 + b"\xfb\xff\xfe"
TEXT = base64.b64encode(CONTENT[:-2]).decode()  # with padding, plus signs and slashes


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace("+", r"\u002B").replace("=", r"\u003D"),  # System.Text.Json
        TEXT.replace("=", r"\u003d").replace("/", r"\/"),
        "".join(rf"\u{ord(letter):04x}" for letter in TEXT),
        TEXT.rstrip("="),
        TEXT.rstrip("=").replace("/", r"\/"),
        r"\r\n".join(TEXT[start : start + 76] for start in range(0, len(TEXT), 76)) + r"\n",  # MIME
        r"\n" + TEXT.rstrip("=") + " ",
    ],
)
def test_every_way_to_write_base64_in_json_is_the_same_file(text):
    assert "+" in TEXT
    assert "/" in TEXT
    assert TEXT.endswith("==")
    body = f'{{"instances": [{{"b64": "{text}"}}, {{"images": {{"b64": "{text}"}}}}]}}'.encode()
    assert [query.content for query in rest.read_search(body, LIMITS)[0]] == [CONTENT[:-2]] * 2


def filled(begin, unit, end=b""):
    """The largest body that the server takes."""
    return begin + unit * ((LIMITS.max_body - len(begin) - len(end)) // len(unit)) + end


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
    "an escaped file": b'{"signature_name":"serve_bytes","instances":[{"b64":"\\/' + b"AAAA" * MIB + b'AA"}]}',
    "names": filled(b'{"instances":0', b',"a":0', b"}"),
    "names of a row": filled(b'{"instances":[{"b64":""', b',"a":0', b"}]}"),
    "a long escaped text": filled(b'{"signature_name":"serve_bytes","instances":[{"b64":"', b"\\u0041", b'-"}]}'),
    "one file of two": b'{"signature_name":"serve_bytes","instances":[{"b64":"' + b"AAAA" * MIB + b'"},{"b64":"A"}]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_request_takes_four_times_max_bytes_and_4_mib(name):
    body = HOSTILE[name]
    assert len(body) <= LIMITS.max_body
    rest.read_predict(b'{"instances":[{"b64":""}]}', SIGNATURES, LIMITS)  # what is made once
    tracemalloc.start()
    try:
        found = rest.read_predict(body, SIGNATURES, LIMITS)
    except RefusedError as error:
        found = error
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    refused = isinstance(found, RefusedError)
    assert refused == (name not in ("a file", "an escaped file"))
    assert not refused or (400 <= found.status < 500 and len(str(found)) < 400)
    assert peak + len(body) <= 4 * LIMITS.max_bytes + 4 * MIB


@pytest.mark.parametrize("unit", [b'"ab",', b"1e9,", b"3000,", '"\u00e9",'.encode()])
def test_a_filter_within_the_limit_is_read_and_takes_twice_max_bytes(unit):
    where = b'{"a": [' + unit * ((LIMITS.max_filter - 10) // len(unit)) + b"1]}"
    tracemalloc.start()
    _, _, found, _ = rest.read_search(b'{"instances": [{"row": 1}], "where": ' + where + b"}", LIMITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert json.loads(found) == json.loads(where)
    assert peak <= 2 * LIMITS.max_bytes


def test_a_long_text_is_an_id_of_a_search():
    body = json.dumps({"instances": [{"b64": "ZmlsZQ=="}, {"id": "x" * 500_000}]}).encode()
    assert rest.read_search(body, LIMITS)[0][1].id == "x" * 500_000


def test_a_search_has_ten_neighbors_or_the_limit_by_default_and_its_filter_is_one_text_for_any_order():
    body = b'{"instances": [{"row": 1}], "where": {"b": 1, "a": [2]}}'
    assert rest.read_search(body, LIMITS)[1:3] == (10, '{"a": [2], "b": 1}')
    assert rest.read_search(b'{"instances": [{"row": 1}]}', LIMITS, 3)[1:3] == (3, "{}")
