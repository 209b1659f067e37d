"""The server over HTTP, with a fast model in place of an exported one."""

import asyncio
import inspect
import json
import os
import re
import signal
import threading
import urllib.request
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from tests.serving.quick import COLUMNS, EXPLAIN, PREDICT, SEARCH, VECTORS, Quick, answer, file, files, numbers, sides
from tfdml import models, search, serving, visualize
from tfdml.datasets import Preprocessing
from tfdml.serving import server as module
from tfdml.serving.run import listen, run_with


@pytest.fixture
def serve(monkeypatch):
    """Function that runs `story(client)` against a server with these limits."""
    monkeypatch.setattr(module, "Embedder", Quick)
    monkeypatch.setattr(Quick, "go", threading.Event())
    monkeypatch.setattr(Quick, "begun", ())
    index = search.Exact(VECTORS, np.array(["a", "b", "c", "d"]), metadata=COLUMNS)

    def run(story, *, index=index, version=1, texts=None, **options):
        others = {name: options.pop(name, None) for name in ("thumbnails", "log", "newer", "item_column")}
        limits = options

        async def told():
            options = {"version": version, "index": index, "texts": texts, **others}
            options["limits"] = serving.Limits(**limits)
            app = serving.application(None, Preprocessing(size=2), **options)
            async with TestClient(TestServer(app)) as client:
                try:
                    await asyncio.wait_for(story(client), 20)
                finally:
                    Quick.go.set()

        asyncio.run(told())

    return run


def served(**options):
    """Decorates a test `async def test(client, ...)`, which runs against a server with these options of `serve`."""

    def decorated(story):
        def test(serve, **fixtures):
            serve(lambda client: story(client, **fixtures), **options)

        fixtures = list(inspect.signature(story).parameters)[1:]
        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("serve", *fixtures)]
        test.__signature__ = inspect.Signature(parameters)
        return test

    return decorated


def test_the_rest_client_of_the_page_is_answered_as_by_tensorflow_serving(serve):
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
    names = {}
    exec(re.search(r"^(import base64\n.*?)^```", page, re.MULTILINE | re.DOTALL)[1], names)

    async def story(client):
        address = str(client.make_url("/v1/models/model"))
        found = await asyncio.to_thread(names["ask"], address, "serve_bytes", [b"ab", b"cd"])
        assert found == [[97, 98], [99, 100]]

    serve(story)


@served(version=7)
async def test_the_version_of_the_model_is_named_and_has_its_address(client):
    for place in ("/v1/models/model", "/v1/models/model/versions/7"):
        assert (await answer(client, place, method="get"))[1]["model_version_status"][0]["version"] == "7"
        assert (await answer(client, f"{place}/metadata", method="get"))[1]["model_spec"]["version"] == "7"
    assert await answer(client, "/v1/models/model/versions/7:predict", files(b"ab")) == (
        200,
        {"predictions": [[97, 98]]},
    )
    assert (await answer(client, "/v1/models/model/versions/1", method="get"))[0] == 404


@served()
async def test_a_bad_image_refuses_its_request_with_its_place_and_no_other_request(client):
    bodies = [files(b"ab", b"bad"), files(b"ab"), files(b"bad")]
    found = await asyncio.gather(*(answer(client, PREDICT, body) for body in bodies))
    assert found[0] == (400, {"error": "Image 1: Received no image, expected one."})
    assert found[1] == (200, {"predictions": [[97, 98]]})
    assert found[2][0] == 400
    counted = await numbers(client)
    assert counted['tfdml_images_total{result="embedded"}'] == "2.0"
    assert counted['tfdml_images_total{result="refused"}'] == "2.0"
    assert counted['tfdml_requests_total{route="/v1/models/model:predict",status="400"}'] == "2.0"
    assert counted["tfdml_batch_images_sum"] == "4.0"
    assert float(counted["process_resident_memory_bytes"]) > 2**20


