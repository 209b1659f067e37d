"""Random pairs: the same number of negatives as positives, or uniform by distance."""

import numpy as np
import pytest

from tests.backend import numbers
from tests.losses.loops import distances
from tfdml import miners, pairs

LABELS = np.repeat(np.arange(5), [1, 2, 3, 4, 6])


def batch(rows=16, dim=3):
    return np.random.default_rng(0).standard_normal((rows, dim)).astype("float32")


def test_every_anchor_gets_as_many_different_negatives_as_it_has_positives():
    made = pairs.all_pairs(LABELS, batch())
    miner = miners.BalancedPairs(seed=0)
    for _ in range(20):
        negative = numbers(miner(made).negative)
        np.testing.assert_array_equal(negative.sum(axis=1), numbers(made.positive).sum(axis=1))
        assert set(np.unique(negative)) == {0, 1}


@pytest.mark.slow
def test_every_negative_is_as_likely():
    made = pairs.all_pairs(LABELS, batch())
    miner = miners.BalancedPairs(seed=0)
    drawn = np.mean([numbers(miner(made).negative) for _ in range(300)], axis=0)
    for a, label in enumerate(LABELS):
        others = label != LABELS
        np.testing.assert_allclose(drawn[a, others], (np.sum(~others) - 1) / others.sum(), atol=0.1)


def test_few_negatives_are_drawn_more_than_once_and_count_so():
    made = pairs.all_pairs(np.array([0, 0, 0, 0, 1]), batch(5))
    mined = miners.BalancedPairs(seed=0)(made)
    np.testing.assert_array_equal(numbers(mined.negative)[0], [0, 0, 0, 0, 3])
    np.testing.assert_array_equal(numbers(mined.counts)[0], [0, 1, 1, 1, 3])


@pytest.mark.slow
def test_a_bin_of_distances_keeps_this_number_of_pairs_on_average():
    labels = np.repeat(np.arange(10), 6)
    x = batch(60)
    made = pairs.all_pairs(labels, x)
    miner = miners.UniformHistogram(bins=6, positives_per_bin=8, negatives_per_bin=20, seed=0)
    kept = [miner(made) for _ in range(150)]
    d = distances(x.astype("float64"), "euclidean")
    for kind, per_bin in (("positive", 8), ("negative", 20)):
        there = numbers(getattr(made, kind)) > 0
        edges = np.histogram_bin_edges(d[there], 6)
        in_bins = np.histogram(d[there], edges)[0]
        mean = np.mean([np.histogram(d[numbers(getattr(one, kind)) > 0], edges)[0] for one in kept], axis=0)
        np.testing.assert_allclose(mean, np.minimum(in_bins, per_bin), rtol=0.08, atol=0.5)
