"""Callbacks build the pipeline of a set once, not in every epoch: each has a graph of many MiB."""

import collections

import keras
import numpy as np
import tensorflow as tf

from tfdml import callbacks, losses, models, samplers
from tfdml.datasets import LabeledSet

X = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
LABELS = np.arange(24) // 6


class Source:
    """Examples by random access, as a set of files has."""

    def __len__(self):
        return len(X)

    def __getitem__(self, row):
        return X[row]


def labeled_set(name):
    """A set whose classes are named after a callback."""
    return LabeledSet(source=Source(), labels=LABELS, class_names=tuple(f"{name} {c}" for c in range(4)))


def embedding_mean(embeddings, data):
    return {"mean": float(np.mean(embeddings))}


def with_gallery(data, folder):
    queries, gallery = data.take(range(0, 24, 2)), data.take(range(1, 24, 2))
    return callbacks.RetrievalEvaluation(queries, gallery=gallery, k=1, prefix="gallery_")


CENTERS, PAIRS = samplers.ClassCenters(LABELS, dim=2), samplers.MinedPairs(LABELS, positives=1, negatives=1)
CALLBACKS = {
    "RetrievalEvaluation": lambda data, folder: callbacks.RetrievalEvaluation(data, k=1),
    "RetrievalEvaluation in a gallery": with_gallery,
    "EmbeddingMetrics": lambda data, folder: callbacks.EmbeddingMetrics(data, embedding_mean),
    "EmbeddingHistory": lambda data, folder: callbacks.EmbeddingHistory(data),
    "PairDiagnostics": lambda data, folder: callbacks.PairDiagnostics(data, path=folder / "logs"),
    "RefreshCenters": lambda data, folder: callbacks.RefreshCenters(data, centers=CENTERS),
    "RefreshMinedPairs": lambda data, folder: callbacks.RefreshMinedPairs(data, pairs=PAIRS),
}


def test_callbacks_build_the_pipelines_of_their_sets_once(tmp_path, monkeypatch):
    built = collections.Counter()

    def counted(data, batch_size):
        """A pipeline of the same shapes, which takes less time to build."""
        built[data.class_names[0].removesuffix(" 0")] += 1
        return tf.data.Dataset.from_tensor_slices((X[: len(data)], data.labels)).batch(batch_size)

    monkeypatch.setattr(LabeledSet, "batches", counted)
    inputs = keras.Input((4,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(2)(inputs))
    model.compile("sgd", loss=losses.ContrastiveLoss(), run_eagerly=True)
    watch = [make(labeled_set(name), tmp_path) for name, make in CALLBACKS.items()]
    model.fit(X, LABELS, epochs=2, verbose=0, callbacks=watch)
    assert built == {name: 2 if "gallery" in name else 1 for name in CALLBACKS}
