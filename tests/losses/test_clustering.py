"""The clustering loss beside an exhaustive search. Its values are rows of the contract."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from tests.backend import numbers
from tests.losses import loops
from tests.losses.rows import UNEVEN, batch
from tfdml import losses

pytestmark = pytest.mark.backends


def by_exhaustive_search(labels, x, margin):
    """The loss with the best of all sets of medoids."""
    d, rows = loops.distances(x, "euclidean"), range(len(x))

    def augmented(medoids):
        clusters = loops.clusters_of(d, medoids)
        nmi = normalized_mutual_info_score(labels, clusters, average_method="geometric")
        return -sum(d[row, medoids].min() for row in rows) + margin * (1 - nmi)

    members = [np.flatnonzero(labels == label) for label in set(labels)]
    of_classes = -sum(d[np.ix_(rows, rows)].sum(axis=0).min() for rows in members)
    best = max(augmented(list(medoids)) for medoids in itertools.combinations(rows, len(members)))
    return max(0.0, best - of_classes)


def test_the_medoids_are_nearly_those_of_an_exhaustive_search_and_never_better():
    found, best = [], []
    for seed in range(4):
        labels, x = batch(UNEVEN["three classes"], seed=seed)
        found.append(numbers(losses.ClusteringLoss(margin=2.0).call(labels, x))[0])
        best.append(by_exhaustive_search(labels, x.astype(float), margin=2.0))
    assert (np.array(found) <= np.array(best) + 1e-5).all()
    assert np.mean(found) > 0.9 * np.mean(best)


def test_classes_that_are_far_apart_have_zero_loss():
    labels, x = batch(UNEVEN["three classes"])
    apart = x + 100 * np.eye(8, 5, dtype="float32")[np.unique(labels, return_inverse=True)[1]]
    np.testing.assert_allclose(numbers(losses.ClusteringLoss().call(labels, apart)), np.zeros(8), atol=1e-3)