@served()
async def test_random_items_are_distinct_items_of_the_index_and_a_seed_repeats_them(client):
    items = "/v1/models/model/items"
    status, found = await answer(client, items, method="get")
    assert status == 200
    assert sorted(each["id"] for each in found["items"]) == ["a", "b", "c", "d"]
    assert {"id": "c", "row": 2, "name": "gone.png", "metadata": {"label": "y"}} in found["items"]
    drawn = [(await answer(client, f"{items}?n=2&seed={seed}", method="get"))[1] for seed in [*range(20), 3]]
    assert {len({each["id"] for each in draw["items"]}) for draw in drawn} == {2}
    assert drawn[3] == drawn[-1]
    assert {each["id"] for draw in drawn for each in draw["items"]} == {"a", "b", "c", "d"}
    assert (await answer(client, f"{items}?n={10**2}", method="get"))[0] == 200
    assert (await numbers(client))['tfdml_requests_total{route="/v1/models/model/items",status="200"}'] == "23.0"


@served(max_neighbors=3)
async def test_no_more_items_than_neighbors_are_sent(client):
    for query, status, count in (("", 200, 3), ("?n=3", 200, 3), ("?n=4", 400, 0)):
        found, content = await answer(client, f"/v1/models/model/items{query}", method="get")
        assert (found, len(content.get("items", []))) == (status, count)


@pytest.mark.parametrize(
    ("ids", "id", "address"),
    [
        (["../a", "b"], "../a", "..%2Fa"),
        (["é &?#", "b"], "é &?#", "%C3%A9%20%26%3F%23"),
        (["100%2F{x}", "b"], "100%2F{x}", "100%252F%7Bx%7D"),
        (["", "7"], "7", "7"),
        ([7, -3], -3, "-3"),
        ([2**62, 7], 2**62, str(2**62)),
    ],
)
def test_a_thumbnail_is_asked_for_by_the_encoded_id_and_stands_in_for_the_file(serve, ids, id, address):
    async def story(client):
        for path in (f"items/{address}/thumbnail", f"pictures/{address}"):
            url = URL(f"http://127.0.0.1:{client.port}/v1/models/model/{path}", encoded=True)
            async with client.session.get(url) as response:
                assert (response.status, response.content_type) == (200, "image/jpeg")
                assert await response.read() == b"jpeg"
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                etag = {"If-None-Match": response.headers["ETag"]}
            async with client.session.get(url, headers=etag) as response:
                assert (response.status, response.headers["Cache-Control"]) == (304, "no-cache")
        for wrong in ("7.0", "+8", "1e0", "8", "9" * 19, "9" * 5000, "x"):
            assert (await answer(client, f"/v1/models/model/items/{wrong}/thumbnail", method="get"))[0] == 404

    index = search.Exact(VECTORS[:2], np.array(ids), metadata={"path": ["a.png", "b.png"]})
    serve(story, index=index, thumbnails={id: b"jpeg"})


@served(index=search.Exact(VECTORS), thumbnails={0: b"jpeg"})
async def test_an_index_without_files_has_the_pictures_of_its_thumbnails(client):
    facts = (await answer(client, "/v1/models/model/index", method="get"))[1]
    assert (facts["pictures"], facts["random_items"]) == (True, True)
    assert (await answer(client, "/v1/models/model/pictures/1", method="get"))[0] == 404


def test_options_of_an_index_need_one(serve):
    with pytest.raises(ValueError, match="item_column='product' without index, expected index"):
        serve(None, index=None, item_column="product")
    with pytest.raises(ValueError, match="thumbnails without index"):
        serve(None, index=None, thumbnails={0: b""})


@served()
async def test_another_method_is_told_the_right_one_and_addresses_of_clients_are_no_names_of_metrics(client):
    async with client.get(PREDICT) as response:
        assert (response.status, response.headers["Allow"]) == (405, "POST")
    await answer(client, "/nothing/1", method="get")
    await answer(client, "/nothing/2", method="get")
    counted = await numbers(client)
    assert counted['tfdml_requests_total{route="unknown",status="404"}'] == "2.0"
    assert counted['tfdml_request_seconds_count{route="unknown"}'] == "3.0"
    assert "nothing" not in str(counted)


