"""One table of requests to one server: status, and answer or reason; no refusal reaches another request."""

import asyncio
import base64
import gzip
import json

import numpy as np
import pytest
from yarl import URL

from tests.serving.quick import (
    COLUMNS,
    EMBEDDINGS,
    EXPLAIN,
    IDS,
    MODEL,
    PREDICT,
    SEARCH,
    VECTORS,
    Quick,
    answer,
    file,
    sides,
    started,
)
from tfdml import search, serving
from tfdml.datasets import Preprocessing
from tfdml.serving import server

AB, CD, BAD = file(b"ab"), file(b"cd"), file(b"bad")
URL_AB = f"data:image/png;base64,{AB['b64']}"
BOX, BOXED = [1, 2.5, 3, 4], {**file(b"ab"), "box": [1, 2.5, 3, 4]}
IN_BASE64 = base64.b64encode(np.array([97, 98], "<f4").tobytes()).decode()
HALF = "\ud800"  # of a surrogate pair: no text
LONG = "x" * 60_000
LIMITS = {"max_images": 3, "max_neighbors": 20, "max_requests": 1_000}
FEATURES = {**COLUMNS, "price": [1, 2, 3, 4], "tags": [["x"], None, ["y", "z"], []], "size": [{"w": 1}] + [None] * 3}


class Damaged(dict):
    """Thumbnails that cannot be read."""

    def get(self, id, default=None):
        if id in self:
            raise ValueError("secret")
        return default


@pytest.fixture(scope="module")
def ask():
    """Function from requests, `(path, body, method, headers)`, at the same time to their statuses and contents."""
    index = search.Exact(VECTORS, IDS, metric="dot", metadata=FEATURES)
    options = {"index": index, "limits": serving.Limits(**LIMITS), "thumbnails": Damaged(a=b"", b=b"")}
    explains = {"similarity_map": lambda a, b: np.zeros((2, 1, 1))}

    def made(**more):
        return started(serving.application(None, Preprocessing(size=2), **options, **explains, **more))

    async def answers(client, requests):
        address = f"http://127.0.0.1:{client.port}"
        sent = [(URL(address + path, encoded=True), *rest) for path, *rest in requests]
        calls = (answer(client.session, url, body, method, headers=headers) for url, body, method, headers in sent)
        return await asyncio.gather(*calls)

    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setattr(server, "Embedder", Quick)
        client, without_texts = runner.run(made(texts=sides, dimensions=(1,))), runner.run(made())
        yield lambda *requests, texts=True: runner.run(answers(client if texts else without_texts, requests))
        for each in (client, without_texts):
            runner.run(each.close())


def post(path, body, headers=None):
    return path, body, "post", headers


def get(path, headers=None):
    return path, None, "get", headers


def embedded(*values):
    data = [{"object": "embedding", "index": row, "embedding": value} for row, value in enumerate(values)]
    return {"object": "list", "data": data, "model": "model", "usage": {"prompt_tokens": 0, "total_tokens": 0}}


def part_of(url, **others):
    return {"type": "image_url", "image_url": {"url": url, **others}}


VALUES = [97, 98]
ANSWERED = [
    *[
        (path, body, {"predictions": [VALUES] * 2})
        for path in (PREDICT, f"{MODEL}/versions/1:predict")
        for body in (
            {"instances": [AB, AB]},
            {"instances": [AB, AB], "signature_name": "serve_bytes"},
            {"instances": [{"images": AB}, {**AB, "box": None}]},
        )
    ],
    (PREDICT, {"inputs": [AB, CD]}, {"outputs": [VALUES, [99, 100]]}),
    (PREDICT, {"inputs": {"images": [AB, AB]}}, {"outputs": [VALUES] * 2}),
    (PREDICT, {"instances": [BOXED, {"images": BOXED}, CD]}, {"predictions": [[1, 2.5], [1, 2.5], [99, 100]]}),
    (EMBEDDINGS, {"input": URL_AB}, embedded(VALUES)),
    (EMBEDDINGS, json.dumps({"input": [URL_AB]}).replace("/", "\\/").encode(), embedded(VALUES)),  # as PHP writes it
    (EMBEDDINGS, {"input": URL_AB, "encoding_format": "base64"}, embedded(IN_BASE64)),
    (
        EMBEDDINGS,
        {"input": [URL_AB, "to the left"], "model": "model", "dimensions": 2, "encoding_format": "float", "user": "u"},
        embedded(VALUES, [-1, 0]),
    ),
    (EMBEDDINGS, {"input": URL_AB, **dict.fromkeys(("model", "dimensions", "user", "boxes"))}, embedded(VALUES)),
    (EMBEDDINGS, {"input": [URL_AB, URL_AB], "boxes": [None, BOX]}, embedded(VALUES, [1, 2.5])),
    (EMBEDDINGS, {"input": [part_of(URL_AB), part_of(URL_AB, detail="low")]}, embedded(VALUES, VALUES)),
    (EMBEDDINGS, {"input": [{"type": "text", "text": "to the left"}]}, embedded([-1, 0])),
    (EMBEDDINGS, {"input": [part_of(URL_AB)], "boxes": [BOX], "dimensions": 1}, embedded([1.0])),  # of norm 1
]


