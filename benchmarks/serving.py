"""The server of `tfdml serve` under load: right answers, refusals, time and memory.

Clients on the same machine send requests to a server in its own process, each the next one as soon as it has an answer.
Half of the requests hold a photo, whose embedding is compared with that of the model in this process; a fifth search an
index for a photo or an item of it, and their neighbors are compared, too. The others are what a server must refuse: cut
and foreign files, files and requests beyond the limits, files and JSON made to take much time or memory, and filters
that do not fit. `p50` and `p99` are of photos, from the first byte sent to the last received; `model_ms` is the time of
the model for one photo, `file_ms` that of reading and embedding one, both alone on the machine. `wrong` counts answers
that differ, of photos and of searches, `unrefused` bad requests without a status of 4xx and a reason. `busy` is the
share of the time in which the server reads and embeds images. Near 1 the clients wait for each other: the time of a
request is then that of the files of all clients, 32 file_ms / cores, and not that of one. The memory is that of the
server after a tenth of the time, at the end, and at most. A second table counts requests and answers by kind.

    python benchmarks/serving.py            # 90 seconds on two cores
    python benchmarks/serving.py --quick    # a small model, a few seconds
"""

import argparse
import asyncio
import base64
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import aiohttp
import keras
import numpy as np
from _report import RESULTS, hardware, print_table, versions, write_csv
from PIL import Image

import tfdml

FULL = {"side": 224, "clients": {1: 10.0, 32: 60.0}, "largest": 1600}
QUICK = {"side": 16, "clients": {4: 2.0}, "largest": 80}
LIMITS = {"max_bytes": 4 * 2**20, "max_pixels": 2**22}
PHOTOS = 24
NEIGHBORS = 3
KINDS = {"photo": 0.5, "search": 0.2, "bad": 0.3}  # shares of the requests
COLUMNS = ["clients", "photos", "searches", "refused", "wrong", "unrefused", "per_second", "busy", "p50_ms", "p99_ms"]
COLUMNS += ["model_ms", "file_ms", "begin_mib", "end_mib"]


def make_model(folder, side):
    """Exports an untrained model; the time does not depend on its weights."""
    keras.utils.set_random_seed(0)
    if side < 32:
        inputs = keras.Input((side, side, 3), dtype="uint8")
        model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs, dim=16, widths=(4, 8)))
    else:
        backbone = keras.applications.MobileNet(
            include_top=False, weights=None, input_shape=(side, side, 3), alpha=0.25
        )
        model = tfdml.models.from_backbone(backbone, dim=64)
    tfdml.export.saved_model(model, folder)


