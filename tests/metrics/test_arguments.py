"""What every metric of embeddings and labels takes and refuses, whichever function has the argument."""

import re

import numpy as np
import pytest

from tfdml import metrics, search

LABELS = np.repeat(np.arange(4), 6)
X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float16)
CAMERAS = np.arange(24) % 3
GALLERY = {"gallery": X[::-1] + np.float16(0.5), "gallery_labels": np.append(LABELS[:-6], [9] * 6)}
METRICS = {
    "retrieval": metrics.retrieval,
    "retrieval in a gallery": lambda x, y: metrics.retrieval(x, y, **GALLERY),
    "retrieval with groups": lambda x, y: metrics.retrieval(x, y, groups=CAMERAS),
    "reidentification": lambda x, y: metrics.reidentification(x, y, CAMERAS),
    "random_gallery": lambda x, y: metrics.random_gallery(x, y, repeats=2),
    "nearest_class_mean": metrics.nearest_class_mean,
    "knn_accuracy": metrics.knn_accuracy,
    "clustering": metrics.clustering,
    "few_shot": lambda x, y: metrics.few_shot(x, y, ways=2, queries=2, episodes=3),
    "open_set": lambda x, y: metrics.open_set(x, y, **GALLERY, far=0.5),
    "quantized_retrieval": metrics.quantized_retrieval,
    "hardest_pairs": lambda x, y: search.hardest_pairs(x, y)._asdict(),
}
every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)


def with_entry(array, value):
    changed = np.array(array, float)
    changed[3] = value
    return changed


OTHER_EMBEDDINGS = {
    "NaN": (
        with_entry(X, np.nan),
        "embeddings with a value that is NaN, infinite or too large for float32 (first in row",
    ),
    "infinite": (with_entry(X, -np.inf), "first in row 3"),
    "beyond float32": (with_entry(X, 1e39), "too large for float32"),
    "masked": (np.ma.masked_equal(X, X[3, 2]), "embeddings with 1 masked entries"),
    "complex": (X.astype(complex), "not a matrix of numbers"),
    "text": (np.full(X.shape, "x"), "not a matrix of numbers"),
    "a vector": (X[:, 0], "expected (n, dim)"),
    "empty": (X[:0], ""),
}
OTHER_LABELS = {
    "floats": (LABELS.astype(float), "labels of dtype float64, expected integers"),
    "text": (LABELS.astype(str), "expected integers"),
    "too few": (LABELS[:-1], "labels of shape (23,), expected (24,): one id per row"),
    "two columns": (np.stack([LABELS, LABELS], axis=1), "labels of shape (24, 2)"),
    "masked": (np.ma.masked_equal(LABELS, 2), "labels with 6 masked entries"),
    "beyond int64": (LABELS.astype(np.uint64) + np.uint64(2**63), "expected at most 2**63 - 1"),
}
COLLAPSED = [np.ones_like(X), np.zeros_like(X), np.full(X.shape, 1 / 3) + 1e-9 * X]
WITHOUT_GALLERY = {
    name: METRICS[name] for name in METRICS if name not in ("retrieval in a gallery", "open_set", "hardest_pairs")
}


@every_metric
@pytest.mark.parametrize(("embeddings", "message"), OTHER_EMBEDDINGS.values(), ids=OTHER_EMBEDDINGS)
def test_other_embeddings_are_refused(metric, embeddings, message):
    with pytest.raises(ValueError, match="Received .*" + re.escape(message)):
        metric(embeddings, LABELS[: len(embeddings)])


@every_metric
@pytest.mark.parametrize(("labels", "message"), OTHER_LABELS.values(), ids=OTHER_LABELS)
def test_other_labels_are_refused(metric, labels, message):
    with pytest.raises(ValueError, match="Received .*" + re.escape(message)):
        metric(X, labels)


@pytest.mark.parametrize("metric", WITHOUT_GALLERY.values(), ids=WITHOUT_GALLERY)
def test_collapsed_embeddings_and_labels_of_one_class_are_refused(metric):
    for embeddings in COLLAPSED:
        with pytest.raises(ValueError, match="Received embeddings that are all the same"):
            metric(embeddings, LABELS)
    with pytest.raises(ValueError, match="Received "):
        metric(X, np.full(24, 5))


@every_metric
def test_lists_half_precision_and_columns_are_taken_and_names_of_classes_do_not_matter(metric):
    expected = metric(X.astype(np.float64).tolist(), LABELS.tolist())
    np.testing.assert_equal(metric(X, LABELS[:, None]), expected)
    np.testing.assert_equal(metric(np.ma.masked_array(X, mask=False), LABELS.astype(np.int8)), expected)
