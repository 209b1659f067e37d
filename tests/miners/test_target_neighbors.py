"""Positives that are nearest in fixed features."""

import keras
import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from tests.backend import fast, numbers
from tests.losses import loops
from tfdml import losses, miners, pairs
from tfdml.layers.boundaries import same_class

pytestmark = pytest.mark.backends

LABELS = np.array([5, 5, 5, 5, 2, 2, 2, 9, 9, 1])
FEATURES = np.random.default_rng(0).standard_normal((10, 3)).astype("float32")
TARGETS = miners.TargetNeighbors.nearest(FEATURES, LABELS, k=2)
ROWS = np.array([3, 0, 9, 4, 1, 6])
BATCH = np.stack([LABELS[ROWS], ROWS], axis=1)


def expected_of(example, k):
    """The k nearest examples of its class, by scikit-learn."""
    others = np.array([r for r in np.flatnonzero(LABELS[example] == LABELS) if r != example])
    if not len(others):
        return []
    search = NearestNeighbors(n_neighbors=min(k, len(others))).fit(FEATURES[others])
    return others[search.kneighbors(FEATURES[[example]], return_distance=False)[0]].tolist()


@pytest.mark.parametrize("k", [1, 2, 5])
def test_targets_are_the_nearest_neighbors_of_the_class_by_scikit_learn(k):
    neighbors = miners.TargetNeighbors.nearest(FEATURES, LABELS, k=k).neighbors
    assert [[r for r in row if r >= 0] for row in neighbors.tolist()] == [expected_of(e, k) for e in range(10)]


def test_a_batch_keeps_the_positives_that_are_targets_and_all_negatives():
    made = pairs.all_pairs(BATCH, FEATURES[ROWS], match=same_class)
    mined = TARGETS(made)
    expected = [[float(other in expected_of(example, 2)) for other in ROWS] for example in ROWS]
    np.testing.assert_array_equal(numbers(mined.positive), expected)
    np.testing.assert_array_equal(numbers(mined.negative), numbers(made.negative))


def test_the_loss_compares_class_ids_by_itself_and_comes_back_from_its_config():
    loss = losses.LMNNLoss(miner=TARGETS)
    again = losses.LMNNLoss.from_config(loss.get_config())
    everything = np.stack([LABELS, np.arange(10)], axis=1)
    x = FEATURES[:, :2] * 2
    expected = loops.lmnn(LABELS, x.astype(float), neighbors=2, fixed=FEATURES.astype(float))
    for same in (loss, again):
        values = fast(lambda v, same=same: same.call(everything, v))(keras.ops.convert_to_tensor(x))
        np.testing.assert_allclose(numbers(values), expected, rtol=1e-5)


def test_labels_without_examples_are_refused():
    with pytest.raises(ValueError, match=r"labels of shape \(10,\), expected \(batch, 2\), class ids and examples"):
        losses.ContrastiveLoss(miner=TARGETS)(LABELS, FEATURES)


def test_an_example_outside_the_list_is_refused():
    with pytest.raises(ValueError, match="label 10, which neighbors does not cover"):
        losses.LMNNLoss(miner=TARGETS)(np.array([[5, 10], [5, 0]]), FEATURES[:2])


@pytest.mark.parametrize("neighbors", [[1, 2], [[0.5]], np.zeros((0, 3), int)], ids=["row", "floats", "empty"])
def test_lists_of_another_form_are_refused(neighbors):
    with pytest.raises(ValueError, match=r"Received neighbors of shape .*, expected \(examples, k\) integers"):
        miners.TargetNeighbors(neighbors=neighbors)


def test_another_number_of_labels_is_refused():
    with pytest.raises(ValueError, match="labels"):
        miners.TargetNeighbors.nearest(FEATURES, LABELS[:3])
