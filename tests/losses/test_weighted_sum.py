"""Weighted sums of losses: values, layers, configs, and training."""

import keras
import numpy as np
import pytest

from tests.backend import numbers
from tfdml import layers, losses, miners, pairs

pytestmark = pytest.mark.backends

LABELS = np.array([3, 3, 0, 0, 1, 1, 3, 0])
X = np.random.default_rng(0).standard_normal((len(LABELS), 4)).astype("float32")


def parts():
    """A loss over the batch with a miner, and one over proxies."""
    return [losses.TripletLoss(miner=miners.HardestNegatives()), losses.NormalizedSoftmaxLoss(classes=4, scale=8.0)]


def test_the_values_are_the_weighted_sums_of_those_of_the_parts():
    triplet, softmax = parts()
    loss = losses.WeightedSumLoss([triplet, softmax], weights=[2.0, 0.5])
    expected = 2 * numbers(triplet.call(LABELS, X)) + numbers(softmax.call(LABELS, X)) / 2
    np.testing.assert_allclose(numbers(loss.call(LABELS, X)), expected, rtol=1e-6)
    weights = np.arange(8, dtype="float32")
    np.testing.assert_allclose(numbers(loss(LABELS, X, weights)), (expected * weights).mean(), rtol=1e-6)
    equal = losses.WeightedSumLoss([triplet, softmax], reduction="sum")
    np.testing.assert_allclose(
        numbers(equal(LABELS, X)), (numbers(triplet(LABELS, X)) + numbers(softmax(LABELS, X))) * 8, rtol=1e-5
    )


def test_its_layers_are_those_of_its_parts_each_once():
    proxies = layers.Proxies(4)
    shared = [losses.CosFaceLoss(pairing=proxies), losses.ProxyAnchorLoss(pairing=proxies)]
    memory_free = losses.ContrastiveLoss(miner=miners.BalancedPairs(seed=0))
    loss = losses.WeightedSumLoss([losses.WeightedSumLoss(shared), memory_free])
    assert loss.layers == [proxies, memory_free.miner]


def test_parts_of_different_anchors_are_refused():
    halves = losses.NPairsLoss(pairing=pairs.even_against_odd)
    with pytest.raises(ValueError, match="Received losses of 8 and 4 anchors in a weighted sum, expected the same"):
        losses.WeightedSumLoss([losses.NCALoss(), halves])(LABELS, X)


def test_a_plain_model_is_refused():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", loss=losses.WeightedSumLoss(parts()))
    with pytest.raises(ValueError, match="EmbeddingModel"):
        model.train_on_batch(X, LABELS)
