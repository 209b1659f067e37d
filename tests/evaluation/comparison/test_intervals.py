"""Intervals and tests over classes: SciPy for classes of one size, loops over the equations, laws."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tfdml.evaluation.comparison import intervals

EVEN = np.repeat(np.arange(9), 4)
UNEVEN = np.repeat(np.arange(8), [1, 2, 2, 3, 5, 8, 13, 21])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_a_difference_over_classes_of_one_size_is_the_t_test_of_their_means(rng):
    a, b = rng.random(36) + 0.2, rng.random(36)
    found = intervals.paired_comparison(a, b, EVEN, ("a", "b"), 0.9)
    test = stats.ttest_1samp((a - b).reshape(9, 4).mean(axis=1), 0)
    assert found.p == pytest.approx(test.pvalue)
    assert (found.low, found.high) == pytest.approx(test.confidence_interval(0.9))
    assert (found.queries, found.classes, found.names) == (36, 9, ("a", "b"))


def by_loops(values, labels, power, scale):
    """The mean, half of its 95% interval and the degrees of freedom, from the equations of the module."""
    classes = sorted(set(labels))
    sums = [sum(values[labels == c]) for c in classes]
    shares = [np.mean(labels == c) for c in classes]
    mean = sum(sums) / len(values)
    squares = sum(h**2 for h in shares)
    variance = sum(
        ((s - mean * h * len(values)) / len(values)) ** 2 / (1 - 2 * h + squares)
        for s, h in zip(sums, shares, strict=True)
    )
    degrees = sum(h**power for h in shares) ** 2 / sum(h ** (2 * power) for h in shares) - 1
    return mean, stats.t.ppf(0.975, degrees) * math.sqrt(variance) * scale(mean), degrees


def test_a_difference_over_classes_of_other_sizes_by_loops(rng):
    a, b = rng.random(55) + 0.1, rng.random(55)
    found = intervals.paired_comparison(a, b, UNEVEN, ("a", "b"), 0.95)
    mean, half, degrees = by_loops(a - b, UNEVEN, 1, lambda _: 1)
    assert (found.difference, found.low, found.high) == pytest.approx((mean, mean - half, mean + half))
    smallest = half * (1 + stats.t.ppf(0.8, degrees) / stats.t.ppf(0.975, degrees))
    assert intervals.detectable(a, b, UNEVEN, 0.05) == pytest.approx(smallest)
    assert intervals.detectable(a, b, UNEVEN, 0.01) > smallest


def test_the_interval_of_a_mean_is_on_the_logit_scale_by_loops(rng):
    values = rng.random(55)
    mean, half, _ = by_loops(values, UNEVEN, 2, lambda mean: 1 / (mean * (1 - mean)))
    expected = [1 / (1 + math.exp(-(math.log(mean / (1 - mean)) + side * half))) for side in (-1, 1)]
    assert intervals.interval_of_mean(values, UNEVEN, 0.95) == pytest.approx(expected)
    low, high = intervals.interval_of_mean(10 * values, UNEVEN, 0.95)
    mean, half, _ = by_loops(10 * values, UNEVEN, 2, lambda _: 1)
    assert (low, high) == pytest.approx((mean - half, mean + half))


def test_the_squared_error_is_the_variance_over_all_signs_of_the_class_means():
    """Class means of -1 and 1, each as likely, have the variance 1, so the mean has that of sum_c h_c^2."""
    shares = np.bincount(UNEVEN) / len(UNEVEN)
    errors = [
        intervals._estimate(np.array(signs, float)[UNEVEN], UNEVEN).error
        for signs in itertools.product((-1, 1), repeat=8)
    ]
    assert np.mean(np.square(errors)) == pytest.approx((shares**2).sum())


def test_a_mean_of_0_or_1_has_an_interval_by_hand():
    assert intervals.interval_of_mean(np.ones(36), EVEN, 0.95) == pytest.approx((0.025 ** (1 / 9), 1))
    assert intervals.interval_of_mean(np.zeros(36), EVEN, 0.95) == pytest.approx((0, 1 - 0.025 ** (1 / 9)))


def test_few_classes_have_no_interval_and_no_small_p():
    labels = np.arange(5)
    assert np.isnan(intervals.interval_of_mean(labels / 5, labels, 0.95)).all()
    found = intervals.paired_comparison(np.ones(5), np.zeros(5), labels, ("a", "b"), 0.95)
    assert (found.difference, found.p) == (1, 2 / 2**5)
    assert np.isnan([found.low, found.high]).all()


def test_equal_models_have_p_1_and_excluded_queries_are_left_out(rng):
    values = rng.random(36)
    same = intervals.paired_comparison(values, values, EVEN, ("a", "b"), 0.95)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)
    more = np.append(values, np.nan)
    labels = np.append(EVEN, 9)
    assert intervals.interval_of_mean(more, labels, 0.95) == intervals.interval_of_mean(values, EVEN, 0.95)
    found = intervals.paired_comparison(more, 1 - more, labels, ("a", "b"), 0.95)
    assert (found.queries, found.classes) == (36, 9)
