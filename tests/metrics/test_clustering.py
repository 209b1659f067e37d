"""Clustering numbers against scikit-learn, sums over all permutations, and examples done by hand."""

import itertools
import math
import sys

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score, mutual_info_score, normalized_mutual_info_score
from sklearn.metrics.cluster import expected_mutual_information, pair_confusion_matrix

from tfdml.metrics import clustering, clustering_scores

module = sys.modules["tfdml.metrics.clustering"]


def labelings(examples, classes, clusters, agree=0.5, seed=0):
    """Classes, and clusters that agree with them on a share of the examples."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, examples)
    others = rng.integers(0, clusters, examples)
    return labels, np.where(rng.random(examples) < agree, labels, others)


def blobs(classes=8, of_each=12, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(classes), of_each))
    return rng.normal(size=(classes, 16))[labels] + noise * rng.normal(size=(len(labels), 16)), labels


def test_four_examples_by_hand():
    # Classes {0, 1}, {2, 3}; clusters {0}, {1, 2, 3}.
    got = clustering_scores([5, 5, 7, 7], [1, 2, 2, 2])
    log = math.log
    information = 1 / 4 * log(4 / 2) + 1 / 4 * log(4 / 6) + 2 / 4 * log(8 / 6)
    entropies = log(2), -(1 / 4 * log(1 / 4) + 3 / 4 * log(3 / 4))
    assert got["nmi"] == pytest.approx(information / math.sqrt(entropies[0] * entropies[1]))
    # In any permutation the lone example is of one class or the other: the information is always the same.
    assert got["ami"] == pytest.approx(0)
    # One pair of the two of a class is among the three of a cluster.
    assert got["f1"] == pytest.approx(2 * 1 / (2 + 3))


@pytest.mark.parametrize(
    ("labels", "clusters"), [([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 1]), ([0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 1])]
)
def test_the_expected_information_is_the_mean_over_all_permutations(labels, clusters):
    found = [mutual_info_score(labels, permuted) for permuted in set(itertools.permutations(clusters))]
    sizes = [np.bincount(ids) for ids in (labels, clusters)]
    assert module.expected_mutual_information(*sizes) == pytest.approx(np.mean(found))


@pytest.mark.parametrize(("classes", "clusters"), [(3, 5), (60, 40), (2, 2), (5, 1)])
def test_the_scores_are_those_of_scikit_learn(classes, clusters):
    labels, found = labelings(400, classes, clusters, agree=0.4 * (clusters > 1))
    got = clustering_scores(labels, found)
    assert got["nmi"] == pytest.approx(normalized_mutual_info_score(labels, found, average_method="geometric"))
    assert got["ami"] == pytest.approx(adjusted_mutual_info_score(labels, found), abs=1e-12)
    (_, wrong), (missed, right) = pair_confusion_matrix(labels, found)
    assert got["f1"] == pytest.approx(2 * right / (2 * right + wrong + missed))


def test_many_classes_and_clusters_need_no_matrix_of_both():
    labels, clusters = labelings(60_000, 11_316, 11_316)
    got = clustering_scores(labels, clusters)
    assert got["nmi"] == pytest.approx(normalized_mutual_info_score(labels, clusters, average_method="geometric"))
    assert 0.3 < got["ami"] < got["nmi"]


def test_a_few_large_classes_have_the_expected_information_of_scikit_learn():
    labels, clusters = labelings(6000, 4, 3)
    sizes = [np.bincount(ids) for ids in (labels, clusters)]
    table = np.histogram2d(labels, clusters, bins=(4, 4))[0].astype(np.int64)
    assert module.expected_mutual_information(*sizes) == pytest.approx(expected_mutual_information(table, 6000))


@pytest.mark.parametrize(
    ("labels", "clusters", "expected"),
    [
        ([0, 0, 1, 1], [3, 3, 1, 1], (1, 1, 1)),
        ([0, 0, 1, 1], [0, 0, 0, 0], (0, 0, 0.5)),
        ([0, 0, 1, 1], [0, 1, 2, 3], (math.sqrt(0.5), 0, 0)),
        ([0, 1, 2, 3], [3, 1, 2, 0], (1, 1, 0)),
    ],
)
def test_whole_and_single_clusters_have_their_limits(labels, clusters, expected):
    got = clustering_scores(labels, clusters)
    assert [got["nmi"], got["ami"], got["f1"]] == pytest.approx(list(expected), abs=1e-12)


# k-means.


@pytest.mark.parametrize("mini_batch", [None, False, True])
def test_classes_apart_are_found(mini_batch):
    x, labels = blobs()
    got = clustering(x, labels, mini_batch=mini_batch, restarts=4)
    assert [got["nmi"], got["ami"], got["f1"]] == pytest.approx([1, 1, 1])
    algorithm = "mini-batch k-means" if mini_batch else "k-means"
    assert {"clusters": 8, "seed": 0, "restarts": 4, "algorithm": algorithm}.items() <= got.items()
    assert list(got)[:3] == ["nmi", "ami", "f1"]


def test_the_seed_gives_the_clusters():
    x, labels = blobs(classes=20, noise=1.5)
    assert clustering(x, labels, seed=3) == clustering(x, labels, seed=3)
    assert clustering(x, labels, seed=4)["nmi"] != clustering(x, labels, seed=3)["nmi"]


def test_cosine_ignores_the_length_of_embeddings():
    x, labels = blobs(noise=0.5)
    lengths = np.random.default_rng(1).uniform(0.01, 100, (len(x), 1))
    assert clustering(lengths * x, labels, restarts=4) == pytest.approx(clustering(x, labels, restarts=4))
    assert clustering(lengths * x, labels, metric="euclidean")["nmi"] < 0.8


def test_above_a_size_batches_are_used(monkeypatch):
    x, labels = blobs()
    monkeypatch.setattr(module, "_MINI_BATCH_ABOVE", 8 * 96)
    assert clustering(x, labels)["algorithm"] == "k-means"
    monkeypatch.setattr(module, "_MINI_BATCH_ABOVE", 8 * 96 - 1)
    assert clustering(x, labels)["algorithm"] == "mini-batch k-means"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(96, int)}, "96 examples of 1 classes"),
        ({"labels": np.arange(96)}, "96 examples of 96 classes"),
        ({"metric": "dot"}, "metric='dot'"),
        ({"restarts": 0}, "restarts=0"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_wrong_arguments_are_errors(change, message):
    x, labels = blobs()
    with pytest.raises(ValueError, match=message):
        clustering(**{"embeddings": x, "labels": labels, **change})


def test_labelings_of_one_class_or_other_lengths_are_errors():
    with pytest.raises(ValueError, match="labels of one class"):
        clustering_scores([1, 1, 1], [0, 1, 2])
    with pytest.raises(ValueError, match=r"clusters of shape \(2,\), expected \(3,\)"):
        clustering_scores([0, 1, 1], [0, 1])


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    x, labels = blobs()
    with pytest.raises(ImportError, match=r"pip install tfdml\[evaluation\]"):
        clustering(x, labels)
