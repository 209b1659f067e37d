"""The server of `tfdml serve` under load beside a plain one: right answers, refusals, time and memory.

Clients on the same machine send requests to a server in its own process, each the next one as soon as it has an answer.
They send photos to embed; searches of an index, half of them for a photo and half for an item; or a mixture of these
with what a server must refuse: cut and foreign files, files and requests beyond the limits, files and JSON made to take
much time or memory, and filters that do not fit. Answers are compared with the model and the index in this process.
`wrong` counts answers that differ, `unrefused` bad requests without a status of 4xx and a reason. `p50_ms` and `p99_ms`
are from the first byte sent to the last received, in the mixture of photos alone. `model_ms` is the time of the model
for one photo, `file_ms` that of reading and embedding one, both in this process, alone on the machine. `mib` is the
memory of the server's processes at the end, pages that they share counted once, and `begin_mib` after a tenth of the
time. "onnxruntime" is `_plain_server.py`, whose embeddings differ by how Pillow resizes.

    python benchmarks/serving.py                                       # eight minutes on two cores
    python benchmarks/serving.py --servers onnxruntime --work photos   # some rows, which replace those of the table
    python benchmarks/serving.py --quick                               # a small model, a few seconds
"""

import asyncio
import base64
import csv
import functools
import io
import json
import os
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
import psutil
from _report import facts, options_of, print_table, timed, write_table
from PIL import Image

import tfdml

SERVERS = {"tfdml": 1, "tfdml, 2 processes": 2, "onnxruntime": None}  # by name, the number of processes of tfdml
WORK = {
    "photos": {"photo": 1.0},
    "searches": {"search": 1.0},
    "mixture": {"photo": 0.5, "search": 0.2, "bad": 0.3},  # shares of the requests
}
CHOICES = {"servers": SERVERS, "work": WORK}
FULL = {"side": 224, "clients": (1, 8, 32, 128), "seconds": 6.0, "largest": 1600, "items": 20_000}
QUICK = {"side": 16, "clients": (4,), "seconds": 1.0, "largest": 80, "items": 100}
LIMITS = {"max_bytes": 4 * 2**20, "max_pixels": 2**22, "max_requests": 256}
PHOTOS = 24
NEIGHBORS = 3
KEY = ["server", "work", "clients"]


def make_model(folder, side):
    """Exports and returns an untrained model; the time does not depend on its weights."""
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
    return model


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
        "a name twice": b'{"instances":[1],"instances":[1]}',
        "a path": json.dumps({"signature_name": "serve_bytes", "instances": ["/etc/passwd"]}).encode(),
        "a path as base64": json.dumps({"signature_name": "serve_bytes", "instances": [{"b64": "../etc"}]}).encode(),
        "pixels": json.dumps({"instances": [[[1, 2], [3, 4]]]}).encode(),
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


