"""Neighborhood similarity against a loop, and what it does to hubs."""

import numpy as np
import pytest

import tfdml


@pytest.mark.parametrize("k", [1, 3, 7])
def test_it_is_the_mean_of_the_largest_cosines(k):
    rng = np.random.default_rng(0)
    x, cohort = rng.normal(size=(5, 4)), rng.normal(size=(7, 4))
    expected = [np.mean(sorted(a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in cohort)[-k:]) for a in x]
    np.testing.assert_allclose(tfdml.search.neighborhood_similarity(x, cohort, k=k), expected, rtol=1e-5)


def test_a_pair_of_hubs_is_no_longer_above_a_pair_that_stands_alone():
    hubs = np.array([[1.0, 0.0], [0.8, 0.6]])
    alone = np.array([[-1.0, 0.0], [-0.7, np.sqrt(0.51)]])
    x = np.concatenate([hubs, alone])
    cohort = np.array([[0.95, 0.3], [0.9, 0.4], [0.0, -1.0]])
    r = tfdml.search.neighborhood_similarity(x, cohort, k=2)
    cosines = tfdml.metrics.pair_scores(x[[0, 2]], x[[1, 3]])
    assert cosines[0] > cosines[1]
    relative = cosines - (r[[0, 2]] + r[[1, 3]]) / 2
    assert relative[0] < relative[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"k": 4}, "k=4"), ({"k": 0}, "k=0"), ({"cohort": np.ones((3, 5))}, "x of dim 2, cohort of 5")],
)
def test_settings_out_of_range_are_errors(options, message):
    arguments = {"cohort": np.ones((3, 2)), **options}
    with pytest.raises(ValueError, match=message):
        tfdml.search.neighborhood_similarity(np.ones((2, 2)), **arguments)


def test_no_vectors_have_no_similarities():
    assert tfdml.search.neighborhood_similarity(np.ones((0, 2)), np.ones((3, 2)), k=1).shape == (0,)