def test_searches_of_files_are_logged_and_counted_by_the_score_of_their_nearest(serve, tmp_path):
    log, cosine = tmp_path / "searches.csv", float(VECTORS[1] @ [7, 7]) / np.linalg.norm(VECTORS[1]) / np.sqrt(98)

    async def story(client):
        body = {"instances": [file(b"\x00\x07"), {"id": "a"}, file(b"\x07\x07")], "where": {"label": ["x", "y"]}}
        assert (await answer(client, SEARCH, body))[0] == 200
        assert (await answer(client, SEARCH, body | {"where": {"label": "none"}}))[0] == 200
        found = await numbers(client)
        assert (found["tfdml_search_best_score_count"], found["tfdml_searches_unknown_total"]) == ("2.0", "0.0")

    for _ in range(2):
        serve(story, log=log)
    times, scores, unknown = zip(*(line.split(",") for line in log.read_text().splitlines()), strict=True)
    assert (times[0], scores[0], unknown) == ("time", "score", ("unknown", "", "", "", ""))
    np.testing.assert_allclose([float(score) for score in scores[1:]], 2 * [1, cosine], rtol=1e-5)
    assert {time[10:11] + time[-6:] for time in times[1:]} == {"T+00:00"}
    log.write_text("id,label\n")
    with pytest.raises(ValueError, match="one that a server has written"):
        serve(story, log=log)


@served(texts=sides)
async def test_texts_are_searched_beside_files_and_items_and_are_no_searches_of_images(client):
    body = {"instances": [{"text": "to the left"}, file(b"\x00\x07"), {"id": "a"}, {"text": "right"}], "k": 1}
    _, found = await answer(client, SEARCH, body)
    assert [[each["id"] for each in result] for result in found["neighbors"]] == [["d"], ["c"], ["b"], ["a"]]
    assert (await answer(client, "/v1/models/model/index", method="get"))[1]["texts"] is True
    assert (await numbers(client))["tfdml_search_best_score_count"] == "1.0"


def test_texts_of_another_model_or_of_another_dim_are_refused_at_the_start(monkeypatch):
    monkeypatch.setattr(module, "Embedder", Quick)
    sides.fingerprint = "old"
    for model, texts, reason in (
        (SimpleNamespace(fingerprint="new"), sides, "texts of model old .*, expected those of model new"),
        (None, lambda texts: sides(texts)[:, :1], "texts of dim 1, expected 2 as of the model"),
    ):
        with pytest.raises(ValueError, match=reason):
            serving.application(model, Preprocessing(size=2), texts=texts, index=search.Exact(VECTORS))


@served()
async def test_pictures_are_asked_for_by_id_and_kept(client):
    for _ in range(2):
        async with client.get("/v1/models/model/pictures/b") as response:
            assert (response.status, response.content_type) == (200, "image/png")
            assert await response.read() == b"b.png of 192"


@served(index=None)
async def test_a_server_without_index_has_neither_search_nor_page(client):
    for path, method in ((SEARCH, "post"), ("/", "get"), ("/v1/models/model/index", "get")):
        assert (await answer(client, path, method=method))[0] == 404
    assert (await answer(client, "/v1/models/model", method="get"))[0] == 200
    assert (await answer(client, "/v1/models/model/metadata", method="get"))[0] == 200


def test_an_index_of_another_model_is_refused_at_the_start_and_the_server_states_its_own(monkeypatch):
    monkeypatch.setattr(module, "Embedder", Quick)
    model, view = SimpleNamespace(fingerprint="new"), Preprocessing(size=2)
    index = search.Exact(VECTORS, model="old")
    with pytest.raises(
        ValueError, match=r"a server of model new \(fingerprint new/.{16}\), expected .* as of the index"
    ):
        serving.application(model, view, index=index)

    async def stated(app):
        async with TestClient(TestServer(app)) as client:
            return (await answer(client, "/v1/models/model/metadata", method="get"))[1]["metadata"]["fingerprint"]

    for options in ({"index": index, "other_model": True}, {"index": search.Exact(VECTORS, model="new")}):
        application = serving.application(model, view, **options)
        assert asyncio.run(stated(application)) == f"new/{view.fingerprint()}"


