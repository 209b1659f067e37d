"""The throughput of `tfdml serve --check-recall 0.01` beside the same server without it.

Both servers run at once, and are asked in turns: eight clients search for items of 100,000 random vectors of 128
dimensions in a faiss index, each the next one as soon as it has an answer. `per_second` are the answers, and `ms` the
processor milliseconds of the server for one; `ratio` is the median of the milliseconds with checks over those without,
and `low` and `high` are the quartiles over the turns.

    python benchmarks/recall_check.py            # three minutes of two cores
    python benchmarks/recall_check.py --quick    # few vectors, one turn
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import keras
import numpy as np
import psutil
from _report import facts, options_of, write_table

import tfdml

CLIENTS, DIMENSIONS, SHARE = 8, 128, "0.01"


def start(folder, *options):
    """The process of a server, and the address of its model."""
    command = [sys.executable, "-m", "tfdml", "serve", folder / "model", "--index", folder / "index", "--port", "0"]
    command = [*map(str, command), "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return process, json.loads(process.stdout.readline())["model"]


async def load(process, address, items, seconds):
    """Answers per second of a server to clients that search for items, and its processor milliseconds per answer."""
    end, answered = time.perf_counter() + seconds, 0
    server = psutil.Process(process.pid)
    began = sum(server.cpu_times()[:2])

    async def client(session, number):
        nonlocal answered
        rng = np.random.default_rng(number)
        while time.perf_counter() < end:
            body = {"instances": [{"row": int(rng.integers(items))}], "k": 10}
            async with session.post(f"{address}:search", json=body) as response:
                response.raise_for_status()
                await response.read()
            answered += 1

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(client(session, number) for number in range(CLIENTS)))
    return answered / seconds, 1000 * (sum(server.cpu_times()[:2]) - began) / answered


def measure(items, seconds, turns):
    """One row."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = keras.Input((16, 16, 3), dtype="uint8")
        model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs, dim=DIMENSIONS, widths=(4,)))
        tfdml.export.saved_model(model, folder / "model")
        vectors = np.random.default_rng(0).normal(size=(items, DIMENSIONS)).astype("float32")
        tfdml.search.Faiss(vectors, np.arange(items)).save(folder / "index")
        servers = [start(folder), start(folder, "--check-recall", SHARE)]
        try:
            found = np.empty((turns + 1, 2, 2))  # the first turn warms up
            for turn in range(turns + 1):
                for number in (0, 1) if turn % 2 else (1, 0):
                    found[turn, number] = asyncio.run(load(*servers[number], items, seconds))
                print(turn, found[turn].round(3).tolist(), flush=True)
        finally:
            for process, _ in servers:
                process.terminate()
                process.communicate()
    (per_second, checked_per_second), (ms, checked_ms) = np.median(found[1:], axis=0).T
    low, ratio, high = np.quantile(found[1:, 1, 1] / found[1:, 0, 1], [0.25, 0.5, 0.75])
    about = {"items": items, "dimensions": DIMENSIONS, "clients": CLIENTS, "share": SHARE, "turns": turns}
    about |= {"per_second": per_second, "checked per_second": checked_per_second, "ms": ms, "checked ms": checked_ms}
    return about | {"ratio": ratio, "low": low, "high": high}


def main():
    """Measure, and write the row."""
    quick = {"items": 1000, "seconds": 0.5, "turns": 1}
    options = options_of(__doc__, "recall_check.csv", quick=quick, items=100_000, seconds=2.5, turns=30)
    row = measure(options.items, options.seconds, options.turns)
    write_table(options.output, [row | facts("faiss-cpu", "aiohttp")])


if __name__ == "__main__":
    main()
