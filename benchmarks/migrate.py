"""Migrations of indexes: Recall@1 on the way, 100 kills, and 10,000 requests to a server while its index changes.

python benchmarks/migrate.py curves    # the zoo's models of glyphs and photo patches, four minutes on two cores
python benchmarks/migrate.py kills     # a process that is killed at 100 random moments
python benchmarks/migrate.py load      # `tfdml serve` through the versions of a migration

Curves: the old and the new model are two of the zoo, and a whitening of the new one's embeddings is a linear change.
Every test image is a query of the new model against all other test images in the index. Classes of the order "classes"
come one after the other; of "mixed", images are shuffled.
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
from _report import RESULTS, hardware, print_table, versions, write_csv

import tfdml

CHANGES = {  # set: old model, new model; None for the whitening of the old one
    "glyphs": ("glyphs-contrastive", "glyphs-multi-similarity"),
    "glyphs, linear": ("glyphs-contrastive", None),
    "photo patches": ("photo-patches-raw", "photo-patches-imagenet"),
    "photo patches, linear": ("photo-patches-raw", None),
}
SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


def recall(queries, gallery, labels):
    """Recall@1 of all rows against all other rows, in percent."""
    rows = np.arange(len(labels))
    options = {"gallery": gallery, "gallery_labels": labels, "groups": rows, "gallery_groups": rows}
    return 100 * tfdml.metrics.retrieval(queries, labels, k=1, full_map=False, **options)["recall@1"]


def embedded(name, sets):
    """Embeddings of the training and the test part by a model of the zoo."""
    model = tfdml.zoo.load(name)
    return [np.asarray(tfdml.models.embed(model, part)) for part in sets]  # which know no model


def curve(folder, old, new, labels, order):
    """Recall@1 of the versions that a migration puts out, by the share that is embedded again."""
    path, order = folder / "index", order[::-1]  # newest first
    tfdml.search.Exact(old[order], metric="cosine", model="old").save(path)
    points, step = {}, int(SHARES[0] * len(old))
    for state in tfdml.search.migrate(path, lambda rows, _: new[order[rows]], model="new", batch_size=step):
        index = tfdml.search.load(path, model="new")
        origin = index.metadata["vector"].to_numpy() if index.metadata else np.array(["embedded"])
        share = np.mean(origin == "embedded")
        if share not in points:
            points[share] = (recall(new[order], index.vectors, labels[order]), 100 * state.recall)
    return points


def curves(options):
    """Rows of the curves of all sets."""
    rows, loaded, about = [], {}, {"hardware": hardware(), "versions": versions("tensorflow", "keras")}
    for name in options.sets[: 1 if options.quick else None]:
        old_name, new_name = CHANGES[name]
        kind = name.partition(",")[0]
        glyphs, patches = tfdml.datasets.glyphs, tfdml.datasets.photo_patches
        sets = glyphs() if kind == "glyphs" else patches(splits=("train", "test"))
        sets = [part.select_classes(range(60)) for part in sets] if options.quick else sets
        for model in filter(None, (old_name, new_name)):
            loaded[model] = loaded.get(model) or embedded(model, sets)
        train, old = loaded[old_name]
        new = loaded[new_name][1] if new_name else tfdml.search.Whitening.learn(train, shrinkage=0.1)(old)
        labels = sets[1].labels
        random = np.random.default_rng(0)
        orders = {"mixed": random.permutation(len(labels)), "classes": np.argsort(labels, kind="stable")}
        before, after = recall(old, old, labels), recall(new, new, labels)
        for order, row_order in orders.items():
            with tempfile.TemporaryDirectory() as folder:
                points = curve(Path(folder), old, new, labels, row_order)
            for share, (found, estimated) in points.items():
                row = {"set": name, "order": order, "old": f"{before:.1f}", "embedded %": f"{100 * share:.0f}"}
                row |= {"recall@1": f"{found:.1f}", "estimated": f"{estimated:.1f}", "new": f"{after:.1f}"}
                rows.append({**row, "command": "benchmarks/migrate.py curves", **about})
            print_table(rows[-len(points) :], list(rows[0])[:7])
    write_csv(options.output or RESULTS / "migrate.csv", rows)


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
    parser.add_argument("what", choices=("curves", "kills", "load"))
    parser.add_argument("--sets", nargs="+", default=list(CHANGES), choices=CHANGES, help="of the curves")
    parser.add_argument("--quick", action="store_true", help="the curves of the first classes of glyphs")
    parser.add_argument("--requests", type=int, default=10_000, help="of the load")
    parser.add_argument("--output", help="the file of the curves")
    options = parser.parse_args()
    {"curves": curves, "kills": kills, "load": load}[options.what](options)


if __name__ == "__main__":
    main()