def make_index(folder, embeddings, count):
    """Saves and returns an index of the photos, and of random vectors up to a number of items."""
    random = np.random.default_rng(1).normal(size=(count - len(embeddings), embeddings.shape[1]))
    rows = range(count)
    columns = {
        "label": ["even", "odd"] * (count // 2),
        "price": list(rows),
        "tags": [["a", "b"]] * count,
        "size": [{"w": row} for row in rows],
    }
    vectors = np.concatenate([embeddings, random]).astype(np.float32)
    index = tfdml.search.Exact(vectors, np.array([f"item {row}" for row in rows]), metadata=columns)
    index.save(folder)
    return index


def right_embedding(embedding, *, exact):
    """Whether an answer of `:predict` holds an embedding, or, of another program, nearly its direction."""

    def is_right(answer):
        (given,) = np.array(answer["predictions"])
        cosine = given @ embedding / np.linalg.norm(given) / np.linalg.norm(embedding)
        return bool(np.allclose(given, embedding, atol=1e-4) if exact else cosine > 0.99)

    return is_right


def right_neighbors(index, query, is_candidate, *, exact):
    """Whether an answer of `:search` holds the nearest candidates, in any order of equal scores.

    Another program has to find the nearest one.
    """
    scores = np.where(is_candidate, index.vectors @ (query / np.linalg.norm(query)), -np.inf)
    best = np.sort(scores)[: -NEIGHBORS - 1 : -1]

    def is_right(answer):
        (found,) = answer["neighbors"]
        given = scores[[int(neighbor["id"].split()[1]) for neighbor in found]]
        told = np.array([neighbor["score"] for neighbor in found])
        good = np.allclose(told, given, atol=1e-4) and np.allclose(told, best, atol=1e-4)
        return bool(good if exact else given[0] > best[0] - 1e-3)

    return is_right


def good_requests(contents, embeddings, index, *, exact):
    """kind -> triples of an action, a body, and a function from its answer to whether it is right.

    Half of the searches are for an item; of `tfdml serve`, they have a filter.
    """
    photos, searches, everything = [], [], np.arange(len(index))
    for row, (content, known) in enumerate(zip(contents, embeddings, strict=True)):
        photos.append(("predict", request_of(content), right_embedding(known, exact=exact)))
        file = {"instances": [{"b64": base64.b64encode(content).decode()}], "k": NEIGHBORS}
        item = {"instances": [{"id": f"item {row}"}], "k": NEIGHBORS} | ({"where": {"label": "odd"}} if exact else {})
        others = (everything != row) & ((everything % 2 == 1) | (not exact))
        for body, allowed in ((file, everything >= 0), (item, others)):
            is_right = right_neighbors(index, known, allowed, exact=exact)
            searches.append(("search", json.dumps(body).encode(), is_right))
    return {"photo": photos, "search": searches}


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
            times[name].append(1000 * timed(functools.partial(way, *pair))[1])
    return embeddings, {name: statistics.median(values) for name, values in times.items()}


def start(server, folder):
    """The process of a server of the model and the index in a folder, and the address of its model."""
    processes, limits = SERVERS[server], []
    for name, value in LIMITS.items():
        limits += [f"--{name.replace('_', '-')}", str(value)]
    if processes is None:
        command = [Path(__file__).with_name("_plain_server.py"), folder / "onnx" / "model.onnx", folder / "vectors.npy"]
    else:
        command = ["-m", "tfdml", "serve", folder / "model", "--index", folder / "index", "--port", "0", "--json"]
        command += [*limits, *(["--processes", str(processes)] if processes > 1 else [])]
    command = [sys.executable, *map(str, command)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ})
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"The server {server} did not start.")
    return process, json.loads(line)["model"]


