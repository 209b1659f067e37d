"""Deep copies of callbacks, as tuners make them for each trial."""

import copy

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml import callbacks, losses, models, samplers
from tfdml.datasets import LabeledSet

X = np.random.default_rng(0).standard_normal((40, 6)).astype("float32")
LABELS = np.arange(40) // 5
PART = LabeledSet(images=X, labels=LABELS, class_names=tuple("abcdefgh"))
DATASET = tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(8)


def every(folder):
    """One of each callback, with all that it can hold."""
    centers = samplers.ClassCenters(LABELS, dim=4)
    pairs = samplers.MinedPairs(LABELS, positives=1, negatives=2)
    return {
        "RetrievalEvaluation": callbacks.RetrievalEvaluation(DATASET, k=1),
        "EmbeddingMetrics": callbacks.EmbeddingMetrics(PART, lambda embeddings, part: {"dim": embeddings.shape[1]}),
        "EmbeddingHistory": callbacks.EmbeddingHistory(PART),
        "PairDiagnostics": callbacks.PairDiagnostics(X, LABELS, path=folder / "logs"),
        "RefreshCenters": callbacks.RefreshCenters(X, LABELS, centers=centers),
        "RefreshMinedPairs": callbacks.RefreshMinedPairs(X, LABELS, pairs=pairs),
        "TrainingCheckpoint": callbacks.TrainingCheckpoint(folder / "state.keras"),
        "ExportBest": callbacks.ExportBest(folder / "export", monitor="loss", mode="min", best=-1.0),
    }


def make():
    inputs = keras.Input((6,))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(4)(inputs))
    model.compile("sgd", loss=losses.MultiSimilarityLoss(), run_eagerly=True)
    return model


def fit(model, watch):
    return model.fit(X, LABELS, verbose=0, callbacks=watch).history


def test_every_callback_is_here(tmp_path):
    assert set(every(tmp_path)) == set(callbacks.__all__)


@pytest.mark.slow
def test_copies_work_before_and_after_a_run(tmp_path):
    originals, model = list(every(tmp_path).values()), make()
    history = fit(model, copy.deepcopy(originals))
    assert "val_map@r" in history
    fit(model, originals)
    others = [original for original in originals if not isinstance(original, callbacks.ExportBest)]
    assert set(fit(model, copy.deepcopy(others))) == set(history)


def test_a_copy_shares_data_and_nothing_that_changes(tmp_path):
    holders = [original for original in every(tmp_path).values() if hasattr(original, "data")]
    assert len(holders) == 6
    for original in holders:
        other = copy.deepcopy(original)
        for attribute in ("data", "labels", "centers", "pairs"):
            assert getattr(other, attribute, None) is getattr(original, attribute, None)
        other.changed = True
        assert not hasattr(original, "changed")