@pytest.mark.parametrize(("path", "body", "expected"), ANSWERED)
def test_every_form_of_a_request_is_answered(ask, path, body, expected):
    assert ask(post(path, body)) == [(200, expected)]


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ({"instances": [{"row": 2}]}, ["bad"]),  # all others
        ({"instances": [AB, {"id": "a"}, {"text": "to the left"}]}, ["cbad", "bcd", "dcba"]),
        ({"instances": [{**AB, "box": [0, 7, 1, 8]}, {"images": {"row": 0}}], "k": 1}, ["c", "b"]),
        ({"instances": [AB, {"row": 1}], "k": 20, "where": {"label": ["x", None], "price": [2, 1]}}, ["ba", "a"]),
        ({"instances": [AB], "where": {"label": "none"}}, [""]),
        ({"instances": [{"id": "c"}], "positive": ["d"]}, ["dba"]),
        ({"instances": [{"id": "c"}], "positive": ["d"], "negative": ["a"]}, ["db"]),
        ({"instances": [AB], "negative": ["c", "b"]}, ["ad"]),  # left out, and the query stays
    ],
)
def test_every_kind_of_query_is_searched(ask, body, ids):
    ((status, found),) = ask(post(SEARCH, body))
    assert (status, ["".join(each["id"] for each in neighbors) for neighbors in found["neighbors"]]) == (200, ids)


