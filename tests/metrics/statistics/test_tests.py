"""Comparisons of two models over classes, and Holm's correction: SciPy, loops over the equations, laws."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.metrics.statistics.test_intervals import EVEN, UNEVEN, by_loops
from tfdml.metrics import holm_correction, paired_comparison
from tfdml.metrics.statistics.tests import Comparison, detectable


def simulated(rng, classes=60, difference=0.0):
    """Values of two models: hard and easy classes for both, and classes that suit one of them."""
    labels = np.repeat(np.arange(classes), rng.integers(2, 9, classes))
    both, suits = rng.normal(0, 0.3, classes)[labels], rng.normal(difference, 0.1, classes)[labels]
    noise = rng.normal(0, 0.1, (2, len(labels)))
    return both + suits + noise[0], both + noise[1], labels


def test_a_difference_over_classes_of_one_size_is_the_t_test_of_their_means():
    rng = np.random.default_rng(0)
    a, b = rng.random(36) + 0.2, rng.random(36)
    found = paired_comparison(a, b, EVEN, names=("a", "b"), confidence=0.9)
    test = stats.ttest_1samp((a - b).reshape(9, 4).mean(axis=1), 0)
    assert found.p == pytest.approx(test.pvalue)
    assert (found.low, found.high) == pytest.approx(test.confidence_interval(0.9))
    assert (found.queries, found.classes, found.names) == (36, 9, ("a", "b"))


def test_a_difference_over_classes_of_other_sizes_by_loops():
    rng = np.random.default_rng(0)
    a, b = rng.random(55) + 0.1, rng.random(55)
    found = paired_comparison(a, b, UNEVEN)
    mean, half, degrees = by_loops(a - b, UNEVEN, 1)
    assert (found.difference, found.low, found.high) == pytest.approx((mean, mean - half, mean + half))
    smallest = half * (1 + stats.t.ppf(0.8, degrees) / stats.t.ppf(0.975, degrees))
    assert detectable(a, b, UNEVEN, 0.05) == pytest.approx(smallest)
    assert detectable(a, b, UNEVEN, 0.01) > smallest
    means = [(a - b)[label == UNEVEN].mean() for label in range(8)]
    macro = paired_comparison(a, b, UNEVEN, average="macro")
    assert (macro.low, macro.high) == pytest.approx(stats.ttest_1samp(means, 0).confidence_interval(0.95))


def test_a_model_is_no_better_than_itself_and_the_order_only_changes_the_sign():
    a, b, labels = simulated(np.random.default_rng(5), difference=0.05)
    same = paired_comparison(a, a, labels)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)
    one, other = paired_comparison(a, b, labels), paired_comparison(b, a, labels)
    assert (other.difference, other.p) == (-one.difference, one.p)
    np.testing.assert_allclose((other.low, other.high), (-one.high, -one.low))


def test_skipped_queries_are_left_out():
    a, b, labels = [1, 0, np.nan, 1, np.nan], [0, 0, np.nan, 0, np.nan], [1, 1, 1, 2, 3]
    found = paired_comparison(a, b, labels)
    assert (found.difference, found.queries, found.classes) == (2 / 3, 3, 2)


def test_a_comparison_reads_as_a_sentence():
    numbers = {"difference": 0.016, "p": 0.00042, "confidence": 0.95, "queries": 600, "classes": 100}
    of = {"names": ("large", "small"), **numbers}
    about = "(95% interval, p = 0.00042, 600 queries of 100 classes)."
    assert str(Comparison(low=0.012, high=0.02, **of)) == f"large is better than small by 1.2 to 2.0 points {about}"
    assert str(Comparison(low=-0.02, high=-0.012, **of)) == f"small is better than large by 1.2 to 2.0 points {about}"
    expected = f"large and small cannot be told apart: large - small is -0.3 to 2.0 points {about}"
    assert str(Comparison(low=-0.003, high=0.02, **of)) == expected


def test_a_comparison_that_many_others_stand_beside_claims_less():
    of = {"names": ("A", "B"), "difference": 0.016, "confidence": 0.95, "queries": 600, "classes": 100}
    alone = Comparison(low=0.012, high=0.02, p=0.03, **of)
    assert "A is better than B by 1.2 to 2.0 points (95% interval, p = 0.03," in str(alone)
    (adjusted, _) = holm_correction([alone.p, 0.4])
    assert "cannot be told apart: A - B is 1.2 to 2.0 points (95% interval, p = 0.06," in str(
        replace(alone, p=adjusted)
    )


def test_a_comparison_of_too_few_classes_has_no_interval_and_claims_nothing():
    few = paired_comparison([1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [0, 1, 2, 3, 4], names=("large", "small"))
    assert (few.difference, few.p) == (1, 2 / 32)
    assert np.isnan([few.low, few.high]).all()
    expected = "large and small cannot be told apart: a 95% interval needs 6 classes or more, and there are 5."
    assert str(few) == expected


@pytest.mark.parametrize(
    ("a", "b", "labels", "options", "message"),
    [
        ([1, 2], [1, 2, 3], [0, 1], {}, r"shapes \(2,\) and \(3,\), expected values of the same queries"),
        ([1, np.nan], [1, 2], [0, 1], {}, "1 and 0 queries with NaN"),
        ([1, np.nan], [np.nan, 2], [0, 1], {}, "not the same ones"),
        ([1, 2], [1, 2], [0, 0], {}, "values of one class, expected two classes at least"),
        ([1, 2], [1, 2], [0, 1, 2], {}, "one id per row"),
        ([[1], [2]], [[1], [2]], [0, 1], {}, r"expected \(queries,\)"),
        ([1, 2], [1, 2], [0, 1], {"confidence": 1}, "confidence=1, expected a number between 0 and 1"),
        ([1, 2], [1, 2], [0, 1], {"average": "all"}, "one of 'micro', 'macro'"),
    ],
)
def test_wrong_values_are_refused_with_advice(a, b, labels, options, message):
    with pytest.raises(ValueError, match=message):
        paired_comparison(a, b, labels, **options)


def test_intervals_of_a_difference_cover_it_and_p_values_are_honest():
    """Within 3.5 standard errors of 400 sets."""
    rng = np.random.default_rng(6)
    found = [paired_comparison(*simulated(rng, difference=0.02)) for _ in range(400)]
    assert np.mean([one.low <= 0.02 <= one.high for one in found]) == pytest.approx(0.95, abs=0.038)
    null = [paired_comparison(*simulated(rng)).p <= 0.05 for _ in range(400)]
    assert np.mean(null) == pytest.approx(0.05, abs=0.038)


def test_holms_correction_by_hand():
    # In ascending order 0.01 x 4, 0.02 x 3, 0.03 x 2 and 0.5 x 1; the third is raised to the second's 0.06.
    np.testing.assert_allclose(holm_correction([0.03, 0.01, 0.5, 0.02]), [0.06, 0.04, 0.5, 0.06])
    np.testing.assert_allclose(holm_correction([0.9, 0.6]), [1, 1])
    assert holm_correction([0.2]) == [0.2]
    assert holm_correction([]).shape == (0,)


def test_holms_correction_rejects_what_the_stepwise_procedure_rejects():
    rng = np.random.default_rng(9)
    for p in rng.random((50, 6)) ** 4:
        rejected = set()
        for i, j in enumerate(np.argsort(p)):
            if p[j] > 0.05 / (6 - i):
                break
            rejected.add(j)
        assert set(np.flatnonzero(holm_correction(p) <= 0.05)) == rejected


@pytest.mark.parametrize("p", [[0.5, 1.1], [-0.1], [np.nan], [[0.5]], 0.5])
def test_wrong_p_values_are_refused(p):
    with pytest.raises(ValueError, match="numbers from 0 to 1"):
        holm_correction(p)
