"""Valid-triplet mining."""

import keras
import numpy as np
import pytest

from tests.backend import compiled, gradient, numbers
from tests.losses.loops import kept_by_valid_triplets
from tfdml import miners, pairs

pytestmark = pytest.mark.backends

LABELS = np.repeat(np.arange(6), [1, 2, 3, 4, 3, 2])


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((len(LABELS), 4)).astype("float32")


@pytest.mark.parametrize("margin", [-0.5, 0.0, 0.1, 1.0])
def test_it_keeps_the_pairs_of_violating_triplets(x, margin):
    mined = miners.valid_triplets(pairs.all_pairs(LABELS, x), margin=margin)
    unit = x.astype("float64") / np.linalg.norm(x.astype("float64"), axis=1, keepdims=True)
    for anchor in range(len(x)):
        positives, negatives = kept_by_valid_triplets(LABELS, unit @ unit.T, anchor, margin)
        assert np.flatnonzero(numbers(mined.positive)[anchor]).tolist() == positives
        assert np.flatnonzero(numbers(mined.negative)[anchor]).tolist() == negatives


def test_weights_that_stay_are_unchanged(x):
    made = pairs.all_pairs(LABELS, x)
    weighted = made._replace(positive=3 * made.positive, negative=0.5 * made.negative)
    mined = miners.ValidTriplets(margin=0.3)(weighted)
    assert set(np.unique(numbers(mined.positive))) == {0, 3}
    assert set(np.unique(numbers(mined.negative))) == {0, 0.5}


@pytest.mark.parametrize("labels", [np.zeros(5, int), np.arange(5)], ids=["no negatives", "no positives"])
def test_an_anchor_without_both_kinds_keeps_nothing(x, labels):
    mined = miners.valid_triplets(pairs.all_pairs(labels, x[:5]))
    assert not numbers(mined.positive).any()
    assert not numbers(mined.negative).any()


def test_it_compiles_and_passes_no_gradient(x):
    mine = miners.ValidTriplets()
    fast = compiled(lambda v: mine(pairs.all_pairs(LABELS, v)).negative)
    np.testing.assert_array_equal(numbers(fast(x)), numbers(mine(pairs.all_pairs(LABELS, x)).negative))
    slope = gradient(lambda v: mine(pairs.all_pairs(LABELS, v)).negative + 0 * keras.ops.sum(v), x)
    np.testing.assert_array_equal(slope, np.zeros_like(x))


def test_it_comes_back_from_its_config():
    miner = miners.ValidTriplets(margin=0.25)
    assert keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(miner)) == miner
