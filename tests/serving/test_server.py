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

from tests.serving.quick import (
    COLUMNS,
    EXPLAIN,
    IDS,
    MODEL,
    PREDICT,
    SEARCH,
    VECTORS,
    Quick,
    answer,
    file,
    files,
    numbers,
    picture,
    sides,
)
from tfdml import metrics, models, search, serving, visualize
from tfdml.datasets import Preprocessing
from tfdml.serving import server as module
from tfdml.serving.run import listen, run_with

VIEW = Preprocessing(size=2)
INDEX = search.Exact(VECTORS, IDS, metadata=COLUMNS)


@pytest.fixture
def quick(monkeypatch):
    """A fast model in place of each."""
    monkeypatch.setattr(module, "Embedder", Quick)
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_LOOKS", 0.01)
    monkeypatch.setattr(Quick, "go", threading.Event())
    monkeypatch.setattr(Quick, "begun", ())


@pytest.fixture
def serve(quick):
    """Function that runs `story(client)` against a server with these options and limits."""

    def run(story, **options):
        limits = {name: options.pop(name) for name in vars(serving.Limits()).keys() & options}

        async def told():
            app = serving.application(None, VIEW, limits=serving.Limits(**limits), **{"index": INDEX} | options)
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


@served()
async def test_the_rest_client_of_the_page_is_answered_as_by_tensorflow_serving(client):
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
    names = {}
    exec(re.search(r"^(import base64\n.*?)^```", page, re.MULTILINE | re.DOTALL)[1], names)
    found = await asyncio.to_thread(names["ask"], str(client.make_url(MODEL)), "serve_bytes", [b"ab", b"cd"])
    assert found == [[97, 98], [99, 100]]


@served(version=7)
async def test_the_version_of_the_model_is_named_and_has_its_address(client):
    for place in (MODEL, f"{MODEL}/versions/7"):
        assert (await answer(client, place))[1]["model_version_status"][0]["version"] == "7"
        assert (await answer(client, f"{place}/metadata"))[1]["model_spec"]["version"] == "7"
    found = await answer(client, f"{MODEL}/versions/7:predict", files(b"ab"))
    assert found == (200, {"predictions": [[97, 98]]})
    assert (await answer(client, f"{MODEL}/versions/1"))[0] == 404


@served()
async def test_images_and_requests_are_counted_by_result_and_addresses_of_clients_are_no_names_of_metrics(client):
    for body in (files(b"ab", b"bad"), files(b"ab"), files(b"bad")):
        await answer(client, PREDICT, body)
    await asyncio.gather(*(answer(client, path) for path in ("/nothing/1", "/nothing/2")))
    counted = await numbers(client)
    expected = {
        'tfdml_images_total{result="embedded"}': "2.0",
        'tfdml_images_total{result="refused"}': "2.0",
        f'tfdml_requests_total{{route="{PREDICT}",status="400"}}': "2.0",
        'tfdml_requests_total{route="unknown",status="404"}': "2.0",
        'tfdml_request_seconds_count{route="unknown"}': "2.0",
        "tfdml_batch_images_sum": "4.0",
    }
    assert {name: counted[name] for name in expected} == expected
    assert float(counted["process_resident_memory_bytes"]) > 2**20
    assert "nothing" not in str(counted)
    async with client.get(PREDICT) as response:
        assert (response.status, response.headers["Allow"]) == (405, "POST")


@served()
async def test_random_items_are_distinct_items_of_the_index_and_a_seed_repeats_them(client):
    status, found = await answer(client, f"{MODEL}/items")
    assert (status, sorted(each["id"] for each in found["items"])) == (200, IDS)
    assert {"id": "c", "row": 2, "name": "gone.png", "metadata": {"label": "y"}} in found["items"]
    drawn = [(await answer(client, f"{MODEL}/items?n=2&seed={seed}"))[1]["items"] for seed in [*range(20), 3]]
    assert {len({each["id"] for each in items}) for items in drawn} == {2}
    assert drawn[3] == drawn[-1]
    assert {each["id"] for items in drawn for each in items} == {*IDS}


