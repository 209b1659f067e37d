"""Callbacks build the pipeline of a set once, not in every epoch: each has a graph of many MiB."""

import keras
import numpy as np
import pytest

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


@pytest.fixture
def built(monkeypatch):
    """The number of rows of each pipeline that was built."""
    rows, batches = [], LabeledSet.batches

    def counted(part, *arguments):
        rows.append(len(part))
        return batches(part, *arguments)

    monkeypatch.setattr(LabeledSet, "batches", counted)
    return rows


def embedding_mean(embeddings, part):
    return {"mean": float(np.mean(embeddings))}


CALLBACKS = {
    "RetrievalEvaluation": lambda part, folder: callbacks.RetrievalEvaluation(part, k=1),
    "RetrievalEvaluation in a gallery": lambda part, folder: callbacks.RetrievalEvaluation(
        part.take(range(0, 24, 2)), gallery=part.take(range(1, 24, 2)), k=1
    ),
    "EmbeddingMetrics": lambda part, folder: callbacks.EmbeddingMetrics(part, embedding_mean),
    "EmbeddingHistory": lambda part, folder: callbacks.EmbeddingHistory(part),
    "PairDiagnostics": lambda part, folder: callbacks.PairDiagnostics(part, path=folder / "logs"),
    "RefreshCenters": lambda part, folder: callbacks.RefreshCenters(part, centers=samplers.ClassCenters(LABELS, dim=2)),
    "RefreshMinedPairs": lambda part, folder: callbacks.RefreshMinedPairs(
        part, pairs=samplers.MinedPairs(LABELS, positives=1, negatives=1)
    ),
}


@pytest.mark.parametrize("name", CALLBACKS)
def test_a_callback_builds_the_pipeline_of_its_set_once(name, built, tmp_path):
    inputs = keras.Input((4,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(2)(inputs))
    model.compile("sgd", loss=losses.ContrastiveLoss(), run_eagerly=True)
    callback = CALLBACKS[name](LabeledSet(source=Source(), labels=LABELS, class_names=tuple("abcd")), tmp_path)
    model.fit(X, LABELS, epochs=3, verbose=0, callbacks=[callback])
    assert len(built) == (2 if "gallery" in name else 1)
