"""Losses in float64, under distances that are not symmetric, and at extreme settings.

On TensorFlow alone: JAX has float32, and would compile each loss for each setting.
"""

import inspect

import keras
import numpy as np
import pytest

from tests.backend import gradient, numbers
from tests.losses.rows import (
    BRANCHES,
    DEFAULTS,
    LARGE,
    LISTED,
    OVER_A_BASE,
    OVER_PROXIES,
    UNEVEN,
    batch,
    each,
    evaluated,
    lacking,
    law,
)
from tfdml.losses import functional
from tfdml.pairs import all_pairs

X = batch(range(8))[1]
UNIT = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype("float32")


@law(DEFAULTS)
def test_float64_arrays_are_as_good_as_float32_under_a_float32_policy(row):
    labels, x = batch(UNEVEN["three classes"], dtype="float64")
    losses_ = [row.loss]
    if OVER_PROXIES in row.traits:  # the class with proxies of its own
        losses_.append(type(row.loss)(classes=10, **row.loss.settings))
    for loss in losses_:
        expected = numbers(loss.call(labels, x.astype("float32")))
        np.testing.assert_allclose(numbers(loss.call(labels, x)), expected, rtol=1e-4, atol=1e-5)


def has_a_distance(row):
    """Whether a row, or its base, takes a distance; not for weights that are constants in the gradient."""
    settings = row.loss.base.settings if OVER_A_BASE in row.traits else row.loss.settings
    return "distance" in settings and "fixed" not in inspect.signature(row.by_loops).parameters


@law({name: row for name, row in lacking(BRANCHES, LISTED).items() if has_a_distance(row)})
def test_gradients_under_a_distance_that_is_not_symmetric_are_those_of_finite_differences(row):
    loss = row.with_options(distance="snr")
    labels, x = batch(LARGE[:12], seed=4, dtype="float64")
    weights = np.random.default_rng(5).uniform(0.5, 1.5, len(x))

    def total(v):
        return keras.ops.sum(weights * loss.call(labels, v))

    slope = gradient(total, x)
    for direction in np.random.default_rng(6).normal(size=(3, *x.shape)):
        step = 1e-6 * direction
        expected = float(total(x + step) - total(x - step)) / 2e-6
        assert np.sum(slope * direction) == pytest.approx(expected, rel=1e-4, abs=1e-6)


SHARPNESS = {"scale": 1e3, "positive_scale": 1e3, "alpha": 1e3, "beta": 1e3, "temperature": 1e-3, "gamma": 1e-3}


@each(lacking(DEFAULTS, OVER_A_BASE))
def test_extreme_settings_and_long_embeddings_have_finite_values_and_gradients(row):
    labels, _ = batch(UNEVEN["three classes"])
    for name in SHARPNESS.keys() & row.loss.settings.keys():
        try:
            extreme = row._replace(loss=row.with_options(**{name: SHARPNESS[name]}))
        except ValueError:  # the class has a smaller range
            continue
        for norm in (1.0, 100.0):
            value, slope, _ = evaluated(extreme, labels, norm * UNIT)
            assert np.isfinite(value), (name, norm)
            assert np.isfinite(slope).all(), (name, norm)


def test_the_softmax_of_each_positive_has_the_slopes_of_finite_differences_by_embeddings_and_by_weights():
    labels, x = np.arange(12) // 4, np.random.default_rng(0).standard_normal((12, 3))
    rows, upstream = np.arange(12), np.random.default_rng(1).uniform(0.5, 1.5, 12)
    is_positive = (labels[:, None] == labels) & (rows[:, None] != rows)
    weights = is_positive * np.random.default_rng(2).uniform(0.2, 2.0, (12, 12))

    def by_loops(x, weights):
        total = 0.0
        for a in rows:
            cosines = x @ x[a] / np.linalg.norm(x, axis=1) / np.linalg.norm(x[a])
            negatives = np.exp(cosines[labels != labels[a]] / 0.5).sum()
            terms = [weights[a, p] * np.log1p(negatives / np.exp(cosines[p] / 0.5)) for p in rows if is_positive[a, p]]
            total += upstream[a] * np.mean(terms)
        return total

    def ours(x, weights):
        pairs = all_pairs(labels, x)._replace(positive=weights)
        return keras.ops.sum(upstream * functional.nt_xent(pairs, temperature=0.5))

    x_tensor, weights_tensor = (keras.ops.convert_to_tensor(v, "float64") for v in (x, weights))
    np.testing.assert_allclose(float(ours(x_tensor, weights_tensor)), by_loops(x, weights))
    by_x = numbers(gradient(lambda x: ours(x, weights_tensor), x_tensor))
    by_weights = numbers(gradient(lambda w: ours(x_tensor, w), weights_tensor)) * is_positive
    step = 1e-6 * np.random.default_rng(3).standard_normal((12, 12))
    change = by_loops(x + step[:, :3], weights) - by_loops(x - step[:, :3], weights)
    np.testing.assert_allclose(np.sum(by_x * step[:, :3]) * 2, change, rtol=1e-5)
    change = by_loops(x, weights + step) - by_loops(x, weights - step)
    np.testing.assert_allclose(np.sum(by_weights * step) * 2, change, rtol=1e-5)
