"""Bulk embedding, indexes in shards, joins and evaluation on a cluster of Ray that is one machine.

* embed: images a second of a small network from an array, by the plain loop of `models.embed` in a process of its own
  with one thread, and by one and two actors of one processor each.
* index, search: an exact and a faiss index in shards; seconds to build it, and queries a second with the recall@10
  against exact search.
* join: pairs of a cosine similarity of at least 0.95 of vectors a twentieth of which are noisy copies, at two sizes,
  with the recall that the join bounds, and the power of n with which its time grows.
* retrieval: the metrics of 2,000 queries in a gallery of the larger size.

Vectors are those of `search.py`, written as ten shards. Seconds are on the clock, and contain the start of processes of
Ray, about five seconds each time one is new; the rate of actors leaves it out.

    python benchmarks/distributed.py            # 5 and 10 million x 64; a quarter of an hour and 12 GB of disk
    python benchmarks/distributed.py --quick    # 20,000 x 16
"""

import csv
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from _report import facts, options_of, timed, write_table
from duplicates import make_vectors as vectors_with_copies
from search import make_vectors

import tfdml

K = 10


class Rows:
    """A model whose embeddings are the examples."""

    fingerprint = "rows"

    def predict_on_batch(self, examples):
        """The examples."""
        return examples


def row(work, vectors, dim, seconds, rate, note, workers=2):
    """A row of the table."""
    facts = {"work": work, "vectors": vectors, "dim": dim, "workers": workers}
    return {**facts, "wall_s": round(seconds, 1), "rate": rate, "note": note}


def network(folder):
    """A small convolutional network of 32 x 32 images, saved."""
    import keras

    inputs = keras.Input((32, 32, 3), dtype="uint8")
    model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs, dim=64, widths=(32, 64, 128)))
    model.save(folder / "model.keras")
    return folder / "model.keras"


LOOP = """
import sys, time
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
import keras, numpy as np, tfdml
model = keras.saving.load_model(sys.argv[1], compile=False)
images = np.load(sys.argv[2])
tfdml.models.embed(model, images[:512], batch_size=256)
begin = time.perf_counter()
tfdml.models.embed(model, images, batch_size=256)
print(time.perf_counter() - begin)
"""


