"""A query that learns, beside a regression of scikit-learn."""

import numpy as np
from sklearn.linear_model import Ridge

from tfdml import search


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_it_is_the_direction_of_a_ridge_regression_and_half_of_the_mean():
    rng = np.random.default_rng(0)
    query, positive, negative = rng.normal(size=5), 3 * rng.normal(size=(4, 5)), rng.normal(size=(3, 5))
    right, wrong = unit(np.stack([query, *positive])), unit(negative)
    x = np.concatenate([right, wrong]) - (right.mean(axis=0) + wrong.mean(axis=0)) / 2
    w = Ridge(alpha=0.1, fit_intercept=False).fit(x, [1] * 5 + [-1] * 3).coef_
    expected = unit(unit(w) + unit(right.mean(axis=0)) / 2)
    np.testing.assert_allclose(search.refine(query, positive, negative), expected, atol=1e-5)


def test_without_wrong_answers_it_is_the_mean():
    found = [search.refine([2.0, 0.0], [[0.0, 3.0]], negative) for negative in (None, [], np.empty((0, 2)))]
    np.testing.assert_allclose(found, np.full((3, 2), 0.5**0.5), rtol=1e-6)


def test_right_answers_come_nearer_and_wrong_ones_go():
    rng = np.random.default_rng(0)
    x = unit(rng.normal(size=(40, 8)))
    refined = search.refine(x[0], x[1:4], x[4:8])
    assert (x[1:4] @ refined).min() > (x[4:8] @ refined).max()


def test_answers_that_are_both_right_and_wrong_leave_a_finite_query():
    assert np.isfinite(search.refine([1.0, 0.0], [[1.0, 0.0]], [[1.0, 0.0]])).all()