def test_an_index_of_another_dim_and_a_name_that_is_no_address_are_errors(serve):
    with pytest.raises(ValueError, match=r"an index of dim 3, expected 2 as of the model's embeddings"):
        serve(None, index=search.Exact(np.ones((2, 3)), metric="dot"))
    for name in ("", "a/b", "../a", "{a}"):
        with pytest.raises(ValueError, match="expected letters, digits"):
            serving.application(None, Preprocessing(size=2), name=name)


def test_a_request_beyond_the_size_is_refused_before_and_while_it_is_read(serve):
    async def parts():
        for _ in range(40):
            yield bytes(2**12)

    async def story(client):
        reader, writer = await asyncio.open_connection(client.host, client.port)
        writer.write(f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {10**12}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413")
        writer.close()
        assert (await answer(client, PREDICT, bytes(2**17)))[0] == 413
        async with client.post(PREDICT, data=parts()) as response:  # of unknown length
            assert response.status == 413
            assert "too large" in (await response.json())["error"]
        assert (await answer(client, PREDICT, files(b"ab")))[0] == 200

    serve(story, max_bytes=100)


@served(max_requests=2)
async def test_more_requests_than_the_limit_are_sent_away_but_health_and_metrics_answer(client):
    slow = [asyncio.create_task(answer(client, PREDICT, files(b"slow"))) for _ in range(2)]
    while (await numbers(client))["tfdml_requests_active"] != "2.0":
        await asyncio.sleep(0.01)
    async with client.post(PREDICT, data="{}") as response:
        assert response.status == 503
        assert response.headers["Retry-After"] == "1"
    assert await answer(client, "/healthz", method="get") == (200, {"status": "ok"})
    Quick.go.set()
    assert [status for status, _ in await asyncio.gather(*slow)] == [200, 200]
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200


@served()
async def test_a_file_is_read_while_the_batch_before_is_computed(client):
    requests = [asyncio.create_task(answer(client, PREDICT, files(b"slow")))]
    while b"slow" not in Quick.begun:
        await asyncio.sleep(0.01)
    requests.append(asyncio.create_task(answer(client, PREDICT, files(b"ab"))))
    while b"ab" not in Quick.begun:  # before the slow one is done
        await asyncio.sleep(0.01)
    Quick.go.set()
    assert [status for status, _ in await asyncio.gather(*requests)] == [200, 200]


@served(seconds=0.1)
async def test_a_model_that_takes_too_long_gives_504_and_is_not_healthy_until_it_is_done(client):
    status, found = await answer(client, PREDICT, files(b"slow"))
    assert status == 504
    assert "within 0.1 seconds" in found["error"]
    while await answer(client, "/healthz", method="get") != (503, {"status": "stuck"}):
        await asyncio.sleep(0.01)
    Quick.go.set()
    while (await answer(client, "/healthz", method="get"))[0] != 200:
        await asyncio.sleep(0.01)
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200


async def until(client, active):
    while (await numbers(client))["tfdml_requests_active"] != active:
        await asyncio.sleep(0.01)


async def sent(client, body, length=None):
    """A connection on which a request, or a part of it, was sent."""
    _, writer = await asyncio.open_connection(client.host, client.port)
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length or len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return writer


@served(max_requests=2)
async def test_no_more_files_are_read_for_a_client_that_left(client):
    writer = await sent(client, json.dumps(files(*[b"large"] * 64)).encode())
    while len(Quick.begun) < 7:
        await asyncio.sleep(0.01)
    writer.close()
    for _ in range(3):
        assert (await answer(client, PREDICT, files(b"ab")))[0] == 200
    assert (await numbers(client))["tfdml_requests_active"] == "1.0"  # its files are being read
    Quick.go.set()
    await until(client, "0.0")
    assert Quick.begun.count(b"large") == 7


@served(seconds=0.2)
async def test_no_more_files_are_read_for_a_request_that_took_too_long(client):
    assert (await answer(client, PREDICT, files(*[b"large"] * 20)))[0] == 504
    assert (await numbers(client))["tfdml_requests_active"] == "1.0"
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200
    Quick.go.set()
    await until(client, "0.0")
    assert Quick.begun.count(b"large") == 7


@served(max_requests=1)
async def test_a_request_takes_no_place_until_its_body_is_there(client):
    writers = [await sent(client, b"{", 99) for _ in range(4)]
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200
    for writer in writers:
        writer.close()


@served(max_requests=1, max_bytes=300)
async def test_bodies_on_their_way_have_a_bound_together(client):
    writer = await sent(client, bytes(40_000), 60_000)
    while (await answer(client, PREDICT, bytes(40_000)))[0] != 503:
        await asyncio.sleep(0.01)
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200
    writer.close()
    while (await answer(client, PREDICT, bytes(40_000)))[0] != 400:
        await asyncio.sleep(0.01)


@served(seconds=0.1)
async def test_a_client_that_sends_a_part_of_a_request_gets_408(client):
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{{".encode())
    found = (await reader.readuntil(b"}")).decode()
    assert found.startswith("HTTP/1.1 408")
    assert "Connection: close" in found
    assert "expected all of it" in found
    writer.close()


def test_clients_that_leave_are_forgotten(serve, caplog):
    async def story(client):
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{{"
        for text in (head, "POST", "\x16\x03\x01", f"{head}{'x' * 98}"):
            _, writer = await asyncio.open_connection(client.host, client.port)
            writer.write(text.encode("latin-1"))
            await writer.drain()
            writer.close()
        while True:
            found = await numbers(client)
            if found["tfdml_requests_active"] == "0.0":
                break
            await asyncio.sleep(0.01)
        assert (await answer(client, PREDICT, files(b"ab")))[0] == 200

    serve(story)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_bytes_that_are_no_http_are_refused_without_a_traceback(serve, caplog):
    async def story(client):
        for text in ("GET / HTTP/9.x", "POST /v1/models HTTP/1.1\r\nContent-Length: x", "GET / HTTP/1.1\r\nbad header"):
            reader, writer = await asyncio.open_connection(client.host, client.port)
            writer.write(f"{text}\r\n\r\n".encode())
            assert (await reader.readline()).startswith(b"HTTP/1.0 400")
            writer.close()

    serve(story)
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_an_error_in_the_server_is_500_without_its_text_and_the_server_continues(serve, caplog):
    async def story(client):
        status, found = await answer(client, PREDICT, files(b"crash"))
        assert status == 500
        assert "secret" not in found["error"]
        assert (await answer(client, PREDICT, files(b"ab")))[0] == 200

    serve(story)
    assert "secret" in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.2", "127.255.255.254"])
def test_every_address_of_the_loopback_interface_keeps_other_hosts_out(monkeypatch, host):
    monkeypatch.setattr(module, "Embedder", Quick)

    async def statuses():
        async with TestClient(TestServer(serving.application(None, Preprocessing(size=2)), host=host)) as client:
            hosts = (host, "example.com")
            return [(await answer(client, "/healthz", method="get", headers={"Host": each}))[0] for each in hosts]

    assert asyncio.run(statuses()) == [200, 403]


def test_an_id_that_is_longer_than_any_of_the_index_is_not_looked_up(serve, monkeypatch):
    index = search.Exact(VECTORS, np.array(["a", "b", "c", "d"]))
    looked_up = []
    rows = index.rows
    monkeypatch.setattr(index, "rows", lambda ids: looked_up.append(threading.current_thread()) or rows(ids))

    async def story(client):
        for id in ("x" * 3_000_000, "aa", 1):
            assert (await answer(client, SEARCH, {"instances": [{"id": id}]}))[0] == 404
        assert looked_up == []
        assert (await answer(client, SEARCH, {"instances": [{"id": "a"}, {"id": "b"}]}))[0] == 200
        assert len(looked_up) == 3
        assert threading.current_thread() not in looked_up

    serve(story, index=index)


@served()
async def test_the_page_loads_nothing_from_elsewhere(client):
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")):
        async with client.get(path) as response:
            text = await response.text()
            assert (response.status, response.content_type) == (200, kind)
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert "//" not in re.sub(r"(?m)(^|;) ?//.*$", "", text.replace("<!DOCTYPE html>", ""))
            assert "{{" not in text
            assert "innerHTML" not in text


def test_a_port_in_use_and_an_address_of_another_machine_are_errors():
    with listen(port=0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(OSError, match=f"port={port}, expected an address of this machine and a free port"):
            listen(port=port)
    for host in ("192.0.2.1", "no host"):
        with pytest.raises(OSError, match="expected an address of this machine"):
            listen(host)
    listen(port=port).close()


def test_a_server_runs_until_the_process_is_told_to_end_and_answers_requests_that_come_with_the_signal(monkeypatch):
    monkeypatch.setattr(module, "Embedder", Quick)
    app, listening = serving.application(None, Preprocessing(size=2)), listen(port=0)
    address = listening.getsockname()
    statuses = []

    def ask():
        with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/healthz", timeout=10):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(5):
            with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/healthz", timeout=10) as response:
                statuses.append(response.status)

    asking = threading.Thread(target=ask)
    asking.start()
    serving.run(app, listening)
    asking.join()
    assert statuses == [200] * 5


def test_a_newer_index_is_taken_over_while_requests_are_in_flight(serve, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LOOKS", 0.01)
    versions = [None, search.Exact(VECTORS[:, ::-1], ["new a", "new b", "new c", "new d"]), None]

    async def story(client):
        first = asyncio.create_task(answer(client, SEARCH, {"instances": [file(b"slow")], "k": 4}))
        while versions:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(answer(client, SEARCH, {"instances": [file(b"xy")], "k": 4}))
        await asyncio.sleep(0.05)
        Quick.go.set()
        for task, ids in ((first, {"a", "b", "c", "d"}), (second, {"new a", "new b", "new c", "new d"})):
            status, content = await task
            assert (status, {item["id"] for item in content["neighbors"][0]}) == (200, ids)
        assert (await answer(client, "/v1/models/model/index", method="get"))[1]["filters"] == {}

    serve(story, newer=lambda: versions.pop(0) if versions else None)


def test_an_id_is_the_same_item_after_items_were_removed_and_a_newer_index_was_taken_over(serve, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LOOKS", 0.01)
    index = search.Exact(VECTORS, np.array(["a", "b", "c", "d"]), metadata=COLUMNS)
    index.remove(["a"])
    index.update(["b"], metadata={name: [column[1]] for name, column in COLUMNS.items()})  # the last row by now
    versions, made = [index, None], []

    def thumbnails():
        made.append({"c": b"jpeg of c, version %d" % len(made)})
        return made[-1]

    async def pictures(client):
        found = []
        for id in "bc":
            async with client.get(f"/v1/models/model/pictures/{id}") as response:
                found.append(await response.read())
        return found

    async def story(client):
        while len(made) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert await pictures(client) == [b"b.png of 192", b"jpeg of c, version 1"]
        _, found = await answer(client, SEARCH, {"instances": [{"id": "b"}], "k": 4})
        assert {item["id"] for item in found["neighbors"][0]} == {"c", "d"}
        for status, address in ((404, "pictures/a"), (200, "pictures/b")):
            assert (await client.get(f"/v1/models/model/{address}")).status == status
        assert (await answer(client, SEARCH, {"instances": [{"id": "a"}]}))[0] == 404

    serve(story, newer=lambda: versions.pop(0) if versions else None, thumbnails=thumbnails)


def test_a_newer_index_that_fails_is_a_warning_and_the_earlier_one_stays(serve, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LOOKS", 0.01)
    versions = [ValueError("damaged"), search.Exact(np.eye(3)), None]

    def newer():
        version = versions.pop(0) if versions else None
        if isinstance(version, Exception):
            raise version
        return version

    async def story(client):
        while versions:
            await asyncio.sleep(0.01)
        status, content = await answer(client, SEARCH, {"instances": [file(b"xy")], "k": 4})
        assert (status, {item["id"] for item in content["neighbors"][0]}) == (200, {"a", "b", "c", "d"})

    with pytest.warns(UserWarning, match="keeps its index, since the newer version fails") as warned:
        serve(story, newer=newer)
    assert [str(each.message).partition("fails: ")[2][:21] for each in warned] == ["damaged", "Received an index of "]


def test_a_server_ends_when_a_process_that_it_belongs_to_ends(monkeypatch):
    monkeypatch.setattr(module, "Embedder", Quick)
    listening, (sentinel, other) = listen(port=0), os.pipe()
    ending = threading.Timer(0.1, os.close, [other])
    ending.start()
    assert run_with(serving.application(None, Preprocessing(size=2)), listening, [sentinel])
    ending.join()
    os.close(sentinel)
    assert listening.fileno() == -1


ITEM = {"row": 0}
PHOTOS = [tf.io.encode_png(x).numpy() for x in np.random.default_rng(0).integers(0, 256, (3, 30, 40, 3), np.uint8)]


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Function from requests at the same time to the answers of a server of boxes in photos, one of which is gone."""
    paths, boxes = (
        [tmp_path_factory.mktemp("photos") / f"{row}.png" for row in (0, 1)],
        [[4, 2, 30, 28], [9, 5, 38, 20]],
    )
    for path, photo in zip(paths, PHOTOS, strict=False):
        path.write_bytes(photo)
    inputs, view = keras.Input((8, 8, 3)), Preprocessing(size=8, boxes=True, margin=0.1)
    network = keras.Model(inputs, keras.layers.Conv2D(4, 3, activation="relu", bias_initializer="ones")(inputs))
    model = models.from_backbone(network, head=keras.layers.Dense(3, use_bias=False))  # behind average pooling
    crops = np.stack([view((str(path), box)).numpy() for path, box in zip(paths, boxes, strict=True)])
    columns = {"path": [*map(str, paths), "gone.png"], "box": [*boxes, boxes[0]]}
    index = search.Exact(models.embed(model, crops[[0, 1, 0]]), metadata=columns)

    async def answers(requests, options):
        settings = {"index": index, "similarity_map": partial(visualize.similarity_map, model)} | options
        async with TestClient(TestServer(serving.application(model, view, **settings))) as client:
            return await asyncio.gather(*(answer(client, *request) for request in requests))

    return lambda *requests, **options: asyncio.run(answers(requests, options))


def test_the_maps_of_two_images_sum_up_to_the_served_score(ask):
    queries = [file(PHOTOS[2]), file(PHOTOS[2]) | {"box": [3, 3, 25, 18]}, ITEM]
    (_, found), *pairs = ask(
        (SEARCH, {"instances": queries}), *((EXPLAIN, {"instances": [query, {"id": 1}]}) for query in queries)
    )
    for neighbors, (status, content) in zip(found["neighbors"], pairs, strict=True):
        (score,) = [neighbor["score"] for neighbor in neighbors if neighbor["row"] == 1]
        assert (status, np.shape(content["maps"])) == (200, (2, 6, 6))
        np.testing.assert_allclose([*np.sum(content["maps"], (1, 2)), content["cosine"]], score, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        (
            {},
            {
                "an item without its file, expected its path in the index.": [ITEM, {"row": 2}],
                "Image 1: Received 8 bytes that are not an image": [ITEM, file(b"no image")],
            },
        ),
        ({"similarity_map": None}, {"The server has no Keras model. Serve a run": [ITEM] * 2}),
        ({"similarity_map": lambda a, b: int("no map")}, {"cannot explain these images. invalid": [ITEM] * 2}),
        ({"similarity_map": lambda a, b: [np.full((1, 1), np.nan)] * 2}, {"similarity is not finite": [ITEM] * 2}),
    ],
)
def test_what_cannot_be_explained_is_refused_and_no_other_request(ask, options, reasons):
    refused = [(EXPLAIN, {"instances": pair}) for pair in reasons.values()]
    others = [(SEARCH, {"instances": [ITEM]}), ("/v1/models/model/index", None, "get")]
    *answers, (good, _), (_, facts) = ask(*refused, *others, **options)
    assert (good, facts["explains"]) == (200, None not in options.values())
    for (status, content), reason in zip(answers, reasons, strict=True):
        assert status == 400
        assert reason in content["error"]