def embedding_rows(options, folder):
    """Images a second of the plain loop and of actors."""
    count = 1_024 if options.quick else 40_960
    images = np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), np.uint8)
    np.save(folder / "images.npy", images)
    model = network(folder)
    command = [sys.executable, "-c", LOOP, str(model), str(folder / "images.npy")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    loop = float(answer.split()[-1])
    yield row("embed: plain loop", count, 64, loop, count / loop, "images a second, one thread", workers=1)
    for actors in (1, 2):
        output = folder / f"embedded-{actors}"
        arguments = model, images, output
        embed = lambda arguments=arguments, actors=actors: tfdml.distributed.embed(  # noqa: E731
            *arguments, shard_size=count // 8, actors=actors
        )
        shards, seconds, _ = timed(embed)
        begins = sorted(path.stat().st_mtime for path in shards.paths)
        steady = (begins[-1] - begins[0]) / (len(begins) - actors) * len(begins)  # without the start of the actors
        note = f"images a second; {count / steady / actors / (count / loop):.2f} of the plain loop per processor"
        yield row("embed: actors", count, 64, seconds, count / steady, note, workers=actors)


def written(vectors, folder, shard_size):
    """Vectors as shards of embeddings."""
    return tfdml.distributed.embed(Rows(), vectors, folder, batch_size=4_096, shard_size=shard_size)


def index_rows(options, folder):
    """Indexes in shards."""
    count, dim = options.vectors, options.dim
    shards = written(make_vectors(count, dim, 1), folder / "gallery", max(1, count // 10))
    queries = make_vectors(2_000, dim, 2)
    (exact_rows, _), seconds, _ = timed(lambda: tfdml.distributed.search_shards(shards, queries, K))
    yield row("search_shards, exact", count, dim, seconds, len(queries) / seconds, "queries a second")
    for kind, settings in (("exact", {}), ("faiss", {"method": "partitioned"}), ("scann", {"method": "partitioned"})):
        build = lambda kind=kind, settings=settings: tfdml.distributed.build_index(  # noqa: E731
            shards, folder / kind, index=kind, **settings
        )
        index, seconds, _ = timed(build)
        yield row(f"build_index, {kind}", count, dim, seconds, count / seconds, "vectors a second")
        (ids, _), seconds, _ = timed(lambda index=index: index.search(queries, K))
        recall = tfdml.search.neighbor_recall(ids, exact_rows)
        note = f"queries a second in one process, recall@{K} {recall:.3f}"
        yield row(f"search, {kind}", count, dim, seconds, len(queries) / seconds, note)
        del index
        with tfdml.distributed.SearchActors(folder / kind, actors=2) as actors:
            (ids, _), seconds, _ = timed(lambda actors=actors: actors.search(queries, K))
        recall = tfdml.search.neighbor_recall(ids, exact_rows)
        note = f"queries a second by actors, recall@{K} {recall:.3f}"
        yield row(f"search, {kind}", count, dim, seconds, len(queries) / seconds, note)


def retrieval_rows(options, folder):
    """Metrics of queries in a gallery."""
    count, dim = options.join, options.dim
    shards = written(make_vectors(count, dim, 1), folder / "gallery", max(1, count // 10))
    queries = make_vectors(2_000, dim, 2)
    labels = np.random.default_rng(3).integers(0, count // 50, count)
    evaluate = lambda: tfdml.distributed.retrieval(shards, queries, labels[:2_000], gallery_labels=labels)  # noqa: E731
    _, seconds, _ = timed(evaluate)
    yield row("retrieval", count, dim, seconds, len(queries) / seconds, "queries a second, classes of 50")


def join_rows(options, folder):
    """Joins of two sizes."""
    sizes, dim = [options.vectors // 2, options.join], options.dim
    spent = []
    for count in sizes:
        shards = written(vectors_with_copies(count, dim, 0), folder / f"copies-{count}", max(1, count // 10))
        sample = 500 if options.quick else 4_096
        join_copies = lambda shards=shards, sample=sample: tfdml.distributed.join(shards, 0.95, sample=sample)  # noqa: E731
        pairs, seconds, _ = timed(join_copies)
        spent.append(seconds)
        note = f"vectors a second; {len(pairs.rows):,} pairs, recall of rows above {pairs.recall.lower:.3f}"
        if len(spent) > 1:
            note += f"; time grows with n^{math.log(spent[-1] / spent[0]) / math.log(count / sizes[0]):.2f}"
        yield row("join at 0.95", count, dim, seconds, count / seconds, note)


ESTIMATED = 10**9  # vectors


def estimates(rows):
    """Hours of two processors for a billion vectors, from the rates of the rows."""
    by_work = {entry["work"]: entry for entry in rows}
    powers = {"embed: actors": 1, "build_index, exact": 1, "build_index, scann": 1, "join at 0.95": 1.5}  # of n
    for work, power in powers.items():
        if work in by_work:
            entry = by_work[work]
            count = int(entry["vectors"])
            hours = float(entry["wall_s"]) * (ESTIMATED / count) ** power / 3600
            note = f"from {count:,} at n^{power}"
            facts = {"work": work, "vectors": ESTIMATED, "dim": entry["dim"], "hours": round(hours, 1), "note": note}
            yield facts | {name: entry[name] for name in ("measured", "hardware", "versions")}


def main():
    """Measure, and write the table and the estimates; rows of parts that are not measured stay."""
    parts = {"embed": embedding_rows, "index": index_rows, "join": join_rows, "retrieval": retrieval_rows}
    chosen = {"nargs": "+", "choices": parts, "default": list(parts)}
    sizes, small = {"vectors": 5_000_000, "join": 10_000_000, "dim": 64}, {"vectors": 20_000, "join": 20_000, "dim": 16}
    options = options_of(__doc__, "distributed.csv", **sizes, parts=chosen, quick=small)
    import ray
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # other processes have not this folder on their path
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    about = facts("ray", "faiss-cpu", "scann")
    earlier = list(csv.DictReader(options.output.open())) if options.output.exists() else []
    rows = []
    for name, measure in parts.items():
        if name not in options.parts:
            rows += [entry for entry in earlier if entry["part"] == name]
            continue
        with tempfile.TemporaryDirectory() as folder:
            for entry in measure(options, Path(folder)):
                rows.append({"part": name, **entry, **about})
                print(json.dumps(entry), flush=True)
    write_table(options.output, rows)
    write_table(options.output.with_stem(f"{options.output.stem}_estimates"), estimates(rows))


if __name__ == "__main__":
    main()
