"""Neighborhood similarity against a loop."""

import numpy as np
import pytest

import tfdml


@pytest.mark.parametrize("k", [1, 3, 7])
def test_it_is_the_mean_of_the_largest_cosines(k):
    rng = np.random.default_rng(0)
    x, cohort = rng.normal(size=(5, 4)), rng.normal(size=(7, 4))
    expected = [np.mean(sorted(a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in cohort)[-k:]) for a in x]
    np.testing.assert_allclose(tfdml.search.neighborhood_similarity(x, cohort, k=k), expected, rtol=1e-5)


def test_no_vectors_have_no_similarities():
    assert tfdml.search.neighborhood_similarity(np.ones((0, 2)), np.ones((3, 2)), k=1).shape == (0,)
