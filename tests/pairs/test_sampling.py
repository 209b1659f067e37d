"""Sampling by weights."""

import numpy as np
import pytest
from keras import ops

from tests.backend import compiled, numbers
from tfdml import pairs
from tfdml.pairs.sampling import systematic_sample, with_sampled_negatives

pytestmark = pytest.mark.backends


def sample(weights, num_draws, offset):
    """`systematic_sample` of arrays."""
    return systematic_sample(*(ops.convert_to_tensor(x) for x in (weights, num_draws, offset)))


def weights(rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.exponential(size=(rows, columns)) * rng.integers(0, 2, (rows, columns))).astype("float32")


@pytest.mark.parametrize("columns", [5, 63, 64, 100, 129])
def test_draws_are_those_of_a_walk_along_the_cumulative_weights(columns):
    w, number = weights(6, columns), np.array([0, 1, 2, 3, 7, 40], dtype="float32")[:, None]
    offset = np.random.default_rng(1).uniform(0.1, 0.9, (6, 1)).astype("float32")
    for function in (sample, compiled(sample)):
        found = numbers(function(w, number, offset))
        for row in range(6):
            edges = np.cumsum(w[row].astype("float64")) / w[row].sum()
            points = (np.arange(number[row, 0]) + offset[row, 0]) / max(number[row, 0], 1)
            expected = np.bincount(np.searchsorted(edges, points, side="right"), minlength=columns)
            np.testing.assert_array_equal(found[row], expected)


def test_over_all_offsets_every_entry_is_drawn_in_proportion_to_its_weight():
    w = weights(1, 70)
    offsets = (np.arange(1000, dtype="float32")[:, None] + 0.5) / 1000
    found = numbers(sample(np.repeat(w, 1000, axis=0), 9.0, offsets))
    np.testing.assert_allclose(found.mean(axis=0), 9 * w[0] / w.sum(), atol=2e-3)
    np.testing.assert_array_equal(found.sum(axis=1), np.full(1000, 9))


def test_a_row_without_weights_draws_nothing():
    assert not numbers(sample(np.zeros((2, 80), "float32"), 3.0, np.full((2, 1), 0.5, "float32"))).any()


def test_sampled_negatives_have_the_number_of_draws_as_weight_and_count():
    made = pairs.all_pairs(np.array([0, 0, 1]), np.eye(3, dtype="float32"))
    times = np.array([[0, 0, 2], [0, 0, 0], [0.5, 0.5, 0]], dtype="float32")
    found = with_sampled_negatives(made, times)
    np.testing.assert_array_equal(numbers(found.negative), times)
    np.testing.assert_array_equal(numbers(found.counts), times + numbers(made.positive))
    np.testing.assert_array_equal(numbers(found.positive), numbers(made.positive))