@served(max_neighbors=3)
async def test_no_more_items_than_neighbors_are_sent(client):
    for query, status, count in (("", 200, 3), ("?n=3", 200, 3), ("?n=4", 400, 0)):
        found, content = await answer(client, f"{MODEL}/items{query}")
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
            url = URL(f"http://127.0.0.1:{client.port}{MODEL}/{path}", encoded=True)
            kind, content, headers = await picture(client, url)
            assert (kind, content, headers["X-Content-Type-Options"]) == ("image/jpeg", b"jpeg", "nosniff")
            *_, headers = await picture(client, url, 304, headers={"If-None-Match": headers["ETag"]})
            assert headers["Cache-Control"] == "no-cache"
        for wrong in ("7.0", "+8", "1e0", "8", "9" * 19, "9" * 5000, "x"):
            assert (await answer(client, f"{MODEL}/items/{wrong}/thumbnail"))[0] == 404

    index = search.Exact(VECTORS[:2], np.array(ids), metadata={"path": ["a.png", "b.png"]})
    serve(story, index=index, thumbnails={id: b"jpeg"})


@served(index=search.Exact(VECTORS), thumbnails={0: b"jpeg"})
async def test_an_index_without_files_has_the_pictures_of_its_thumbnails(client):
    facts = (await answer(client, f"{MODEL}/index"))[1]
    assert (facts["pictures"], facts["random_items"]) == (True, True)
    assert (await answer(client, f"{MODEL}/pictures/1"))[0] == 404


@served()
async def test_pictures_are_asked_for_by_id_and_kept(client):
    for _ in range(2):
        assert (await picture(client, f"{MODEL}/pictures/b"))[:2] == ("image/png", b"b.png of 192")


@served(index=None)
async def test_a_server_without_index_has_neither_search_nor_page(client):
    for path, method, status in ((SEARCH, "post", 404), ("/", "get", 404), (f"{MODEL}/index", "get", 404)):
        assert (await answer(client, path, method=method))[0] == status
    assert {(await answer(client, path))[0] for path in (MODEL, f"{MODEL}/metadata")} == {200}


NEW, OLD = SimpleNamespace(fingerprint="new"), search.Exact(VECTORS, model="old")


def old_texts(texts):
    return sides(texts)


old_texts.fingerprint = "old"
UNFIT = {
    "item_column='product' without index, expected index": {"index": None, "item_column": "product"},
    "thumbnails without index": {"index": None, "thumbnails": {0: b""}},
    "an index of dim 3, expected 2 as of the model's embeddings": {"index": search.Exact(np.ones((2, 3)))},
    "texts of dim 1, expected 2 as of the model": {"texts": lambda texts: sides(texts)[:, :1]},
    "texts of model old .*, expected those of model new": {"model": NEW, "texts": old_texts},
    r"a server of model new \(fingerprint new/.{16}\), expected .* as of the index": {"model": NEW, "index": OLD},
    "dimensions=2, expected sizes below 2, as of the model": {"dimensions": (1, 2)},
    "name='', expected letters, digits": {"name": ""},
    "name='../a', expected letters, digits": {"name": "../a"},
    "name='{a}', expected letters, digits": {"name": "{a}"},
}


@pytest.mark.parametrize("reason", UNFIT)
def test_what_does_not_fit_the_model_is_refused_at_the_start(quick, reason):
    options = {"model": None, "index": search.Exact(VECTORS)} | UNFIT[reason]
    with pytest.raises(ValueError, match=reason):
        serving.application(options.pop("model"), VIEW, **options)


def test_a_server_states_its_own_model_and_takes_an_index_of_another_by_an_option(quick):
    async def stated(options):
        async with TestClient(TestServer(serving.application(NEW, VIEW, **options))) as client:
            return (await answer(client, f"{MODEL}/metadata"))[1]["metadata"]["fingerprint"]

    for options in ({"index": OLD, "other_model": True}, {"index": search.Exact(VECTORS, model="new")}):
        assert asyncio.run(stated(options)) == f"new/{VIEW.fingerprint()}"


