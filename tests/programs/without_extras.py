"""tfdml without its extras: trains, searches and saves, and each function that needs an extra says which.

Runs where nothing but tfdml and its requirements is installed, and prints a line per function; any failure ends it.
"""

import importlib.metadata
import re
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

import tfdml

EXTRAS = set(importlib.metadata.metadata("tfdml").get_all("Provides-Extra"))
X = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
LABELS = np.repeat(np.arange(6), 4)
IMAGES = np.random.default_rng(0).integers(0, 256, (24, 8, 8, 1), dtype="uint8")


def network():
    """A small model, trained for two steps on pixels."""
    inputs = keras.Input((8, 8, 1), dtype="uint8")
    model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs, dim=4, widths=(4,)))
    model.compile("adam", loss=tfdml.losses.MultiSimilarityLoss())
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=4, examples_per_class=2, seed=0)
    model.fit(sampler.batches(IMAGES, LABELS), steps_per_epoch=2, shuffle=False, verbose=0)
    return model


def require(condition, text):
    """End the program with this text unless the condition holds."""
    if not condition:
        sys.exit(f"Received {text}")


def core(model, folder):
    """What needs no extra: loss, metrics, files, search, export."""
    value = float(tfdml.losses.ContrastiveLoss()(LABELS, X))
    require(np.isfinite(value), f"a loss of {value}")
    embeddings = model.predict(IMAGES, verbose=0)
    require(0 <= tfdml.metrics.retrieval(embeddings, LABELS)["map@r"] <= 1, "map@r outside of [0, 1]")
    model.save(folder / "model.keras")
    again = keras.saving.load_model(folder / "model.keras").predict(IMAGES, verbose=0)
    np.testing.assert_array_equal(again, embeddings)
    tfdml.search.Exact(embeddings).save(folder / "index")
    ids, _ = tfdml.search.load(folder / "index").search(embeddings[:3], 1)
    require(ids.shape == (3, 1), f"ids of the shape {ids.shape}")
    exported = tfdml.export.load(tfdml.export.saved_model(model, folder / "export"))
    np.testing.assert_allclose(exported.predict_on_batch(IMAGES), embeddings, atol=1e-5)


def calls(model, folder):
    """Functions that need an extra, with the names of the extras that help, any of them."""
    data = tfdml.datasets.LabeledSet(images=IMAGES, labels=LABELS, class_names=tuple("abcdef"))
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=4, examples_per_class=2, seed=0)
    hub = {"summary": "", "recipe": "", "command": "", "seed": 0, "license": "Apache-2.0", "root": folder / "zoo"}
    tfdml.zoo.save(model, "small", data, **hub)
    return {
        "datasets.glyphs": ("plots", lambda: tfdml.datasets.glyphs()),
        "datasets.photo_patches": ("samples", lambda: tfdml.datasets.photo_patches()),
        "datasets.photograph": ("samples", lambda: tfdml.datasets.photograph("chelsea")),
        "datasets.table": ("tables", lambda: tfdml.datasets.table(file(folder, "a.parquet"))),
        "datasets.tfds": ("tfds", lambda: tfdml.datasets.tfds("mnist", "train")),
        "distributed.embed": ("ray", lambda: tfdml.distributed.embed(model, IMAGES, folder / "shards")),
        "models.write_embeddings": (
            "tables",
            lambda: tfdml.models.write_embeddings(model, IMAGES, folder / "x.parquet"),
        ),
        "evaluation.cross_validate": (
            "sweep",
            lambda: tfdml.evaluation.cross_validate(
                lambda *_: model, data, lambda trial: {}, folder / "folds", folds=2
            ),
        ),
        "export.onnx": ("onnx", lambda: tfdml.export.onnx(model, folder / "onnx")),
        "export.openvino": ("openvino", lambda: tfdml.export.openvino(model, folder / "openvino")),
        "export.web": ("onnx", lambda: tfdml.export.web(model, folder / "web")),
        "metrics.clustering": ("evaluation", lambda: tfdml.metrics.clustering(X, LABELS)),
        "metrics.verification": ("evaluation", lambda: tfdml.metrics.verification(X[:, 0], np.arange(len(X)) % 2)),
        "models.efficientnet_lite": ("pretrained", lambda: tfdml.models.efficientnet_lite(weights="imagenet")),
        "models.from_backbone": ("hub", lambda: tfdml.models.from_backbone("vit_base_patch16_224_imagenet")),
        "samplers.grain_batches": ("grain", lambda: tfdml.samplers.grain_batches(sampler, IMAGES, LABELS, workers=0)),
        "search.Exact with metadata": ("tables", lambda: tfdml.search.Exact(X, metadata={"label": LABELS})),
        "search.Faiss": ("faiss", lambda: tfdml.search.Faiss(X)),
        "search.Lance": ("lance", lambda: tfdml.search.Lance(X)),
        "search.Scann": ("scann", lambda: tfdml.search.Scann(X)),
        "serving": ("serving", lambda: tfdml.serving),
        "training.train": ("photos", lambda: tfdml.training.train(data, folder / "run")),
        "visualize.embedding_map": ("maps", lambda: tfdml.visualize.embedding_map(X)),
        "visualize.retrieval_grid": ("plots", lambda: tfdml.visualize.retrieval_grid(X, IMAGES, LABELS)),
        "zoo.pull": ("huggingface", lambda: tfdml.zoo.pull("owner/small", root=folder / "zoo")),
        "zoo.push": ("huggingface", lambda: tfdml.zoo.push("owner/small", root=folder / "zoo")),
    }


def file(folder, name):
    """A file that is there, with nothing in it."""
    (folder / name).write_bytes(b"")
    return folder / name


def main():
    """Try everything, and print the extra that each function asks for."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = network()
        core(model, folder)
        failed = [text for text in map(answer, *zip(*calls(model, folder).items(), strict=True)) if text]
    sys.exit("\n".join(failed) or 0)


def answer(function, extra_and_call):
    """Print the extra that a function asks for; returns a text if it is another one, or no ImportError."""
    extra, call = extra_and_call
    try:
        call()
    except ImportError as error:
        named = re.findall(r"pip install tfdml\[([\w,]+)\]", str(error))
        print(f"{function}: {error}")
        right_one = named and set(named[0].split(",")) <= EXTRAS and extra in named[0].split(",")
        return "" if right_one else f"{function} names {named}, expected {extra}: {error}"
    except Exception as error:
        return f"{function}: {type(error).__name__}: {error}, expected an ImportError that names {extra}"
    return f"{function} ran, expected an ImportError that names {extra}"


if __name__ == "__main__":
    main()
