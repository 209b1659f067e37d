"""Milliseconds per request of exported models: signatures beside the model, and search inside the graph.

`signature`: `serving_default` of a SavedModel, beside the same Keras model called in a `tf.function`.
`exact`: exact search of a graph beside the matrix product of the same queries and vectors.
`partitioned`: search in cells beside exact search, both in a graph. The number of probes is chosen on the vectors
themselves; `recall@10` is that of queries that took no part in the choice. The vectors are those of
`benchmarks/search.py`. All calls take turns.

    python benchmarks/export.py            # 100,000 x 128 and 1,000,000 x 128
    python benchmarks/export.py --quick    # 2,000 x 32 and 20,000 x 32
"""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from _report import median_seconds, options_of, timed, write_table
from search import make_vectors

import tfdml

K = 10


def row(what, against, seconds, **settings):
    """A row of the table: the milliseconds of both, and their ratio."""
    ours, theirs = 1e3 * seconds["ours"], 1e3 * seconds["theirs"]
    sizes = {name: settings.pop(name, "") for name in ("rows", "dim", "batch", "dtype")}
    numbers = {"ms": ours, "beside": against, "beside_ms": theirs, "ratio": ours / theirs}
    return {"what": what, **sizes, **numbers, **settings}


def in_turns(ours, theirs, argument, repeats):
    """Median seconds of two functions of a tensor."""
    functions = {"ours": lambda: wait(ours(argument)), "theirs": lambda: wait(theirs(argument))}
    return median_seconds(functions, repeats=repeats)


def wait(found):
    """Return once the tensors are computed."""
    for tensor in tf.nest.flatten(found):
        tensor.numpy()


def signature_rows(options):
    """The signature beside the model, on images of a size that backbones take."""
    size = 32 if options.quick else 96
    inputs = keras.Input((size, size, 3), dtype="uint8")
    model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs, dim=128))
    with tempfile.TemporaryDirectory() as folder:
        served = tf.saved_model.load(str(tfdml.export.saved_model(model, Path(folder) / "model")))
        called = tf.function(lambda images: model(images, training=False), reduce_retracing=True)
        for batch in options.batches:
            images = np.random.default_rng(0).integers(0, 256, (batch, size, size, 3), dtype="uint8")
            ours = lambda images: served.signatures["serving_default"](images=images)  # noqa: E731
            seconds = in_turns(ours, called, tf.constant(images), options.repeats)
            yield row("signature", "model", seconds, batch=batch)


def graph_of(searcher, dim):
    """A searcher as a graph."""
    return tf.function(searcher, input_signature=[tf.TensorSpec((None, dim), "float32")])


def exact_rows(options):
    """Exact search of each type beside the product in float32."""
    rows, dim = (2_000, 32) if options.quick else (100_000, 128)
    vectors, queries = make_vectors(rows, dim, 1), make_vectors(max(options.batches), dim, 2)
    stored = tf.Variable(vectors)
    product = graph_of(lambda queries: tf.matmul(queries, stored, transpose_b=True), dim)
    for dtype in ("float32", "bfloat16", "int8"):
        search = graph_of(tfdml.export.ExactSearch(k=K, dtype=dtype).searcher(vectors, "cosine"), dim)
        for batch in options.batches:
            seconds = in_turns(search, product, tf.constant(queries[:batch]), options.repeats)
            yield row("exact", "product", seconds, rows=rows, dim=dim, batch=batch, dtype=dtype)


def partitioned_rows(options):
    """Search in cells beside exact search."""
    rows, dim = (20_000, 32) if options.quick else (1_000_000, 128)
    vectors, queries = make_vectors(rows, dim, 1), make_vectors(1_000, dim, 2)
    exact = graph_of(tfdml.export.ExactSearch(k=K).searcher(vectors, "cosine"), dim)
    truth = np.concatenate([exact(tf.constant(queries[part : part + 50]))[0] for part in range(0, 1_000, 50)])
    search_of_cells = tfdml.export.PartitionedSearch(k=K, recall=options.recall)
    cells, build, _ = timed(lambda: search_of_cells.searcher(vectors, "cosine"))
    search = graph_of(cells, dim)
    recall = tfdml.search.neighbor_recall(search(tf.constant(queries))[0].numpy().astype(int), truth.astype(int))
    for batch in options.batches:
        seconds = in_turns(search, exact, tf.constant(queries[:batch]), options.repeats)
        about = {"rows": rows, "dim": dim, "batch": batch, "dtype": "float32", "recall@10": recall, "build_s": build}
        yield row("partitioned", "exact", seconds, **about)


def main():
    """Measure and write the table."""
    options = options_of(__doc__, "export.csv", batches=[1, 32, 128], recall=0.95, repeats=15)
    parts = (signature_rows, exact_rows, partitioned_rows)
    write_table(options.output, [found for part in parts for found in part(options)])


if __name__ == "__main__":
    main()