def test_models_are_listed_and_described_as_by_tensorflow_serving_and_by_language_models(ask):
    paths = (MODEL, f"{MODEL}/versions/1", "/v1/models", f"{MODEL}/metadata", f"{MODEL}/index")
    status, versioned, listed, found, about = (content for _, content in ask(*map(get, paths)))
    good = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert status == versioned == {"model_version_status": [good]}
    (model,) = listed["data"]
    assert model == {"id": "model", "object": "model", "owned_by": "tfdml", "created": model["created"], **status}
    assert found["model_spec"] == {"name": "model", "signature_name": "", "version": "1"}
    (name, signature), *others = found["metadata"]["signature_def"]["signature_def"].items()
    sizes = [dim["size"] for dim in signature["outputs"]["embedding"]["tensor_shape"]["dim"]]
    assert (name, sizes, others, found["metadata"]["fingerprint"]) == ("serve_bytes", ["-1", "2"], [], None)
    assert signature["inputs"]["images"]["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]
    facts = {"items": 4, "dim": 2, "metric": "dot", "max_neighbors": 20, "texts": True, "explains": False}
    assert {name: about[name] for name in facts} == facts


SEARCHES = {  # of what each request searches, beside `instances`
    "400: another k, expected a whole number from 1 to 20": [{"k": k} for k in (0, 21, 10**30)],
    "400: Expected `int`, got": [{"k": k} for k in (True, 2.0, "2", None)],
    "400: expected 'instances' or 'k' or 'where' or 'positive' or 'negative'.": [
        {name: 3} for name in ("top_k", "size", LONG)
    ],
    "400: an object with 'instances', 'filter', 'filters'": [{"filter": {"label": "cat"}, "filters": []}],
    "400: a list, expected where as an object": [{"where": []}],
    "404: judged items that are gone: 'e', 'f', expected": [{"positive": ["a", "e"], "negative": ["f"]}],
    "400: an item that is judged twice": [{"positive": ["a"], "negative": ["a"]}, {"positive": ["a", "a"]}],
    "413: 41 judged items, expected 40 at most": [{"positive": [str(number) for number in range(41)]}],
    "400: Expected `int | str`": [{"positive": [1.5]}, {"negative": [None]}],
    "400: Expected `array`, got `int`": [{"negative": 3}],
    "413: Received positive of": [{"positive": ["x" * 99] * 10_000}],
    "400: where 'label': Received JSON of another form": [{"where": {"label": bad}} for bad in ({"a": 1}, [["x"]])],
    "400: a filter of 'price'": [{"where": {"price": value}} for value in ("cheap", 2**70, [1, None, "x"], 1.5)],
    "400: expected columns of the index that are not lists or objects. Remove them": [
        *[{"where": {name: value}} for name in ("tags", "size") for value in (None, "x", ["x"])],
        *[{"where": {name: 1}} for name in ("path", "color", LONG)],
    ],
    "400: ": [{"where": {"label": [1, "x"]}}, *[{"where": where} for where in ({"label": HALF}, {HALF: 1})]],
    "413: Received where of": [{"where": {"label": ["x" * 99] * 10_000}}],
}
REFUSED = {
    PREDICT: {
        "400: not JSON": [
            *(b"", b"{", b"\xff\xfe\xfa", json.dumps({}).encode("utf-16"), b'{"a":' * 5_000),
            *(b'{"instances": [NaN]}', b'{"instances": [{"b64": NaN}, {"b64": "QUJD"}]}'),
            {"signature_name": HALF, "instances": [AB]},
        ],
        "400: JSON of another form": [b"[" * 90_000, b"9" * 10_000],
        "400: JSON of another form: Expected `object`, got `array`": [b"[]"],
        "400: an object with a name twice": [
            *(b'{"instances": [1], "instances": [1]}', b'{"instances": [1], "instance\\u0073": [1]}'),
            b'{"signature_name": "serve_bytes", "instances": [{"b64": "", "b64": ""}]}',
        ],
        "413: an object of more than 1,000 names": [{f"a{number}": 1 for number in range(1_001)}],
        "400: no names, expected either instances or inputs": [{}],
        "400: either instances or inputs": [{"instances": [AB], "inputs": [AB]}],
        "400: 'train', expected 'serve_bytes'": [{"signature_name": "train", "instances": [AB]}],
        "400: expected 'serve_bytes'": [
            {"signature_name": name, "instances": [AB]} for name in ("serving_default", "search", LONG)
        ],
        "400: Expected `str`, got `array` - at `$.signature_name`": [{"signature_name": ["train"], "instances": [AB]}],
        "400: Did you mean 'signature_name'?": [{"signature": "serve_bytes", "instances": [AB]}],
        "400: no images, expected a list of at least one image": [{"instances": []}],
        "400: a text, expected a list": [{"instances": "abc"}],
        "413: more than 3 images": [{"instances": [AB] * 4}, {"instances": [[] for _ in range(60_000)]}],
        "400: Image 1: Received a text, expected a file as": [{"instances": [AB, "/etc/passwd"]}],
        "400: b64 that is a number": [{"instances": [{"b64": 3}]}],
        "400: 'id', expected a file as": [{"instances": [{"id": 3}]}],
        "400: a list, expected a file as": [
            {"instances": [row]} for row in ([[[0]], [[1]]], [LONG, ""], [[]] * 60_000)
        ],
        "400: Image 0: Received an object with 'images'": [{"instances": [{"images": AB, "boxes": BOX}]}],
        "400: Image 1: Received no image, expected one.": [{"instances": [AB, BAD]}],
        "400: Image 0: Received no image, expected one. Image 2: Received no": [{"instances": [BAD, AB, BAD]}],
    },
    SEARCH: {
        **{key: [{"instances": [AB], **options} for options in rows] for key, rows in SEARCHES.items()},
        "400: Did you mean 'instances'?": [{"instance": [AB]}],
        "400: a name twice": [b'{"instances": [{"b64": ""}], "where": {"a": 1, "a": 2}}'],
        "400: not JSON": [b'{"instances": [{"b64": ""}], "where": {"a": NaN}}', {"instances": [{"id": HALF}]}],
        "400: null, expected a list": [{"instances": None}],
        "400: nothing, expected a list": [{}],
        "400: no images, expected a list": [{"instances": []}],
        "400: Image 1: Received an object with no names, expected 'b64' or 'id' or 'row' or 'text'.": [
            {"instances": [{"row": 1}, {}]}
        ],
        "400: Image 0: Received JSON of another form": [
            *[{"instances": [{"id": id}]} for id in (True, None, ["a"], {"a": 1}, 1.5)],
            *[{"instances": [{"row": row}]} for row in (True, 1.0, "1", None, [0])],
            *[{"instances": [{"text": text}]} for text in (["a"], 7)],
        ],
        "400: Image 0: Received another text, expected a text of 1 to 1,000 characters": [
            {"instances": [{"text": text}]} for text in (" ", 1001 * "a")
        ],
        "400: an object with 'row', 'b64', expected 'b64' or 'id' or 'row' or 'text'": [
            {"instances": [{"row": 0, **AB}]}
        ],
        "400: an object with 'id', 'row'": [{"instances": [{"id": "a", "row": 7}]}],
        "400: an object with 'id', 'box', expected 'id' or 'row'.": [{"instances": [{"id": "a", "box": BOX}]}],
        "400: an object with 'text', 'box', expected 'text'.": [{"instances": [{"text": "a", "box": BOX}]}],
        "400: Did you mean 'box'?": [{"instances": [{**AB, "bbox": BOX}]}],
        "400: Did you mean 'b64'?": [{"instances": [{"base64": ""}]}],
        "400: Image 1: Received JSON of another form": [
            {"instances": [AB, {**AB, "box": box}]}
            for box in (BOX[1:], [*BOX, 5], [1, 2, 3, "4"], [1, 2, 3, None], [1, 2, 3, True], "1", 7, {}, [[1] * 4])
        ],
        "400: Image 0: Received b64 that is not base64": [
            {"instances": [{"b64": text}]}
            for text in ("Q", "QUJDQ", "QQ==QQ==", "QU-_", "Q\u00e9JD", "../../etc", URL_AB, "Q=Q=", "Q\\")
        ],
        "400: Image 0: Received b64 that is": [{"instances": [{"b64": value}]} for value in (1, None)],
        "400: Image 0: Received no image": [{"instances": [BAD]}],
        "400: Image 2: Received no image, expected one.": [{"instances": [{"id": "a"}, AB, BAD]}],
        "400: An image cannot be searched": [{"instances": [file(b"huge")]}],
        "404: another id, expected one of the 4 items of the index": [
            *[{"instances": [{"id": id}]} for id in ("e", "x" * 3_000_000, "a\0", "", 1)],
            {"instances": [BAD, {"id": "e"}]},
        ],
        "404: another row, expected one of the 4 items": [
            *[{"instances": [{"row": row}]} for row in (-1, 4, 10**400)],
            {"instances": [{"row": 0}, {"row": 9}]},
        ],
    },
    EXPLAIN: {
        "400: 1 instances, expected two, files or items": [{"instances": [AB]}],
        "400: 3 instances": [{"instances": [AB] * 3}],
        "400: two, files or items": [{"instances": [AB, {"text": "a cat"}]}],
        "400: 'k', expected 'instances'.": [{"instances": [AB] * 2, "k": 3}],
        "400: an item without its file": [{"instances": [AB, {"row": 2}]}],
        "404: another id": [{"instances": [AB, {"id": "e"}]}],
    },
    EMBEDDINGS: {
        "400: Received nothing, expected a list of at least one image": [{}],
        "400: Received no images": [{"input": []}],
        "413: more than 3 images": [{"input": [URL_AB] * 4}],
        '400: Image 1: Received an address, which is not fetched, expected a text, or an image as "data:image': [
            {"input": [URL_AB, text]}
            for text in ("https://a.org/b.png", "file:///etc/passwd", "data:text/plain,x", "DATA:image/png;base64,")
        ],
        "400: Image 0: Received another text, expected a text of 1 to": [
            {"input": [text]} for text in ("", 1001 * "a")
        ],
        "400: Image 0: Received a": [{"input": tokens} for tokens in ([7], [[7, 8]])],
        "400: Image 0: Received b64 that is not base64": [{"input": URL_AB[:-4] + "!!"}],
        "400: Image 1: Received no image, expected one.": [{"input": [URL_AB, f"data:image/png;base64,{BAD['b64']}"]}],
        "400: Received another model, expected 'model'": [{"input": URL_AB, "model": "n"}],
        "400: Received another dimensions, expected 2 or 1": [{"input": URL_AB, "dimensions": 4}],
        "400: Image 0: Received an address, which is not fetched": [
            {"input": [each]} for each in (part_of("https://a.org/b.png"), {"type": "image_url", "image_url": "a cat"})
        ],
        "400: Image 0: Received a part of type 'text' without text": [{"input": [{"type": "text"}]}],
        "400: Image 0: Received JSON of another form: Invalid enum value 'audio'": [
            {"input": [{"type": "audio", "text": "x"}]}
        ],
        "400: Invalid enum value": [{"input": URL_AB, "encoding_format": kind} for kind in ("float16", LONG)],
        "400: at `$.encoding_format`": [{"input": URL_AB, "encoding_format": ["float"]}],
        "400: Received 1 boxes, expected 2: a box, or null, for each image": [
            {"input": [URL_AB, URL_AB], "boxes": [None]}
        ],
        "400: Image 0: Received JSON of another form": [{"input": URL_AB, "boxes": [[1, 2, 3]]}],
        "400: Image 0: Received a box beside a text": [{"input": "a cat", "boxes": [BOX]}],
        "400: Did you mean 'boxes'?": [{"input": URL_AB, "box": BOX}],
        "400: Did you mean 'input'?": [{"inputs": URL_AB}],
        "400: an object with 'input', 'truncate', expected 'input' or 'boxes' or 'model'": [
            {"input": URL_AB, "truncate": True}
        ],
    },
}
ADDRESSES = {
    "405: Allow": ["post /", f"get {PREDICT}", f"post {MODEL}/items", f"post {MODEL}/items/a/thumbnail"],
    "404: unknown address": [
        *(
            "get /nothing",
            "post /v1/models/other:predict",
            f"post {MODEL}/versions/2:predict",
            f"get {MODEL}/versions/2",
        ),
        *(f"get {MODEL}/items/{rest}" for rest in ("a/b/thumbnail", "/thumbnail", "a/thumbnail/")),
        *("get /page.css/../../setup.cfg", "get /%2e%2e/%2e%2e/etc/passwd"),
    ],
    "404: one of the 4 items": [
        *(f"get {MODEL}/pictures/{id}" for id in ("e", "a.png", "..%2f..%2fetc%2fpasswd")),
        *(f"get {MODEL}/items/{id}/thumbnail" for id in ("e", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "a%00", "%ed%a0%80")),
    ],
    "404: gone or damaged": [f"get {MODEL}/pictures/c"],
    "404: without a thumbnail": [f"get {MODEL}/items/d/thumbnail"],
    "404: thumbnail is damaged": [f"get {MODEL}/items/b/thumbnail"],
    "400: another n, expected a whole number from 1 to 20": [
        f"get {MODEL}/items?n={n}"
        for n in ("0", "21", "", "1.0", "%D9%A3", "9" * 5000)  # the last but one is a digit
    ],
    "400: another seed": [f"get {MODEL}/items?seed={seed}" for seed in (-1, 2**63)],
    "400: expected n and seed, once each": [f"get {MODEL}/items?n=1&n=2"],
    "400: expected 'n' or 'seed'": [f"get {MODEL}/items?secret_x=1"],
    "400: Received parameters 'k', 'xxx": [f"post {path}?k=1&{'x' * 100}=2" for path in (SEARCH, PREDICT, EMBEDDINGS)],
}
HEADERS = {
    "403: a page of another site": [
        *[{"Origin": origin} for origin in ("http://example.com", "null", "http://localhost:1")],
        {"Origin": "http://localhost.example.com:80", "Host": "localhost"},
        *[{"Sec-Fetch-Site": site} for site in ("cross-site", "same-site")],
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
    "403: expected localhost": [{"Host": host} for host in ("example.com", "127.0.0.1.example.com", "[::1", "")],
    "415: Send plain JSON": [{"Content-Encoding": "gzip"}],
}
KINDS = ("text/plain", "application/x-www-form-urlencoded", "application/json")


def requests_of(group):
    """Requests with their status and a part of the reason."""
    if group == "addresses":
        split = ((key, *each.split(" ")) for key, listed in ADDRESSES.items() for each in listed)
        rows = ((key, (path, None, method, None)) for key, method, path in split)
    elif group == "headers":
        right = [(PREDICT, {"instances": [AB]}), (SEARCH, {"instances": [{"row": 0}]})]
        headers = [
            (key, {**each, "Content-Type": kind}) for key, rows in HEADERS.items() for each in rows for kind in KINDS
        ]
        gzipped = [(path, gzip.compress(json.dumps(body).encode())) for path, body in right]
        rows = (
            (key, post(path, body, each))
            for key, each in headers
            for path, body in (gzipped if each.get("Content-Encoding") == "gzip" else right)
        )
    else:
        rows = ((key, post(group, body)) for key, bodies in REFUSED[group].items() for body in bodies)
    return [(*key.partition(": ")[::2], request) for key, request in rows]


@pytest.mark.parametrize("group", [*REFUSED, "addresses", "headers"])
def test_a_wrong_request_is_refused_with_a_reason_and_no_right_one_notices(ask, group, caplog):
    right = (
        post(SEARCH, {"instances": [{"id": "a"}, AB], "k": 2, "where": {"label": "x"}}),
        post(PREDICT, {"inputs": [CD]}),
    )
    expected = ask(*right)
    assert [status for status, _ in expected] == [200, 200]
    rows = requests_of(group)
    groups = [[row] for row in rows] if group == "headers" else [rows]  # refused before their bodies are read
    found = [
        each for together in groups for each in ask(*(one for *_, request in together for one in (request, *right)))
    ]
    for (status, reason, request), (actual, content) in zip(rows, found[::3], strict=True):
        said = content["error"]
        assert (actual, list(content)) == (int(status), ["error"]), (str(request)[:100], said)
        assert reason in said, str(request)[:100]
        assert len(said) < 500
        assert "secret" not in said.replace("'secret_x'", "")
    assert all([*found[row + 1 : row + 3]] == expected for row in range(0, len(found), 3))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_text_is_refused_where_there_is_no_text_model(ask):
    texts = [{"instances": [AB, {"text": "left"}]}, {"input": [URL_AB, "left"]}]
    for status, content in ask(*map(post, (SEARCH, EMBEDDINGS), texts), texts=False):
        assert (status, content["error"][-29:]) == (400, "the server has no text model.")


def test_the_servers_own_page_programs_and_links_are_answered(ask):
    own = {"Host": "localhost:7", "Origin": "http://localhost:7"}
    picture = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    hosts = ("localhost", "127.0.0.1:99", "127.0.0.2", "[::1]:99", "[::ffff:127.0.0.1]:99")
    right = [
        post(PREDICT, {"inputs": [AB]}, headers) for headers in ({}, own, {**own, "Sec-Fetch-Site": "same-origin"})
    ]
    right += [get("/healthz", {"Host": host}) for host in hosts]
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    right += [get(f"{MODEL}/items", headers) for headers in (link, {**link, "Sec-Fetch-Site": "none"})]
    assert {status for status, _ in ask(*right)} == {200}
    wrong = [{**link, "Sec-Fetch-Dest": "iframe"}, picture, {"Origin": "http://example.com"}]
    paths = ("pictures/b", "items/a/thumbnail", "items")
    assert {status for status, _ in ask(*(get(f"{MODEL}/{path}", each) for path in paths for each in wrong))} == {403}


@pytest.mark.parametrize(("max_bytes", "expected"), [(3, 4), (4, 8), (6, 8)])
def test_a_request_has_room_for_the_largest_file_as_base64(max_bytes, expected):
    assert len(base64.b64encode(bytes(max_bytes))) == expected
    assert serving.Limits(max_bytes=max_bytes).max_body == expected + 2**16


@pytest.mark.parametrize("wrong", [{"max_bytes": 0}, {"max_requests": 1.5}, {"seconds": 0}, {"seconds": -1}])
def test_a_limit_is_positive(wrong):
    with pytest.raises(ValueError, match=r"Received .*, expected"):
        serving.Limits(**wrong)
