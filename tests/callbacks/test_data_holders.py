"""Callbacks that hold a set: copies share it, and its pipeline is built once, as each has a graph of many MiB."""

import collections
import copy

import pytest
import tensorflow as tf

from tests.callbacks.small import LABELS, PART, X, fit, make
from tfdml import callbacks, samplers
from tfdml.datasets import LabeledSet

DATASET = tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(8)


def with_gallery(data, folder):
    queries, gallery = data.take(range(0, 60, 2)), data.take(range(1, 60, 2))
    return callbacks.RetrievalEvaluation(queries, gallery=gallery, k=1, prefix="gallery_")


def refreshed_pairs(data, folder):
    return callbacks.RefreshMinedPairs(data, pairs=samplers.MinedPairs(LABELS, positives=1, negatives=1))


HOLDERS = {  # functions of a labeled set and a folder
    "RetrievalEvaluation": lambda data, folder: callbacks.RetrievalEvaluation(data, k=1),
    "RetrievalEvaluation in a gallery": with_gallery,
    "PairDiagnostics": lambda data, folder: callbacks.PairDiagnostics(data, path=folder / "logs"),
    "RefreshCenters": lambda data, folder: callbacks.RefreshCenters(data, centers=samplers.ClassCenters(LABELS, dim=4)),
    "RefreshMinedPairs": refreshed_pairs,
}


def holders(folder):
    """One of each, and one of a dataset."""
    return [callbacks.RetrievalEvaluation(DATASET, k=1), *(hold(PART, folder) for hold in HOLDERS.values())]


@pytest.mark.slow
def test_copies_work_before_and_after_a_run(tmp_path):
    originals = [*holders(tmp_path), callbacks.TrainingCheckpoint(tmp_path / "state.keras")]
    export = callbacks.ExportBest(tmp_path / "export", monitor="loss", mode="min", best=-1.0)
    assert {type(each).__name__ for each in [*originals, export]} == set(callbacks.__all__)
    history = fit(make(), *copy.deepcopy([*originals, export]), epochs=1)
    assert "val_map@r" in history
    fit(make(), *originals, epochs=1)
    assert set(fit(make(), *copy.deepcopy(originals), epochs=1)) == set(history)


def test_copies_share_data_and_nothing_that_changes(tmp_path):
    for original in holders(tmp_path):
        other = copy.deepcopy(original)
        for attribute in ("data", "labels", "centers", "pairs"):
            assert getattr(other, attribute, None) is getattr(original, attribute, None)
        other.changed = True
        assert not hasattr(original, "changed")


def test_pipelines_of_sets_are_built_once(tmp_path, monkeypatch):
    built = collections.Counter()

    def counted(data, batch_size):
        """A pipeline of the same shapes, which takes less time to build."""
        built[data.class_names[0].removesuffix(" 0")] += 1
        rows = X[: len(data)] if data.labels[0] == LABELS[0] else X[-len(data) :]
        return tf.data.Dataset.from_tensor_slices((rows, data.labels)).batch(batch_size)

    def labeled_set(name):
        """A set whose classes are named after a callback."""
        return LabeledSet(source=list(X), labels=LABELS, class_names=tuple(f"{name} {c}" for c in range(12)))

    monkeypatch.setattr(LabeledSet, "batches", counted)
    fit(make(), *(hold(labeled_set(name), tmp_path) for name, hold in HOLDERS.items()), epochs=2)
    assert built == {name: 2 if "gallery" in name else 1 for name in HOLDERS}
