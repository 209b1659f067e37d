"""One model and one index in every runtime, on one core: size, milliseconds per query, agreement with the original.

The gallery has 100,000 embeddings of 128 dimensions, of images of random squares; the queries are 10,000 others.
`mib` is the size of the folder, and `ms` the median of requests of one image, from pixels to ids.
`embedding_error` is the largest difference from the Keras model, and `score_error` from `tfdml.search.Exact`.
`same_ten` is the share of queries whose ten ids are to the last one in the order of `tfdml.search.Exact`, and
`same_ten_by_score` also counts those whose ids differ only where scores differ by less than 1e-6. For int8 galleries,
`recall@10` is the share of the ten exact neighbors that are found.

    python benchmarks/runtimes.py            # ten minutes
    python benchmarks/runtimes.py --quick    # 2,000 embeddings of 16 dimensions and 100 queries
"""

import argparse
import importlib
import os
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from _report import RESULTS, hardware, median_seconds, print_table, versions, write_csv

import tfdml

COLUMNS = ["runtime", "gallery", "weights", "mib", "ms", "embedding_error", "score_error", "same_ten"]
COLUMNS += ["same_ten_by_score", "recall@10"]
K, SIDE, BATCH = 10, 16, 100
PACKAGES = ("onnx", "onnxruntime", "tf2onnx", "openvino", "ai-edge-litert")


def use_one_core():
    """Keep this process on one core, where the system can, before a runtime counts the cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def squares(count, seed):
    """Images of 16 squares of random gray levels."""
    levels = np.random.default_rng(seed).integers(0, 256, (count, 4, 4, 1), dtype="uint8")
    return levels.repeat(SIDE // 4, axis=1).repeat(SIDE // 4, axis=2)


def saved_model_runner(folder):
    """A function from pixels to a dict of arrays, in TensorFlow."""
    signatures = tf.saved_model.load(str(folder)).signatures

    def run(images):
        found = signatures["search"](images=tf.constant(images))
        return {name: value.numpy() for name, value in found.items()}

    run.embed = lambda images: signatures["serving_default"](images=tf.constant(images))["embedding"].numpy()
    return run


def onnx_runner(folder):
    """The same in ONNX Runtime."""
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda images: dict(zip(names, session.run(names, {"images": images}), strict=True))


def openvino_runner(folder):
    """The same in OpenVINO, without bfloat16."""
    openvino = importlib.import_module("openvino")
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    network = openvino.compile_model(str(folder / "model.xml"), "CPU", options)
    names = {output.get_any_name(): output for output in network.outputs}

    def run(images):
        found = network([images])
        return {name: np.array(found[output]) for name, output in names.items()}

    return run


def litert_runner(folder):
    """The same in LiteRT."""
    interpreter = importlib.import_module("ai_edge_litert.interpreter")
    runner = interpreter.Interpreter(str(folder / "model.tflite"), num_threads=1).get_signature_runner("search")
    return lambda images: runner(images=images)


RUNTIMES = {
    "savedmodel": (tfdml.export.saved_model, saved_model_runner),
    "onnx": (tfdml.export.onnx, onnx_runner),
    "openvino": (tfdml.export.openvino, openvino_runner),
    "litert": (tfdml.export.litert, litert_runner),
}


def answers(run, queries):
    """Embeddings, ids and scores of all queries."""
    batches = [queries[start : start + BATCH] for start in range(0, len(queries), BATCH)]
    found = [run(batch) for batch in batches]
    joined = {name: np.concatenate([each[name] for each in found]) for name in ("ids", "scores")}
    embeddings = [run.embed(batch) for batch in batches] if hasattr(run, "embed") else [f["embedding"] for f in found]
    return {**joined, "embedding": np.concatenate(embeddings)}


def mib(folder):
    """Size of the files of a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20


def row(name, folder, dtype, queries, expected, options):
    """Size, time and agreement of one runtime."""
    write, runner = RUNTIMES[name]
    run = runner(write(options.model, folder, index=options.index, search=tfdml.export.ExactSearch(k=K, dtype=dtype)))
    found = answers(run, queries)
    near = np.abs(found["scores"] - expected["scores"]) < 1e-6
    same = found["ids"] == expected["ids"]
    seconds = median_seconds({"ours": lambda: run(queries[:1])}, repeats=options.repeats)["ours"]
    recall = np.mean([len(set(a) & set(b)) / K for a, b in zip(found["ids"], expected["ids"], strict=True)])
    return {
        "runtime": name,
        "gallery": dtype,
        "weights": "float32",
        "mib": mib(folder),
        "ms": 1e3 * seconds,
        "embedding_error": float(np.abs(found["embedding"] - expected["embedding"]).max()),
        "score_error": float(np.abs(found["scores"] - expected["scores"]).max()),
        "same_ten": float(same.all(axis=1).mean()),
        "same_ten_by_score": float((same | near).all(axis=1).mean()),
        "recall@10": float(recall),
    }


def main():
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=101)
    parser.add_argument("--output", default=RESULTS / "runtimes.csv")
    options = parser.parse_args()
    if not options.quick:
        use_one_core()
    vectors, dim, count = (2_000, 16, 100) if options.quick else (100_000, 128, 10_000)
    keras.utils.set_random_seed(0)
    inputs = keras.Input((SIDE, SIDE, 1))
    options.model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs, dim=dim, widths=(8, 16)))
    gallery, queries = squares(vectors, 1), squares(count, 2)
    options.index = tfdml.search.Exact(options.model.predict(gallery, batch_size=BATCH, verbose=0))
    embeddings = options.model.predict(queries, batch_size=BATCH, verbose=0)
    ids, scores = options.index.search(embeddings, k=K)
    expected = {"embedding": embeddings, "ids": ids, "scores": scores}
    about = {"hardware": hardware(), "versions": versions(*PACKAGES)}
    rows = []
    for dtype in ("float32", "int8"):
        for name in RUNTIMES:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(row(name, Path(folder) / "model", dtype, queries, expected, options) | about)
    print_table(rows, COLUMNS)
    write_csv(options.output, rows)


if __name__ == "__main__":
    main()
