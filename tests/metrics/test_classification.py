"""Accuracy by the nearest class mean and by nearest neighbors against loops, scikit-learn, and examples by hand."""

import sys

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from tests.oracles import scores_of, unit
from tfdml.metrics import class_interval, knn_accuracy, nearest_class_mean

module = sys.modules["tfdml.metrics.classification"]


def classes_of(counts, dim=6, noise=1.5, seed=0):
    """Embeddings around class centers, in mixed order."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    x = rng.normal(size=(len(counts), dim))[labels] + noise * rng.normal(size=(len(labels), dim))
    return x.astype(np.float32), labels


def halves(x, labels):
    """Queries and a gallery."""
    half = len(x) // 2
    return x[:half], labels[:half], {"gallery": x[half:], "gallery_labels": labels[half:]}


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "_NUMBERS", 50)


def test_the_nearest_class_mean_is_the_nearest_centroid_of_scikit_learn(small_blocks):
    x, labels, gallery = halves(*classes_of([30, 12, 40, 20, 8]))
    oracle = NearestCentroid().fit(gallery["gallery"].astype(np.float64), gallery["gallery_labels"])
    got = nearest_class_mean(x, labels, **gallery, per_query=True)["accuracy"]
    np.testing.assert_array_equal(got, oracle.predict(x) == labels)
    assert 0.2 < got.mean() < 0.9


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_leave_one_out_means_are_those_of_a_loop_without_the_query(metric, small_blocks):
    x, labels = classes_of([9, 2, 12, 5])
    y = unit(x) if metric == "cosine" else x.astype(np.float64)
    right = []
    for row in range(len(y)):
        others = np.arange(len(y)) != row
        means = np.stack([y[others & (labels == label)].mean(axis=0) for label in range(4)])
        means = unit(means) if metric == "cosine" else means
        right.append(np.linalg.norm(y[row] - means, axis=1).argmin() == labels[row])
    got = nearest_class_mean(x, labels, metric=metric, per_query=True)["accuracy"]
    np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_the_vote_of_neighbors_of_two_classes_is_that_of_scikit_learn(k, small_blocks):
    x, labels, gallery = halves(*classes_of([60, 40]))
    oracle = KNeighborsClassifier(k).fit(gallery["gallery"], gallery["gallery_labels"])
    got = knn_accuracy(x, labels, k=k, **gallery, per_query=True)["accuracy"]
    np.testing.assert_array_equal(got, oracle.predict(x) == labels)


def vote_by_loops(distances, labels, k):
    """The class with most of the k nearest; of several, the one that is met first."""
    near = [labels[item] for item in sorted(range(len(labels)), key=distances.__getitem__)[:k]]
    return max(near, key=near.count)  # the first of the largest


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "dot"])
@pytest.mark.parametrize("k", [1, 2, 4, 5])
def test_leave_one_out_votes_are_those_of_loops(k, metric, small_blocks):
    x, labels = classes_of([9, 3, 12, 6])
    d = -scores_of(x, x, metric)
    np.fill_diagonal(d, np.inf)
    right = [vote_by_loops(d[row], labels, k) == labels[row] for row in range(len(x))]
    got = knn_accuracy(x, labels, k=k, metric=metric, per_query=True)["accuracy"]
    np.testing.assert_array_equal(got, right)


def test_equal_votes_go_to_the_nearest_class_and_equal_means_to_the_smallest_id():
    gallery = {"gallery": [[1.0], [2.0], [3.0], [4.0]], "gallery_labels": [7, 5, 5, 7]}
    assert knn_accuracy([[0.0], [5.0]], [7, 5], k=4, **gallery, per_query=True)["accuracy"].tolist() == [1, 0]
    means = {"gallery": [[-1.0], [1.0]], "gallery_labels": [3, 2]}
    assert nearest_class_mean([[0.0], [0.0]], [2, 3], **means, per_query=True)["accuracy"].tolist() == [1, 0]


def test_duplicates_do_not_hide_that_a_query_is_left_out():
    # Rows 0 to 2 are one vector, so the list of the query 2 may lack the query itself.
    x, labels = np.array([[0.0], [0.0], [0.0], [9.0], [10.0]]), np.array([0, 0, 1, 1, 1])
    assert knn_accuracy(x, labels, k=1, per_query=True)["accuracy"].tolist() == [1, 1, 0, 1, 1]


def test_queries_of_a_class_without_items_are_excluded_and_counted():
    x, labels = np.array([[0.0], [1.0], [10.0], [11.0], [5.4]]), np.array([0, 0, 1, 1, 2])
    for metric in (nearest_class_mean, lambda *a, **o: knn_accuracy(*a, k=1, **o)):
        got = metric(x, labels)
        assert (got["accuracy"], got["queries"], got["skipped"]) == (1.0, 4, 1)
        gallery = {"gallery": x[[0, 2]], "gallery_labels": labels[[0, 2]]}
        values = metric(x, labels, **gallery, per_query=True)["accuracy"]
        np.testing.assert_array_equal(values, [1, 1, 1, 1, np.nan])


def test_the_interval_is_that_over_classes():
    x, labels = classes_of([12, 9, 20, 10, 7, 7], noise=2.0)
    for metric in (nearest_class_mean, knn_accuracy):
        got = metric(x, 2**60 + labels)
        values = metric(x, labels, per_query=True)["accuracy"]
        assert (got["low"], got["high"]) == class_interval(values, labels)
        assert got["accuracy"] == values.mean()


@pytest.mark.parametrize("metric", [nearest_class_mean, lambda *a, **o: knn_accuracy(*a, k=1, **o)])
def test_queries_of_one_class_have_an_accuracy_without_an_interval(metric):
    got = metric([[0.0], [1.0], [9.0], [2.0]], [0] * 4, gallery=[[0.0], [10.0]], gallery_labels=[0, 1])
    assert got["accuracy"] == 0.75
    assert np.isnan([got["low"], got["high"]]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gallery": np.ones((3, 2))}, "gallery alone"),
        ({"gallery_labels": [1, 2]}, "gallery_labels alone"),
        ({"gallery": np.eye(3), "gallery_labels": [0, 1, 2]}, "dim 2 and a gallery of dim 3"),
        ({"labels": [0] * 6}, "a gallery of one class, expected at least two"),
        ({"gallery": np.eye(6)[:, :2], "gallery_labels": [7, 8, 9, 9, 9, 9]}, "queries without a class of the gallery"),
        ({"metric": "hamming"}, "metric='hamming'"),
    ],
)
@pytest.mark.parametrize("metric", [nearest_class_mean, knn_accuracy])
def test_wrong_arguments_are_errors(metric, change, message):
    x = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(ValueError, match=message):
        metric(**{"embeddings": x, "labels": [0, 0, 0, 1, 1, 1], **change})


@pytest.mark.parametrize("k", [0, 6, 1.5])
def test_more_neighbors_than_there_are_is_an_error(k):
    with pytest.raises(ValueError, match=f"k={k}"):
        knn_accuracy(np.random.default_rng(0).normal(size=(6, 2)), [0, 0, 0, 1, 1, 1], k=k)
