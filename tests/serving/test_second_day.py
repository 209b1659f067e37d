"""A served index changes while its writers are killed: each answer is of one version, none fails, none is lost.

`KILLS=100 python -m pytest -s tests/serving/test_second_day.py` prints what 100 kills came to, in some ten minutes.
"""

import base64
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from itertools import cycle
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.cli.test_commands import VIEW, Blocks, decode
from tests.cli.test_indexes import photo
from tfdml import datasets, export, models, search
from tfdml.visualize import Thumbnails, write_thumbnails

KILLS = int(os.environ.get("KILLS", "3"))
CLIENTS, ANSWERS_PER_KILL = 2, 10
COMMANDS = ("index remove run --path photos/a", "index add run photos")  # of what has all items, and of the rest
SET = "index set run class=class-{} --path photos/b --path photos/c"
WORKER = """
import os
import sys

from tests.cli.test_commands import Blocks, decode
from tfdml import cli
from tfdml.cli.references import Reference

Blocks.fingerprint = sys.argv[1]
Reference.model = lambda self: (Blocks(), decode)
for command in sys.stdin:
    child = os.fork()
    if not child:
        os.dup2(os.open("worker.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
        os._exit(cli.main(command.split()))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The fingerprint of a small model, whose run is in the current folder with 60 photographs of three products."""
    root = tmp_path_factory.mktemp("shop")
    for row in range(60):
        photo(root / "photos" / "abc"[row // 20] / f"{row}.png", 4 * row)
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    scaled = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255, offset=-0.5)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(4, kernel_initializer=keras.initializers.GlorotUniform(0))(scaled))
    run = root / "run"
    export.saved_model(model, run / "1", preprocessing=VIEW)
    (run / "settings.toml").write_text('format = "tfdml.training/1"\n')
    previous = Path.cwd()
    os.chdir(root)
    photos, fingerprint = datasets.folder("photos", load=decode), export.load(run / "1").fingerprint
    index = search.Exact(np.array(models.embed(Blocks(), photos)), **datasets.items(photos), model=fingerprint)
    index.save("run/index")
    write_thumbnails("run/thumbnails.npz", index.ids, photos, versions=index.metadata["_checksum"].to_pylist())
    yield fingerprint
    os.chdir(previous)


class Client(threading.Thread):
    """Asks a server until it is stopped: the number of answers, what failed, and the version of the last answer."""

    def __init__(self, address, queries, versions):
        super().__init__(daemon=True)
        self.address, self.queries, self.versions = address, cycle(queries), versions
        self.answers, self.failed, self.scores, self.latest, self.is_stopped = 0, [], {}, None, False

    def run(self):
        while not self.is_stopped:
            query = next(self.queries)
            body = json.dumps({"instances": [query], "k": 60}).encode()
            try:
                with urllib.request.urlopen(f"{self.address}:search", body, timeout=60) as response:
                    (neighbors,) = json.load(response)["neighbors"]
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(repr(error))
            else:
                self.answers += 1
                self._compare(query, neighbors)

    def _compare(self, query, neighbors):
        ids = sorted([each["id"] for each in neighbors] + ([query["id"]] if "id" in query else []))
        known = self.scores.setdefault(str(query), {})
        is_same = all(abs(known.setdefault(each["id"], each["score"]) - each["score"]) < 1e-5 for each in neighbors)
        self.latest = self.versions.index(ids) if ids in self.versions else None
        classes = {each["metadata"]["class"] for each in neighbors if each["id"] in self.versions[1]}
        if self.latest is None or not is_same or len(classes) != 1:
            self.failed.append(("items of two versions", len(ids)))


def started(*command):
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def is_writing():
    return any(Path("run").glob(".partial-*"))


def items():
    """The path and the vector of each item, by its id."""
    index = search.load("run/index")
    assert len(set(index.ids.tolist())) == len(index)
    return dict(
        zip(index.ids.tolist(), zip(index.metadata["path"].to_pylist(), index.vectors, strict=True), strict=True)
    )


@pytest.mark.nightly
def test_kills_of_writers_lose_nothing_and_fail_no_request(shop, monkeypatch):
    folders = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
    index = search.load("run/index")
    index.update(index.ids, metadata={**index.metadata.to_pydict(), "class": ["none"] * len(index)})
    index.save("run/index")
    whole, random, delays, killed = items(), np.random.default_rng(0), [], Counter()
    rest = [id for id, (path, _) in whole.items() if "/a/" not in path]
    versions = [sorted(whole), sorted(rest)]
    photo = {"b64": base64.b64encode(Path("photos/b/20.png").read_bytes()).decode()}
    server = started(sys.executable, "-m", "tfdml", "serve", "run", "--port", "0", "--json")
    worker = started(sys.executable, "-c", WORKER, shop)

    def begun(command):
        worker.stdin.write(f"{command}\n")
        worker.stdin.flush()
        return int(worker.stdout.readline())

    def version_now():
        now = items()
        assert sorted(now) in versions
        for id, (path, vector) in now.items():
            assert path == whole[id][0]
            np.testing.assert_allclose(vector, whole[id][1], atol=1e-6)
        assert set(now) - set(Thumbnails.load("run/thumbnails.npz")) <= set(whole) - set(rest)
        return sorted(now)

    with server, worker, contextlib.ExitStack() as ended:
        for process in (server, worker):
            ended.callback(process.kill)
        address = json.loads(server.stdout.readline())["model"]
        clients = [Client(address, [photo, {"id": rest[0]}, {"id": rest[1]}], versions) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        before, seconds = versions[0], {command: 2.0 for command in COMMANDS}
        while sum(number for (_, code, _), number in killed.items() if code) < KILLS:
            number = len(delays)
            command = COMMANDS[versions.index(before)]
            child = begun(command)
            end = time.monotonic() + seconds[command] * (2 if number % 2 else random.uniform(0, 1))
            while time.monotonic() < end and not (number % 2 and is_writing()):
                time.sleep(0.001)
            time.sleep(random.uniform(0, 0.05) if number % 2 else 0)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            code, now = int(worker.stdout.readline()), version_now()
            killed[command.split()[1], code, now != before] += 1
            command = COMMANDS[versions.index(now)] if number % 4 == 0 else SET.format(number)
            begin = time.monotonic()
            begun(command)
            assert worker.stdout.readline() == "0\n", Path("worker.log").read_text()[-2000:]
            seconds[command], begin, before = time.monotonic() - begin, time.monotonic(), version_now()
            assert not is_writing()
            while any(client.latest != versions.index(before) for client in clients):
                time.sleep(0.01)
                assert server.poll() is None
                assert not any(client.failed for client in clients)
                assert time.monotonic() < begin + 30
            delays.append(time.monotonic() - begin)
        for client in clients:
            client.is_stopped = True
            client.join()
    answers, failed = sum(client.answers for client in clients), [each for client in clients for each in client.failed]
    print(f"{dict(killed)} (command, code, changed), {answers:,} answers, followed in {max(delays):.2f} s")
    assert not failed
    assert answers >= ANSWERS_PER_KILL * KILLS