def test_searches_of_files_are_logged_and_counted_by_the_score_of_their_nearest(serve, tmp_path):
    log, cosine = tmp_path / "searches.csv", float(VECTORS[1] @ [7, 7]) / np.linalg.norm(VECTORS[1]) / np.sqrt(98)

    async def story(client):
        queries = [file(b"\x00\x07"), {"id": "a"}, file(b"\x07\x07"), {"text": "to the left"}, {"text": "right"}]
        body = {"instances": queries, "where": {"label": ["x", "y"]}}
        _, found = await answer(client, SEARCH, body)
        assert [result[0]["id"] for result in found["neighbors"]] == ["c", "b", "b", "d", "a"]
        assert (await answer(client, SEARCH, body | {"where": {"label": "none"}}))[0] == 200
        found = await numbers(client)
        assert (found["tfdml_search_best_score_count"], found["tfdml_searches_unknown_total"]) == ("2.0", "0.0")
        assert (await answer(client, f"{MODEL}/index"))[1]["texts"] is True

    for _ in range(2):
        serve(story, log=log, texts=sides)
    times, scores, unknown, recall = zip(*(line.split(",") for line in log.read_text().splitlines()), strict=True)
    assert (times[0], scores[0], unknown) == ("time", "score", ("unknown", "", "", "", ""))
    assert recall == ("recall", "", "", "", "")
    np.testing.assert_allclose([float(score) for score in scores[1:]], 2 * [1, cosine], rtol=1e-5)
    assert {time[10:11] + time[-6:] for time in times[1:]} == {"T+00:00"}


def calibrated(prior=0.5, metric="cosine", model=None):
    """A curve of two knots: even odds at 0.5, and 9 to 1 from 0.9 on; all right."""
    curve, ones = (0.0, np.log(9.0)), (1.0, 1.0)
    facts = {"prior": prior, "metric": metric, "model": model, "pairs": 100, "classes": 10}
    return metrics.ScoreCalibration(scores=(0.5, 0.9), ratio=(curve,) * 3, rank_1=(ones,) * 3, **facts)


def test_a_probability_stands_beside_the_score_of_images_and_items_and_not_of_texts(serve):
    async def story(client):
        body = {"instances": [file(b"\x07\x00"), {"id": "a"}, {"text": "right"}], "k": 3}
        image, item, text = (await answer(client, SEARCH, body))[1]["neighbors"]
        assert [each["id"] for each in image] == ["a", "b", "c"]
        assert [each["probability"] for each in image] == pytest.approx([0.9, 0.9, 0.5])
        assert [each["probability"] for each in item] == pytest.approx([0.9, 0.5, 0.5])  # b, c, d
        assert not any("probability" in each for each in text)

    serve(story, calibration=calibrated(), texts=sides)

    async def without(client):
        found = (await answer(client, SEARCH, {"instances": [{"id": "a"}]}))[1]["neighbors"]
        assert not any("probability" in each for each in found[0])

    serve(without)
    with pytest.raises(ValueError, match="calibration of the metric 'euclidean' for scores of 'cosine'"):
        serving.application(None, VIEW, index=INDEX, calibration=calibrated(metric="euclidean"))
    with pytest.raises(ValueError, match="expected those of model old"):
        serving.application(NEW, VIEW, index=INDEX, calibration=calibrated(model="old"))


def test_searches_are_made_again_exactly_off_the_path_of_the_answer(serve, tmp_path, monkeypatch):
    log, gate = tmp_path / "searches.csv", threading.Event()
    monkeypatch.setattr("tfdml.serving.monitoring._BUDGET", 1e9)

    class Wrong(search.Exact):
        """An index that finds the first row, and then what is farthest."""

        def exactly(self):
            gate.wait(10)  # an exact search that lasts
            return INDEX

        def search(self, queries, k, **options):
            ids, scores = INDEX.search(queries, len(INDEX))
            order = [0, *range(len(INDEX) - 1, 0, -1)][:k]
            return ids[:, order], scores[:, order]

    gate.set()
    wrong = Wrong(VECTORS, IDS, metadata=COLUMNS)

    async def story(client):
        body = {"instances": [file(b"\x07\x00")], "k": 2}
        assert [each["id"] for each in (await answer(client, SEARCH, body))[1]["neighbors"][0]] == ["a", "d"]
        while (found := await numbers(client))["tfdml_search_recall_count"] != "1.0":
            await asyncio.sleep(0.01)
        assert found["tfdml_search_recall_sum"] == "0.5"
        assert found["tfdml_search_best_score_count"] == "1.0"

    serve(story, index=wrong, log=log, check_recall=1.0)
    assert log.read_text().splitlines()[-1].endswith(",1,,0.5")


