"""Migrations of indexes: 100 kills, and 10,000 requests to a server while its index changes.

python benchmarks/migrate.py kills     # a process that is killed at 100 random moments
python benchmarks/migrate.py load      # `tfdml serve` through the versions of a migration

`python -m studies.migration` has the curves of Recall@1.
"""

import argparse
import asyncio
import base64
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import keras
import numpy as np

import tfdml


def kills(options):
    """Kill processes that migrate an index, and look at what is left."""
    random, count, kept, ended = np.random.default_rng(0), 3_000, 0, 0
    old, new = (random.standard_normal((count, dim)).astype("float32") for dim in (32, 48))
    with tempfile.TemporaryDirectory() as folder:
        path, killed = Path(folder) / "index", 0
        while killed < 100:
            if not path.exists():
                tfdml.search.Exact(old, model="old").save(path)
            process = os.fork()
            if not process:
                for _ in tfdml.search.migrate(path, lambda rows, _: new[rows], model="new", batch_size=100):
                    pass
                os._exit(0)
            time.sleep(random.uniform(0, 1.0))
            os.kill(process, signal.SIGKILL)
            was_killed = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) < 0
            killed += was_killed
            index = tfdml.search.load(path)
            np.testing.assert_array_equal(index.ids, np.arange(count))
            is_done = index.fingerprint == "new"
            expected = tfdml.search.Exact(new if is_done else old).vectors
            kept += was_killed and bool(np.allclose(index.vectors, expected, atol=1e-6))
            if is_done:
                ended += 1
                shutil.rmtree(path)
                shutil.rmtree(f"{path}.migrating", ignore_errors=True)
        if path.exists():
            list(tfdml.search.migrate(path, lambda rows, _: new[rows], model="new"))
            expected, found = tfdml.search.Exact(new).vectors, tfdml.search.load(path).vectors
            np.testing.assert_allclose(found, expected, atol=1e-6)
    print(f"{killed} kills in {ended} migrations, {kept} of which left every item once, with the vector of one model")


def load(options):
    """Ask a server while a migration puts versions out; each answer has to be that of one version."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_load(Path(folder), options.requests))


async def _load(folder, requests):
    import aiohttp
    import tensorflow as tf

    random, path = np.random.default_rng(0), folder / "index"
    inputs = keras.Input((8, 8, 1))
    keras.Model(inputs, keras.layers.Dense(24)(keras.layers.Flatten()(inputs))).save(folder / "model.keras")
    model = keras.saving.load_model(folder / "model.keras", compile=False)
    pixels = random.integers(0, 256, (2_000, 8, 8, 1), dtype="uint8")
    old, new = random.standard_normal((2_000, 16)), model.predict(pixels, verbose=0)
    fingerprint = tfdml.models.fingerprint(model, tfdml.datasets.Preprocessing.for_model(model))
    tfdml.search.Exact(old, model="old").save(path)
    states = tfdml.search.migrate(path, lambda rows, _: new[rows], model=fingerprint, batch_size=50)
    next(states)
    put_out, done = [tfdml.search.load(path, model=fingerprint)], threading.Event()

    def migrate():
        while not done.is_set() and next(states, None):
            put_out.append(tfdml.search.load(path, model=fingerprint))
            time.sleep(1.2)  # the server looks for a newer version each second
        done.set()

    words = [sys.executable, "-m", "tfdml", "serve", str(folder / "model.keras"), "--index", str(path), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().split()[1]
        files = [base64.b64encode(tf.io.encode_png(image).numpy()).decode() for image in pixels[:64]]
        async with aiohttp.ClientSession() as session:
            thread = threading.Thread(target=migrate)
            thread.start()
            answers, failed = [], 0

            async def ask(number):
                nonlocal failed
                body = {"instances": [{"b64": files[number % 64]}], "k": 10}
                async with session.post(f"{url}:search", json=body) as response:
                    content = await response.json()
                    if response.status != 200:
                        failed += 1
                        return
                    answers.append((number % 64, content["neighbors"][0]))

            number = 0
            while number < requests or not done.is_set():
                await asyncio.gather(*(ask(number + each) for each in range(16)))
                number += 16
            thread.join()
        server.send_signal(signal.SIGINT)
    counts = np.zeros(len(put_out), int)
    mixed = 0
    expected = [[each.tolist() for each in index.search(new[:64], 10)] for index in put_out]
    for query, neighbors in answers:
        ids, scores = [item["id"] for item in neighbors], [item["score"] for item in neighbors]
        are = [
            all_ids[query] == ids and np.allclose(all_scores[query], scores, atol=1e-5)
            for all_ids, all_scores in expected
        ]
        mixed += not any(are)
        counts[np.argmax(are)] += any(are)
    print(f"{len(answers):,} answers of {np.count_nonzero(counts)} versions, {mixed} of no version, {failed} failed")


def main():
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("kills", "load"))
    parser.add_argument("--requests", type=int, default=10_000, help="of the load")
    options = parser.parse_args()
    {"kills": kills, "load": load}[options.what](options)


if __name__ == "__main__":
    main()
