"""The histogram that the dynamic soft margin loss keeps between batches."""

import numpy as np
import pytest

from tests.backend import numbers
from tests.losses import loops
from tests.losses.rows import UNEVEN, batch
from tfdml import layers, losses

pytestmark = pytest.mark.backends

LABELS, X = batch(UNEVEN["three classes"])
OTHER_LABELS, OTHER = batch(UNEVEN["one of its own"], seed=1)


def differences(labels, x):
    d = loops.distances(loops.unit(x.astype(float)), "euclidean")
    return [
        d[a, p] - min(d[a, n] for n in negatives)
        for a in range(len(x))
        for positives, negatives in [loops.others_of(a, labels)]
        for p in positives
    ]


def shares(labels, x, bins):
    counts = np.array(loops.histogram_of(differences(labels, x), -2, 2, bins))
    return counts / counts.sum()


def test_updates_mix_batches_into_the_histogram_and_calls_do_not():
    loss = losses.DynamicSoftMarginLoss(bins=20, momentum=0.25)
    loss(LABELS, X)
    np.testing.assert_array_equal(numbers(loss.history.shares), np.zeros(21))
    loss.update(LABELS, X)
    first = shares(LABELS, X, 20)
    np.testing.assert_allclose(numbers(loss.history.shares), first, rtol=1e-4, atol=1e-6)
    loss.update(OTHER_LABELS, OTHER)
    mixed = 0.75 * first + 0.25 * shares(OTHER_LABELS, OTHER, 20)
    np.testing.assert_allclose(numbers(loss.history.shares), mixed, rtol=1e-4, atol=1e-6)
    expected = loops.dynamic_soft_margin(LABELS, X.astype(float), bins=20, momentum=0.25, history=mixed)
    np.testing.assert_allclose(numbers(loss.call(LABELS, X)), expected, rtol=1e-4, atol=1e-6)


def test_a_batch_without_triplets_leaves_the_histogram_as_it_is():
    loss = losses.DynamicSoftMarginLoss(bins=20, momentum=0.25)
    loss.update(LABELS, X)
    before = numbers(loss.history.shares)
    loss.update(np.arange(8), X)
    np.testing.assert_allclose(numbers(loss.history.shares), before, rtol=1e-5)


def test_a_batch_that_is_not_finite_leaves_the_histogram_as_it_is():
    loss = losses.DynamicSoftMarginLoss(bins=20, momentum=0.25)
    loss.update(LABELS, X)
    before = numbers(loss.history.shares)
    for bad in (np.nan, np.inf, 1e38):
        loss.update(LABELS, np.where(np.arange(8)[:, None] == 3, np.float32(bad), X))
        np.testing.assert_array_equal(numbers(loss.history.shares), before)


def test_the_histogram_is_updated_before_a_memory_holds_the_batch():
    loss = losses.DynamicSoftMarginLoss(pairing=layers.Memory(16))
    assert loss.layers == [loss.history, loss.pairing]


def test_losses_that_hold_it_update_the_histogram_once():
    alone, inner = (losses.DynamicSoftMarginLoss(bins=20, momentum=0.25) for _ in range(2))
    outer = losses.WeightedSumLoss([losses.MatryoshkaLoss(inner, dims=(2, 5)), losses.NCALoss()])
    for labels, x in ((LABELS, X), (OTHER_LABELS, OTHER)):
        alone.update(labels, x)
        outer.update(labels, x)
    np.testing.assert_array_equal(numbers(inner.history.shares), numbers(alone.history.shares))
