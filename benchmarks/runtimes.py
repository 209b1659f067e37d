"""One model and one index in every runtime, on one core: size, milliseconds per query, agreement with the original.

The gallery has 100,000 embeddings of 128 dimensions, of images of random squares; the queries are 10,000 others.
`mib` is the size of the folder, and `ms` the median of requests of one image, from pixels to ids.
`embedding_error` is the largest difference from the Keras model, and `score_error` from `tfdml.search.Exact`.
`same_ten` is the share of queries whose ten ids are to the last one in the order of `tfdml.search.Exact`, and
`same_ten_by_score` also counts those whose ids differ only where scores differ by less than 1e-6. For int8 galleries,
`recall@10` is the share of the ten exact neighbors that are found.

`items` compares the ten items of the queries, in a gallery of 20,000 whose items have five vectors each.
`boxes` compares the pixels of 1,000 random boxes of a photograph, half of them of whole numbers, with a set with boxes,
in five runtimes: the embedding of its network is its input. `ms` is the time of one box.

    python benchmarks/runtimes.py                 # ten minutes
    python benchmarks/runtimes.py --what items    # two minutes
    python benchmarks/runtimes.py --what boxes    # a minute; needs Node.js
    python benchmarks/runtimes.py --quick         # 2,000 embeddings of 16 dimensions and 100 queries; 20 boxes
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from _report import folder_mib, median_seconds, options_of, write_table

import tfdml

K, SIDE, BATCH = 10, 16, 100
CUT = """
import { cut, fitted } from "./pixels.mjs";
let text = "";
for await (const chunk of process.stdin) text += chunk;
const [image, settings, boxes] = JSON.parse(text);
console.log(JSON.stringify(boxes.map((box) => [...fitted(cut(image, box, settings.margin), settings)])));
"""
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


def onnx_runner(folder, by_name=False):
    """The same in ONNX Runtime; `by_name`: from several inputs by name."""
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    run = lambda **inputs: dict(zip(names, session.run(names, inputs), strict=True))  # noqa: E731
    return run if by_name else lambda images: run(images=images)


def openvino_runner(folder, by_name=False):
    """The same in OpenVINO, without bfloat16."""
    openvino = importlib.import_module("openvino")
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    network = openvino.compile_model(str(folder / "model.xml"), "CPU", options)
    names = {output.get_any_name(): output for output in network.outputs}

    def run(**inputs):
        found = network(inputs)
        return {name: np.array(found[output]) for name, output in names.items()}

    return run if by_name else lambda images: run(images=images)


def litert_runner(folder, by_name=False):
    """The same in LiteRT."""
    interpreter = importlib.import_module("ai_edge_litert.interpreter")
    runner = interpreter.Interpreter(str(folder / "model.tflite"), num_threads=1).get_signature_runner("search")
    return runner if by_name else lambda images: runner(images=images)


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


def row(name, folder, dtype, queries, expected, options):
    """Size, time and agreement of one runtime."""
    write, runner = RUNTIMES[name]
    search = tfdml.export.ExactSearch(k=K, dtype=dtype, items=options.items)
    run = runner(write(options.model, folder, index=options.index, search=search))
    found = answers(run, queries)
    near = np.abs(found["scores"] - expected["scores"]) < 1e-6
    same = found["ids"] == expected["ids"]
    seconds = median_seconds({"ours": lambda: run(queries[:1])}, repeats=options.repeats)["ours"]
    recall = np.mean([len(set(a) & set(b)) / K for a, b in zip(found["ids"], expected["ids"], strict=True)])
    return {
        "runtime": name,
        "gallery": dtype,
        "weights": "float32",
        "mib": folder_mib(folder),
        "ms": 1e3 * seconds,
        "embedding_error": float(np.abs(found["embedding"] - expected["embedding"]).max()),
        "score_error": float(np.abs(found["scores"] - expected["scores"]).max()),
        "same_ten": float(same.all(axis=1).mean()),
        "same_ten_by_score": float((same | near).all(axis=1).mean()),
        "recall@10": float(recall),
    }


def drawn(height, width, count):
    """Random boxes `(count, 4)` of a tenth to half of the sides, every other one of whole numbers."""
    random = np.random.default_rng(0)
    corner = random.uniform(0, 0.5, (count, 2))
    sides = np.array([width, height] * 2)
    boxes = np.concatenate([corner, corner + random.uniform(0.1, 0.5, (count, 2))], axis=1) * sides
    boxes[::2] = np.concatenate([np.floor(boxes[::2, :2]), np.ceil(boxes[::2, 2:])], axis=1)
    return boxes.astype("float32")


def box_runners(model, view, photograph, folder):
    """Functions from boxes of a photograph to the pixels of the network, by runtime."""
    for name in ("onnx", "openvino", "litert"):
        run = RUNTIMES[name][1](RUNTIMES[name][0](model, folder / name, preprocessing=view, boxes=True), True)
        yield name, lambda boxes, run=run: run(photograph=photograph, boxes=boxes)["embedding"]
    served = tf.saved_model.load(str(tfdml.export.saved_model(model, folder / "served", preprocessing=view)))
    file = tf.io.encode_png(photograph).numpy()
    answer = served.signatures["serve_bytes"]
    yield "savedmodel", lambda boxes: answer(images=tf.constant([file] * len(boxes)), boxes=boxes)["embedding"].numpy()
    script = Path(tfdml.__file__).parent / "export" / "runtimes" / "page" / "pixels.js"
    (folder / "pixels.mjs").write_text(script.read_text())
    (folder / "cut.mjs").write_text(CUT)
    rgba = np.pad(photograph, ((0, 0), (0, 0), (0, 1)))
    image = {"height": len(rgba), "width": rgba.shape[1], "data": rgba.ravel().tolist()}

    def browser(boxes):
        request = json.dumps([image, view.get_config(), boxes.tolist()])
        done = subprocess.run(["node", folder / "cut.mjs"], input=request, capture_output=True, text=True, check=True)
        return np.array(json.loads(done.stdout))

    yield "browser", browser


def box_rows(count):
    """Rows of the comparison of boxes."""
    view = tfdml.datasets.Preprocessing(size=64, boxes=True, margin=0.1)
    inputs, photograph = keras.Input(view.shape), tfdml.datasets.photograph("coins")
    model, boxes = keras.Model(inputs, keras.layers.Flatten()(inputs)), drawn(*photograph.shape[:2], count)
    expected = np.stack([np.ravel(view((photograph, box.astype(np.float64)))) for box in boxes]).astype(float)
    with tempfile.TemporaryDirectory() as folder:
        for name, run in box_runners(model, view, photograph, Path(folder)):
            pixels = np.concatenate([run(boxes[start : start + BATCH]) for start in range(0, len(boxes), BATCH)])
            difference = np.abs(pixels - expected)
            values = {"runtime": name, "boxes": len(boxes), "same values": float((difference == 0).mean())}
            values |= {"same boxes": float((difference == 0).all(axis=1).mean())}
            values |= {"largest difference": float(difference.max())}
            seconds = median_seconds({"ours": lambda run=run: run(boxes[:1])}, repeats=11)["ours"]
            yield {**values, "ms": 1e3 * seconds}


def query_rows(options):
    """Rows of the queries, or of their items."""
    vectors, dim, count = (2_000, 16, 100) if options.quick else (100_000, 128, 10_000)
    vectors = 20_000 if options.items and not options.quick else vectors
    keras.utils.set_random_seed(0)
    inputs = keras.Input((SIDE, SIDE, 1))
    options.model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs, dim=dim, widths=(8, 16)))
    gallery, queries = squares(vectors, 1), squares(count, 2)
    metadata = {"item": np.random.default_rng(3).permutation(vectors) // 5} if options.items else None
    options.index = tfdml.search.Exact(options.model.predict(gallery, batch_size=BATCH, verbose=0), metadata=metadata)
    embeddings = options.model.predict(queries, batch_size=BATCH, verbose=0)
    ids, scores = options.index.search(embeddings, k=K, items=options.items)
    expected = {"embedding": embeddings, "ids": ids, "scores": scores}
    for dtype in ("float32",) if options.items else ("float32", "int8"):
        for name in RUNTIMES:
            with tempfile.TemporaryDirectory() as folder:
                yield row(name, Path(folder) / "model", dtype, queries, expected, options)


def main():
    """Measure and write the table."""
    tables = {"queries": "runtimes.csv", "items": "runtimes_items.csv", "boxes": "runtimes_boxes.csv"}
    table = next((tables[word] for word in sys.argv if word in tables), tables["queries"])
    options = options_of(__doc__, table, what={"choices": tables, "default": "queries"}, repeats=101)
    options.items = "item" if options.what == "items" else None
    if not options.quick:
        use_one_core()
    rows = box_rows(20 if options.quick else 1000) if options.what == "boxes" else query_rows(options)
    write_table(options.output, rows, *PACKAGES)


if __name__ == "__main__":
    main()