@served(max_bytes=100)
async def test_a_request_beyond_the_size_is_refused_before_and_while_it_is_read(client):
    async def parts():
        for _ in range(40):
            yield bytes(2**12)

    assert (await sent(client, b"", 10**12)).startswith("HTTP/1.1 413")
    assert (await answer(client, PREDICT, bytes(2**17)))[0] == 413
    async with client.post(PREDICT, data=parts()) as response:  # of unknown length
        assert (response.status, "too large" in (await response.json())["error"]) == (413, True)
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200


async def until(client, active):
    while (await numbers(client))["tfdml_requests_active"] != active:
        await asyncio.sleep(0.01)


async def written(client, text):
    """A connection on which this was sent."""
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(text)
    await writer.drain()
    return reader, writer


async def sent(client, body, length=None, *, reads=True):
    """The head of the answer to a request, or to a part of it; or its connection."""
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length or len(body)}\r\n\r\n"
    reader, writer = await written(client, head.encode() + body)
    if not reads:
        return writer
    found = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.close()
    return found


@served(max_requests=2)
async def test_more_requests_than_the_limit_are_sent_away_but_health_and_metrics_answer(client):
    slow = [asyncio.create_task(answer(client, PREDICT, files(b"slow"))) for _ in range(2)]
    await until(client, "2.0")
    async with client.post(PREDICT, data="{}") as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "1")
    assert await answer(client, "/healthz") == (200, {"status": "ok"})
    Quick.go.set()
    assert [status for status, _ in await asyncio.gather(*slow)] == [200, 200]
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200


@served()
async def test_a_file_is_read_while_the_batch_before_is_computed(client):
    requests = []
    for content in (b"slow", b"ab"):
        requests.append(asyncio.create_task(answer(client, PREDICT, files(content))))
        while content not in Quick.begun:  # the second before the slow one is done
            await asyncio.sleep(0.01)
    Quick.go.set()
    assert [status for status, _ in await asyncio.gather(*requests)] == [200, 200]


@served(seconds=0.1)
async def test_a_model_that_takes_too_long_gives_504_and_is_not_healthy_until_it_is_done(client):
    status, found = await answer(client, PREDICT, files(b"slow"))
    assert (status, "within 0.1 seconds" in found["error"]) == (504, True)
    while await answer(client, "/healthz") != (503, {"status": "stuck"}):
        await asyncio.sleep(0.01)
    Quick.go.set()
    while (await answer(client, "/healthz"))[0] != 200:
        await asyncio.sleep(0.01)
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200


@pytest.mark.parametrize(("is_left", "limit"), [(True, {"max_requests": 2}), (False, {"seconds": 0.2})])
def test_no_more_files_are_read_for_a_client_that_left_or_a_request_that_took_too_long(serve, is_left, limit):
    async def story(client):
        body = files(*[b"large"] * 64)
        if is_left:
            writer = await sent(client, json.dumps(body).encode(), reads=False)
            while len(Quick.begun) < 7:
                await asyncio.sleep(0.01)
            writer.close()
        else:
            assert (await answer(client, PREDICT, body))[0] == 504
        for _ in range(3):
            assert (await answer(client, PREDICT, files(b"ab")))[0] == 200
        assert (await numbers(client))["tfdml_requests_active"] == "1.0"  # its files are being read
        Quick.go.set()
        await until(client, "0.0")
        assert Quick.begun.count(b"large") == 7

    serve(story, **limit)


@served(max_requests=1)
async def test_a_request_takes_no_place_until_its_body_is_there(client):
    writers = [await sent(client, b"{", 99, reads=False) for _ in range(4)]
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200
    for writer in writers:
        writer.close()


@served(max_requests=1, max_bytes=300)
async def test_bodies_on_their_way_have_a_bound_together(client):
    writer = await sent(client, bytes(40_000), 60_000, reads=False)
    while (await answer(client, PREDICT, bytes(40_000)))[0] != 503:
        await asyncio.sleep(0.01)
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200
    writer.close()
    while (await answer(client, PREDICT, bytes(40_000)))[0] != 400:
        await asyncio.sleep(0.01)