def family(pid):
    """A process and its children."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def wait_for_processes(pid, count):
    """Waits until a server has all its processes, and they are idle."""
    before, spent = -1.0, 0.0
    while len(family(pid)) < count or spent - before > 0.1:
        before = spent
        time.sleep(1.0)
        spent = sum(sum(each.cpu_times()[:2]) for each in family(pid))


def mebibytes(pid):
    """Memory of a process and its children; pages that they share are counted once."""
    return sum(each.memory_full_info().pss for each in family(pid)) / 2**20


class Load:
    """Requests of some clients to a server, and what came of them."""

    def __init__(self, address, pid, requests, shares):
        self._address, self._pid, self._requests, self._shares = address, pid, requests, shares
        self.times, self.wrong, self.unrefused, self.memory = [], [], [], []
        self.kinds = Counter()

    async def run(self, clients, seconds):
        """Sends requests for some seconds."""
        self._end = time.perf_counter() + seconds
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(60)) as session:
            watching = asyncio.create_task(self._watch(seconds / 10))
            await asyncio.gather(*(self._client(session, number) for number in range(clients)))
            await watching

    async def _client(self, session, number):
        rng = np.random.default_rng(number)
        while time.perf_counter() < self._end:
            kind = rng.choice(list(self._shares), p=list(self._shares.values()))
            send = self._refusal if kind == "bad" else self._request
            await send(session, kind, *self._requests[kind][rng.integers(len(self._requests[kind]))])

    async def _request(self, session, kind, action, body, is_right):
        begin = time.perf_counter()
        status, answer = await self._answer(session, action, body)
        if kind == next(iter(self._shares)):
            self.times.append(1000 * (time.perf_counter() - begin))
        self.kinds[kind, status] += 1
        self.wrong += [] if status == 200 and is_right(answer) else [(kind, status)]

    async def _refusal(self, session, _, action, body, name):
        status, answer = await self._answer(session, action, body)
        self.kinds[name, status] += 1
        self.unrefused += [] if 400 <= status < 500 and answer.get("error") else [(name, status)]

    async def _answer(self, session, action, body):
        async with session.post(f"{self._address}:{action}", data=io.BytesIO(body)) as response:
            return response.status, await response.json()

    async def _watch(self, pause):
        while time.perf_counter() < self._end:
            await asyncio.sleep(pause)
            self.memory.append(mebibytes(self._pid))

    def row(self, seconds):
        """The numbers of a run."""
        return {
            "requests": self.kinds.total(),
            "wrong": len(self.wrong),
            "unrefused": len(self.unrefused),
            "per_second": self.kinds.total() / seconds,
            "p50_ms": float(np.percentile(self.times, 50)),
            "p99_ms": float(np.percentile(self.times, 99)),
            "begin_mib": self.memory[len(self.memory) // 10],
            "mib": self.memory[-1],
        }


def kinds_of(load):
    """One row per kind of request and status of its answer."""
    return [{"request": name, "status": status, "count": n} for (name, status), n in sorted(load.kinds.items())]


def write_files(folder, settings, servers):
    """Writes the model and the index of the servers into a folder, and the same for a plain server."""
    contents = photos(settings["largest"])
    model = make_model(folder / "model", settings["side"])
    embeddings, times = expected(folder / "model", contents)
    index = make_index(folder / "index", np.array(embeddings), settings["items"])
    if "onnxruntime" in servers:
        tfdml.export.onnx(model, folder / "onnx")
        np.save(folder / "vectors.npy", index.vectors)
    return contents, embeddings, index, times


def measure(settings, servers, works, clients):
    """One row per server, work and number of clients."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contents, embeddings, index, times = write_files(folder, settings, servers)
        bad = [("predict", body, name) for name, body in bad_requests(contents[0]).items()]
        bad += [("search", body, name) for name, body in bad_searches(contents[0]).items()]
        for server in servers:
            is_plain = SERVERS[server] is None
            requests = {**good_requests(contents, embeddings, index, exact=not is_plain), "bad": bad}
            process, address = start(server, folder)
            try:
                wait_for_processes(process.pid, SERVERS[server] or 1)
                for work in works:
                    if is_plain and work == "mixture":  # it refuses nothing
                        continue
                    for count in clients:
                        load = Load(address, process.pid, requests, WORK[work])
                        asyncio.run(load.run(count, settings["seconds"]))
                        print(f"{server}, {work}, {count}: wrong {load.wrong[:5]}, unrefused {load.unrefused[:5]}")
                        print_table(kinds_of(load), ["request", "status", "count"])
                        about = {"server": server, "work": work, "clients": count}
                        yield about | load.row(settings["seconds"]) | times
            finally:
                process.terminate()
                process.communicate()


def rows_of(path):
    """The rows of a table by server, work and number of clients; none of another form."""
    rows = list(csv.DictReader(path.read_text().splitlines())) if path.is_file() else []
    return {key_of(row): row for row in rows if set(KEY) <= set(row)}


def key_of(row):
    """What a row is of, as text."""
    return tuple(str(row[name]) for name in KEY)


def main():
    """Measure, and write each row at once."""
    several = {name: {"nargs": "+", "choices": all_of, "default": list(all_of)} for name, all_of in CHOICES.items()}
    clients = {"nargs": "+", "type": int, "help": "numbers of clients"}
    options = options_of(__doc__, "serving.csv", **several, clients=clients)
    settings, about = QUICK if options.quick else FULL, facts("aiohttp", "onnxruntime")
    rows = rows_of(options.output)
    for row in measure(settings, options.servers, options.work, options.clients or settings["clients"]):
        rows[key_of(row)] = {**row, **about}
        order = {key: (list(SERVERS).index(key[0]), list(WORK).index(key[1]), int(key[2])) for key in rows}
        write_table(options.output, [rows[key] for key in sorted(rows, key=order.__getitem__)])


if __name__ == "__main__":
    main()
