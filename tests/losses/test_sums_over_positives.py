"""Gradients that are derived by hand, of sums that go over the positives of all anchors."""

from functools import partial

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, fast, float64, gradient_and_values, numbers
from tests.losses.rows import UNEVEN, batch
from tfdml import losses, miners, pairs

pytestmark = pytest.mark.backends


def weighted_pairs(labels, x, seed=2):
    """All pairs with weights 0, 1 or 2 that are not the same both ways."""
    made, rng = pairs.all_pairs(labels, x), np.random.default_rng(seed)
    weights = [keras.ops.cast(rng.integers(0, 3, (len(x), len(x))), made.positive.dtype) for _ in range(2)]
    return made._replace(positive=made.positive * weights[0], negative=made.negative * weights[1])


OVER_POSITIVES = {
    "all triplets": losses.functional.triplet,
    "soft triplets": partial(losses.functional.triplet, soft=True, distance="euclidean"),
    "ratios": partial(losses.functional.triplet, ratio=True, margin=1.0),
    "semi-hard triplets": partial(losses.functional.triplet, negatives=miners.semi_hard_negatives, margin=1.0),
    "smooth AP": partial(losses.functional.smooth_ap, temperature=0.1),
    "angular": losses.functional.angular,
    "quadruplet": losses.functional.quadruplet,
}


def value_of(function, labels, x):
    total = keras.ops.sum(function(weighted_pairs(labels, x)))
    return total, total


def total(ours, x):
    return numbers(ours(keras.ops.convert_to_tensor(x))[0])


@pytest.mark.skipif(BACKEND == "torch", reason="Keras computes products of float64 in float32")
@pytest.mark.parametrize("function", OVER_POSITIVES.values(), ids=OVER_POSITIVES)
def test_sums_over_positives_have_the_gradient_of_their_value_for_any_weights(function):
    labels, x = batch(UNEVEN["three classes"], dim=3, dtype="float64")
    with float64():
        ours = fast(lambda v: gradient_and_values(lambda w: value_of(function, labels, w), v))
        slope = numbers(ours(keras.ops.convert_to_tensor(x))[1])
        for direction in np.random.default_rng(3).normal(size=(4, *x.shape)):
            step = 1e-6 * direction
            expected = (total(ours, x + step) - total(ours, x - step)) / 2e-6
            assert np.sum(slope * direction) == pytest.approx(expected, rel=1e-5, abs=1e-6 * np.abs(slope).max())