@served(seconds=0.1)
async def test_a_client_that_sends_a_part_of_a_request_gets_408(client):
    found = await sent(client, b"{", 99)
    assert found.startswith("HTTP/1.1 408")
    assert "Connection: close" in found


@served()
async def test_clients_that_leave_or_send_no_http_are_forgotten_without_a_traceback(client, caplog):
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{{"
    for text in (head, "POST", "\x16\x03\x01", f"{head}{'x' * 98}"):
        _, writer = await written(client, text.encode("latin-1"))
        writer.close()
    for text in ("GET / HTTP/9.x", "POST /v1/models HTTP/1.1\r\nContent-Length: x", "GET / HTTP/1.1\r\nbad header"):
        reader, writer = await written(client, f"{text}\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.0 400")
        writer.close()
    await until(client, "0.0")
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


@served()
async def test_an_error_in_the_server_is_500_without_its_text_and_the_server_continues(client, caplog):
    status, found = await answer(client, PREDICT, files(b"crash"))
    assert (status, "secret" in found["error"], "secret" in caplog.text) == (500, False, True)
    assert (await answer(client, PREDICT, files(b"ab")))[0] == 200


@pytest.mark.parametrize("host", ["127.0.0.2", "127.255.255.254"])
def test_every_address_of_the_loopback_interface_keeps_other_hosts_out(quick, host):
    async def statuses():
        async with TestClient(TestServer(serving.application(None, VIEW), host=host)) as client:
            return [(await answer(client, "/healthz", headers={"Host": each}))[0] for each in (host, "example.com")]

    assert asyncio.run(statuses()) == [200, 403]


@served()
async def test_an_id_that_is_longer_than_any_of_the_index_is_not_looked_up(client, monkeypatch):
    looked_up, rows = [], INDEX.rows
    monkeypatch.setattr(INDEX, "rows", lambda ids: looked_up.append(threading.current_thread()) or rows(ids))
    for id in ("x" * 3_000_000, "aa", 1):
        assert (await answer(client, SEARCH, {"instances": [{"id": id}]}))[0] == 404
    assert looked_up == []
    assert (await answer(client, SEARCH, {"instances": [{"id": "a"}, {"id": "b"}]}))[0] == 200
    assert (len(looked_up), threading.current_thread() in looked_up) == (3, False)


@served()
async def test_the_page_loads_nothing_from_elsewhere(client):
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")):
        found, content, headers = await picture(client, path)
        text = content.decode()
        assert (found, headers["X-Content-Type-Options"]) == (kind, "nosniff")
        assert "default-src 'none'" in headers["Content-Security-Policy"]
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


def test_a_server_runs_until_the_process_is_told_to_end_and_answers_requests_that_come_with_the_signal(quick):
    app, listening = serving.application(None, VIEW), listen(port=0)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/healthz"
    statuses = []

    def ask():
        for number in range(6):
            with urllib.request.urlopen(address, timeout=10) as response:
                statuses.append(response.status)
            if number == 0:
                os.kill(os.getpid(), signal.SIGTERM)

    asking = threading.Thread(target=ask)
    asking.start()
    serving.run(app, listening)
    asking.join()
    assert statuses == [200] * 6


def test_a_server_ends_when_a_process_that_it_belongs_to_ends(quick):
    listening, (sentinel, other) = listen(port=0), os.pipe()
    ending = threading.Timer(0.1, os.close, [other])
    ending.start()
    assert run_with(serving.application(None, VIEW), listening, [sentinel])
    ending.join()
    os.close(sentinel)
    assert listening.fileno() == -1


def one_by_one(versions):
    """A function that gives the next version, raises it if it is an error, and gives None after the last."""

    def newer():
        version = versions.pop(0) if versions else None
        if isinstance(version, Exception):
            raise version
        return version

    return newer


async def ids_of(client, **query):
    status, content = await answer(client, SEARCH, {"instances": [query], "k": 4})
    assert status == 200
    return {item["id"] for item in content["neighbors"][0]}


def test_a_newer_index_is_taken_over_while_requests_are_in_flight(serve):
    versions = [None, search.Exact(VECTORS[:, ::-1], ["new a", "new b", "new c", "new d"]), None]

    async def story(client):
        first = asyncio.create_task(ids_of(client, **file(b"slow")))
        while versions:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(ids_of(client, **file(b"xy")))
        await asyncio.sleep(0.05)
        Quick.go.set()
        assert (await first, await second) == ({*IDS}, {"new a", "new b", "new c", "new d"})
        assert (await answer(client, f"{MODEL}/index"))[1]["filters"] == {}

    serve(story, newer=one_by_one(versions))


def test_an_id_is_the_same_item_after_items_were_removed_and_a_newer_index_was_taken_over(serve):
    index, made = search.Exact(VECTORS, IDS, metadata=COLUMNS), []
    index.remove(["a"])
    index.update(["b"], metadata={name: [column[1]] for name, column in COLUMNS.items()})  # the last row by now

    def thumbnails():
        made.append({"c": b"jpeg of c, version %d" % len(made)})
        return made[-1]

    async def story(client):
        while len(made) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        pictures = [(await picture(client, f"{MODEL}/pictures/{id}"))[1] for id in "bc"]
        assert pictures == [b"b.png of 192", b"jpeg of c, version 1"]
        assert await ids_of(client, id="b") == {"c", "d"}
        assert (await answer(client, f"{MODEL}/pictures/a"))[0] == 404
        assert (await answer(client, SEARCH, {"instances": [{"id": "a"}]}))[0] == 404

    serve(story, index=index, newer=one_by_one([index, None]), thumbnails=thumbnails)


def test_a_newer_index_that_fails_is_a_warning_and_the_earlier_one_stays(serve):
    versions = [ValueError("damaged"), search.Exact(np.eye(3)), None]

    async def story(client):
        while versions:
            await asyncio.sleep(0.01)
        assert await ids_of(client, **file(b"xy")) == {*IDS}

    with pytest.warns(UserWarning, match="keeps its index, since the newer version fails") as warned:
        serve(story, newer=one_by_one(versions))
    assert [str(each.message).partition("fails: ")[2][:21] for each in warned] == ["damaged", "Received an index of "]


ITEM = {"row": 0}
PHOTOS = [tf.io.encode_png(x).numpy() for x in np.random.default_rng(0).integers(0, 256, (3, 30, 40, 3), np.uint8)]


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Function from requests at the same time to the answers of a server of boxes in photos, one of which is gone."""
    folder, boxes = tmp_path_factory.mktemp("photos"), [[4, 2, 30, 28], [9, 5, 38, 20]]
    paths = [str(folder / f"{row}.png") for row in range(3)]
    for path, photo in zip(paths[:2], PHOTOS, strict=False):
        Path(path).write_bytes(photo)
    inputs, view = keras.Input((8, 8, 3)), Preprocessing(size=8, boxes=True, margin=0.1)
    network = keras.Model(inputs, keras.layers.Conv2D(4, 3, activation="relu", bias_initializer="ones")(inputs))
    model = models.from_backbone(network, head=keras.layers.Dense(3, use_bias=False))  # behind average pooling
    crops = np.stack([view(each).numpy() for each in zip(paths, boxes, strict=False)])
    columns = {"path": paths, "box": [*boxes, boxes[0]]}
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
        ({}, {"an item without its file": [ITEM, {"row": 2}], "Image 1: Received 8 bytes": [ITEM, file(b"no image")]}),
        ({"similarity_map": None}, {"The server has no Keras model. Serve a run": [ITEM] * 2}),
        ({"similarity_map": lambda a, b: int("no map")}, {"cannot explain these images. invalid": [ITEM] * 2}),
        ({"similarity_map": lambda a, b: [np.full((1, 1), np.nan)] * 2}, {"similarity is not finite": [ITEM] * 2}),
    ],
)
def test_what_cannot_be_explained_is_refused_and_no_other_request(ask, options, reasons):
    refused = [(EXPLAIN, {"instances": pair}) for pair in reasons.values()]
    *answers, (good, _), (_, facts) = ask(*refused, (SEARCH, {"instances": [ITEM]}), (f"{MODEL}/index",), **options)
    assert (good, facts["explains"]) == (200, None not in options.values())
    for (status, content), reason in zip(answers, reasons, strict=True):
        assert (status, reason in content["error"]) == (400, True), content