def encoded(image, kind, **options):
    """The content of an image file."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def photos(largest):
    """Files of smooth noise of several sizes and formats."""
    rng = np.random.default_rng(0)
    kinds = [("jpeg", {"quality": 90}), ("jpeg", {"progressive": True}), ("png", {}), ("webp", {})]
    found = []
    for number in range(PHOTOS):
        size = tuple(int(side) for side in rng.integers(largest // 4, largest, 2))
        image = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize(size, Image.Resampling.BICUBIC)
        kind, options = kinds[number % len(kinds)]
        found.append(encoded(image, kind, **options))
    return found


def request_of(*contents):
    """The body of a request for embeddings of files."""
    instances = [{"b64": base64.b64encode(content).decode()} for content in contents]
    return json.dumps({"signature_name": "serve_bytes", "instances": instances}).encode()


def bad_requests(photo):
    """name -> body of a request that must be refused."""
    image = Image.fromarray(np.full((400, 400, 3), (10, 200, 30), np.uint8))
    jpeg, png = encoded(image, "jpeg", progressive=True), encoded(image, "png")
    scan, end = jpeg.rfind(b"\xff\xda"), jpeg.rfind(b"\xff\xd9")
    side = int(LIMITS["max_pixels"] ** 0.5)
    files = {
        "cut": photo[: len(photo) // 2],
        "cut with an end mark": jpeg[: scan // 2] + b"\xff\xd9",
        "empty": b"",
        "text": b"<html><script>alert(1)</script></html>",
        "pdf": b"%PDF-1.7\n" + bytes(1000),
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
        "too many bytes": png + bytes(LIMITS["max_bytes"]),
        "too many pixels": encoded(Image.new("L", (side + 1, side + 1)), "png"),
        "header of 4 gigapixels": png[:16] + b"\x00\x00\xff\xff" * 2 + png[24:],
        "5,000 scans": jpeg[:end] + jpeg[scan:end] * 5_000 + jpeg[end:],
        "gif header alone": b"GIF89a" + b"\xff" * 8,
        "noise in a jpeg": b"\xff\xd8\xff" + np.random.default_rng(0).bytes(50_000),
    }
    bodies = {
        "no json": b"{",
        "nested json": b"[" * 200_000,
        "empty lists": b'{"instances":[' + b"[]," * LIMITS["max_bytes"] + b"[]]}",
        "half a megabyte of lists": b'{"instances":[[' + b"[0]," * 2**17 + b"0]]}",
        "texts as pixels": b'{"instances":[["' + b"x" * 190_000 + b'"' + b',""' * 3_000 + b"]]}",
        "a name twice": b'{"instances":[1],"instances":[1]}',
        "a path": json.dumps({"signature_name": "serve_bytes", "instances": ["/etc/passwd"]}).encode(),
        "a path as base64": json.dumps({"signature_name": "serve_bytes", "instances": [{"b64": "../etc"}]}).encode(),
        "pixels of another shape": json.dumps({"instances": [[[1, 2], [3, 4]]]}).encode(),
        "too many images": request_of(*[b""] * 65),
        "a large request": b" " * (2 * LIMITS["max_bytes"]),
        "one of two": request_of(photo, photo[:-200]),
    }
    return {**{name: request_of(content) for name, content in files.items()}, **bodies}


def bad_searches(photo):
    """name -> body of a search that must be refused."""
    half = "\ud800"  # of a surrogate pair: no text
    options = {
        "half a surrogate": {"where": {"label": half}},
        "null for a list": {"where": {"tags": None}},
        "a list for a list": {"where": {"tags": [["a"]]}},
        "an object for an object": {"where": {"size": {"w": 1}}},
        "another column": {"where": {"color": "red"}},
        "text for a number": {"where": {"price": "cheap"}},
        "a number of 400 digits": {"where": {"price": 10**400}},
        "k of 0": {"k": 0},
        "an id of half a MiB": {"instances": [{"id": "x" * 2**19}]},
        "an id of another type": {"instances": [{"id": 3}]},
        "a row that is true": {"instances": [{"row": True}]},
    }
    instances = [{"b64": base64.b64encode(photo).decode()}]
    return {name: json.dumps({"instances": instances, **option}).encode() for name, option in options.items()}


def make_index(folder, embeddings):
    """Saves and returns an index of the photos."""
    rows = range(len(embeddings))
    columns = {
        "label": ["even", "odd"] * (len(embeddings) // 2),
        "price": list(rows),
        "tags": [["a", "b"]] * len(embeddings),
        "size": [{"w": row} for row in rows],
    }
    index = tfdml.search.Exact(embeddings, np.array([f"photo {row}" for row in rows]), metadata=columns)
    index.save(folder)
    return index


def right_embedding(embedding):
    """Whether an answer of `:predict` holds an embedding."""
    return lambda answer: np.allclose(answer["predictions"], [embedding], atol=1e-4)


def right_neighbors(index, query, rows):
    """Whether an answer of `:search` holds the nearest of some rows, in any order of equal scores."""
    query = query / np.linalg.norm(query)
    scores = {str(index.ids[row]): float(index.vectors[row] @ query) for row in rows}
    best = sorted(scores.values(), reverse=True)[:NEIGHBORS]

    def is_right(answer):
        (found,) = answer["neighbors"]
        same = [abs(neighbor["score"] - scores[neighbor["id"]]) < 1e-4 for neighbor in found]
        return all(same) and np.allclose([neighbor["score"] for neighbor in found], best, atol=1e-4)

    return is_right


def good_requests(contents, embeddings, index):
    """kind -> triples of an action, a body, and a function from its answer to whether it is right."""
    pairs = list(zip(contents, embeddings, strict=True))
    found = {"photo": [("predict", request_of(content), right_embedding(known)) for content, known in pairs]}
    everything, odd = range(len(pairs)), range(1, len(pairs), 2)
    found["search"] = []
    for row, (content, known) in enumerate(pairs):
        by_file = {"instances": [{"b64": base64.b64encode(content).decode()}], "k": NEIGHBORS}
        by_id = {"instances": [{"id": f"photo {row}"}], "k": NEIGHBORS, "where": {"label": "odd"}}
        others = [other for other in odd if other != row]
        for body, rows in ((by_file, everything), (by_id, others)):
            found["search"].append(("search", json.dumps(body).encode(), right_neighbors(index, known, rows)))
    return found


def expected(folder, contents):
    """Embeddings of files by the model in this process, and milliseconds for one: of the model, and with reading."""
    model = tfdml.export.load(folder)
    read = [model.preprocessing.from_bytes(content)[None] for content in contents]
    embeddings = [model.predict_on_batch(pixels)[0] for pixels in read]
    ways = {
        "model_ms": lambda content, pixels: model.predict_on_batch(pixels),
        "file_ms": lambda content, pixels: model.predict_on_batch(model.preprocessing.from_bytes(content)[None]),
    }
    times = {name: [] for name in ways}
    for pair in zip(contents, read, strict=True):
        for name, way in ways.items():
            begin = time.perf_counter()
            way(*pair)
            times[name].append(1000 * (time.perf_counter() - begin))
    return embeddings, {name: statistics.median(values) for name, values in times.items()}


def start(folder, index):
    """The process of a server, and the address of its model."""
    limits = [word for name, value in LIMITS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "tfdml", "serve", str(folder), "--index", str(index)]
    command += ["--port", "0", "--json", *limits]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ})
    line = process.stdout.readline()
    if not line:
        raise SystemExit("The server did not start.")
    return process, json.loads(line)["model"]


class Load:
    """Requests of some clients to a server, and what came of them."""

    def __init__(self, address, good, bad):
        self._address, self._good, self._bad = address, good, bad
        self._metrics = address.split("/v1/")[0] + "/metrics"
        self.times, self.wrong, self.unrefused, self.memory, self.busy = [], [], [], [], []
        self.kinds = Counter()

    async def run(self, clients, seconds):
        """Sends requests for some seconds."""
        self._end = time.perf_counter() + seconds
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(60)) as session:
            watching = asyncio.create_task(self._watch(session, seconds / 20))
            await asyncio.gather(*(self._client(session, number) for number in range(clients)))
            await watching

    async def _client(self, session, number):
        rng = np.random.default_rng(number)
        while time.perf_counter() < self._end:
            kind = rng.choice(list(KINDS), p=list(KINDS.values()))
            if kind == "bad":
                await self._refusal(session, *self._bad[rng.integers(len(self._bad))])
            else:
                await self._request(session, kind, *self._good[kind][rng.integers(len(self._good[kind]))])

    async def _request(self, session, kind, action, body, is_right):
        begin = time.perf_counter()
        status, answer = await self._answer(session, action, body)
        if kind == "photo":
            self.times.append(1000 * (time.perf_counter() - begin))
        self.kinds[kind, status] += 1
        self.wrong += [] if status == 200 and is_right(answer) else [(kind, status)]

    async def _refusal(self, session, name, action, body):
        status, answer = await self._answer(session, action, body)
        self.kinds[name, status] += 1
        self.unrefused += [] if 400 <= status < 500 and answer.get("error") else [(name, status)]

    async def _answer(self, session, action, body):
        async with session.post(f"{self._address}:{action}", data=io.BytesIO(body)) as response:
            return response.status, await response.json()

    async def _watch(self, session, pause):
        while time.perf_counter() < self._end:
            await asyncio.sleep(pause)
            text = await self._text(session)
            self.memory.append(value_of(text, "process_resident_memory_bytes") / 2**20)
            self.busy.append((time.perf_counter(), value_of(text, "tfdml_batch_seconds_sum")))

    async def _text(self, session):
        async with session.get(self._metrics) as response:
            return await response.text()

    def row(self, clients, seconds, times):
        """The numbers of a run."""
        (begin, worked), (end, worked_in_all) = self.busy[0], self.busy[-1]
        searches = sum(count for (kind, _), count in self.kinds.items() if kind == "search")
        refused = self.kinds.total() - len(self.times) - searches
        return {
            "clients": clients,
            "seconds": seconds,
            "photos": len(self.times),
            "searches": searches,
            "refused": refused,
            "wrong": len(self.wrong),
            "unrefused": len(self.unrefused),
            "per_second": self.kinds.total() / seconds,
            "busy": (worked_in_all - worked) / (end - begin),
            "p50_ms": float(np.percentile(self.times, 50)),
            "p99_ms": float(np.percentile(self.times, 99)),
            **times,
            "begin_mib": self.memory[len(self.memory) // 10],
            "end_mib": self.memory[-1],
            "peak_mib": max(self.memory),
        }


def value_of(metrics, name):
    """A number in the text of Prometheus."""
    return float(re.search(rf"^{name} (\S+)$", metrics, re.MULTILINE)[1])


def kinds_of(load):
    """One row per kind of request and status of its answer."""
    return [{"request": name, "status": status, "count": n} for (name, status), n in sorted(load.kinds.items())]


def measure(settings):
    """One row per number of clients."""
    contents = photos(settings["largest"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        make_model(path, settings["side"])
        embeddings, times = expected(path, contents)
        good = good_requests(contents, embeddings, make_index(Path(folder) / "index", np.array(embeddings)))
        bad = [(name, "predict", body) for name, body in bad_requests(contents[0]).items()]
        bad += [(name, "search", body) for name, body in bad_searches(contents[0]).items()]
        process, address = start(path, Path(folder) / "index")
        try:
            for clients, seconds in settings["clients"].items():
                load = Load(address, good, bad)
                asyncio.run(load.run(clients, seconds))
                print(f"{clients} clients: wrong {load.wrong[:5]}, unrefused {load.unrefused[:5]}")
                print_table(kinds_of(load), ["request", "status", "count"])
                yield load.row(clients, seconds, times)
        finally:
            process.terminate()
            process.communicate()


def main():
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small model, a few seconds")
    parser.add_argument("--output", default=RESULTS / "serving.csv")
    options = parser.parse_args()
    about = {"hardware": hardware(), "versions": versions("tensorflow", "keras", "aiohttp")}
    rows = [{**row, **about} for row in measure(QUICK if options.quick else FULL)]
    print_table(rows, COLUMNS)
    write_csv(options.output, rows)


if __name__ == "__main__":
    main()
