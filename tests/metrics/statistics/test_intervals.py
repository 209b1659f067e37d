"""Intervals over classes and seeds: SciPy for classes of one size, loops over the equations, laws."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tfdml.metrics import class_interval, seed_interval
from tfdml.metrics.statistics.intervals import estimate, least_classes

EVEN = np.repeat(np.arange(9), 4)
UNEVEN = np.repeat(np.arange(8), [1, 2, 2, 3, 5, 8, 13, 21])
SIZES = np.bincount(UNEVEN)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def by_loops(values, labels, power, confidence=0.95):
    """The mean, half of its interval and the degrees of freedom, from the equations of the module."""
    classes = sorted(set(labels))
    sums = [sum(values[labels == c]) for c in classes]
    shares = [np.mean(labels == c) for c in classes]
    mean, squares = sum(sums) / len(values), sum(h**2 for h in shares)
    variance = sum(
        ((s - mean * h * len(values)) / len(values)) ** 2 / (1 - 2 * h + squares)
        for s, h in zip(sums, shares, strict=True)
    )
    degrees = sum(h**power for h in shares) ** 2 / sum(h ** (2 * power) for h in shares) - 1
    return mean, stats.t.ppf((1 + confidence) / 2, degrees) * math.sqrt(variance), degrees


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_the_interval_of_a_mean_by_loops_on_the_logit_scale_and_beyond_it(rng, confidence):
    values = rng.random(55)
    mean, half, _ = by_loops(values, UNEVEN, 2, confidence)
    half /= mean * (1 - mean)
    expected = [1 / (1 + math.exp(-(math.log(mean / (1 - mean)) + side * half))) for side in (-1, 1)]
    assert class_interval(values, UNEVEN, confidence=confidence) == pytest.approx(expected)
    mean, half, _ = by_loops(10 * values, UNEVEN, 2, confidence)
    assert class_interval(10 * values, UNEVEN, confidence=confidence) == pytest.approx((mean - half, mean + half))


def test_macro_weighs_each_class_the_same(rng):
    values = rng.random(55)
    means = [values[label == UNEVEN].mean() for label in range(8)]
    assert class_interval(values, UNEVEN, average="macro") == pytest.approx(class_interval(means, np.arange(8)))
    micro = class_interval(values, UNEVEN)
    assert micro != class_interval(values, UNEVEN, average="macro")


def test_the_squared_error_is_the_variance_over_all_signs_of_the_class_means():
    """Class means of -1 and 1, each as likely, have the variance 1, so the mean has that of sum_c h_c^2."""
    errors = [estimate(np.array(signs)[UNEVEN], UNEVEN).error for signs in itertools.product((-1, 1), repeat=8)]
    assert np.mean(np.square(errors)) == pytest.approx(((SIZES / SIZES.sum()) ** 2).sum())


def test_equal_values_by_hand():
    assert class_interval(np.ones(36), EVEN) == pytest.approx((0.025 ** (1 / 9), 1))
    assert class_interval(np.zeros(36), EVEN) == pytest.approx((0, 1 - 0.025 ** (1 / 9)))
    assert class_interval(np.full(36, 0.25), EVEN) == pytest.approx((0.25, 0.25))


@pytest.mark.parametrize(("confidence", "least"), [(0.5, 2), (0.75, 3), (0.95, 6), (0.99, 8)])
def test_there_is_no_interval_where_the_range_of_the_classes_is_too_narrow_for_it(rng, confidence, least):
    # The median of all classes is outside the range of C drawn ones with a probability of 2 / 2^C.
    values, options = rng.random(least), {"confidence": confidence}
    assert np.isfinite(class_interval(values, np.arange(least), **options)).all()
    assert np.isnan(class_interval(values[1:], np.arange(least - 1), **options)).all()
    assert least == least_classes(confidence)


def test_excluded_queries_are_left_out(rng):
    values = rng.random(36)
    assert class_interval(np.append(values, np.nan), np.append(EVEN, 9)) == class_interval(values, EVEN)


def test_intervals_cover_the_mean_of_all_classes_in_95_of_100_sets(rng):
    """Within 3.5 standard errors of 400 sets."""
    found = []
    for _ in range(400):
        sizes = rng.integers(2, 9, 60)
        labels = np.repeat(np.arange(60), sizes)
        low, high = class_interval(rng.normal(3, 0.3, 60)[labels] + rng.normal(0, 0.1, len(labels)), labels)
        found.append(low <= 3 <= high)
    assert np.mean(found) == pytest.approx(0.95, abs=0.038)


@pytest.mark.parametrize("confidence", [0.95, 0.9])
def test_an_interval_over_seeds_is_that_of_scipy(rng, confidence):
    values = rng.normal(size=7)
    expected = stats.ttest_1samp(values, 0).confidence_interval(confidence)
    np.testing.assert_allclose(seed_interval(values, confidence=confidence), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: class_interval([np.nan, np.nan], [3, 4]), "values of no class"),
        (lambda: class_interval([1.0, 2.0], [3, 4, 5]), "one id per row"),
        (lambda: class_interval([[1.0], [2.0]], [3, 4]), r"expected \(queries,\)"),
        (lambda: class_interval([1.0, 2.0], [3, 4], confidence=1.0), "confidence=1.0, expected a number between"),
        (lambda: class_interval([1.0, 2.0], [3, 4], average="mean"), "one of 'micro', 'macro'"),
        (lambda: seed_interval([0.5]), "at least two finite numbers, one per training run"),
        (lambda: seed_interval([0.5, np.nan]), "finite"),
        (lambda: seed_interval([[0.5, 0.6]]), "one per training run"),
        (lambda: seed_interval([0.5, 0.6], confidence=95), "confidence=95, expected a number between 0 and 1"),
    ],
)
def test_wrong_input_is_refused_with_advice(call, message):
    with pytest.raises(ValueError, match=message):
        call()
