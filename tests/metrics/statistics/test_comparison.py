"""Paired comparisons, intervals over seeds, Holm's correction, and tables per class."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tfdml.metrics import (
    bootstrap_interval,
    holm_correction,
    paired_comparison,
    per_class,
    retrieval,
    seed_interval,
)
from tfdml.metrics.statistics import comparison
from tfdml.metrics.statistics.comparison import Comparison


def simulated(rng, classes=60, difference=0.0):
    """Values of two models: hard and easy classes for both, and classes that suit one of them."""
    labels = np.repeat(np.arange(classes), rng.integers(2, 9, classes))
    both, suits = rng.normal(0, 0.3, classes)[labels], rng.normal(difference, 0.1, classes)[labels]
    noise = rng.normal(0, 0.1, (2, len(labels)))
    return both + suits + noise[0], both + noise[1], labels


# Two models.


def test_the_p_value_is_the_share_of_signs_by_hand():
    # Differences of the classes: 3, 1 and -1, sum 3. Sums under all signs: +-5, +-3 (twice each), +-1; 6 of 8 reach 3.
    found = paired_comparison([2, 1, 1, 0], [0, 0, 0, 1], [4, 4, 5, 6])
    assert (found.difference, found.p) == (3 / 4, 6 / 8)
    assert (found.queries, found.classes) == (4, 3)


def test_the_p_value_is_that_of_all_signs_in_a_loop():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(9), 3)
    a, b = rng.random(27) + 0.3, rng.random(27)
    for average in ("micro", "macro"):
        sums = [(a - b)[labels == c].sum() for c in range(9)]
        flipped = [
            abs(sum(s * v for s, v in zip(signs, sums, strict=True))) for signs in itertools.product((-1, 1), repeat=9)
        ]
        expected = sum(value >= abs(sum(sums)) - 1e-9 for value in flipped) / 2**9
        assert paired_comparison(a, b, labels, average=average).p == expected


def test_random_signs_come_close_to_all_of_them(monkeypatch):
    rng = np.random.default_rng(1)
    a, b, labels = simulated(rng, classes=12, difference=0.05)
    exact = paired_comparison(a, b, labels).p
    monkeypatch.setattr(comparison, "_SAMPLES", 4095)
    drawn = paired_comparison(a, b, labels).p
    assert exact != drawn
    assert drawn == pytest.approx(exact, abs=5 * (exact * (1 - exact) / 4095) ** 0.5)


def test_the_sign_test_is_that_of_scipy_for_classes_of_one_query():
    rng = np.random.default_rng(2)
    a, b = rng.random(11) + 0.1, rng.random(11)
    test = stats.permutation_test(
        (a, b),
        lambda x, y, axis: (x - y).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=2**12,
    )
    assert paired_comparison(a, b, np.arange(11)).p == pytest.approx(test.pvalue, abs=1e-12)


def test_the_interval_is_the_bootstrap_of_the_differences():
    a, b, labels = simulated(np.random.default_rng(3))
    for options in ({}, {"average": "macro", "confidence": 0.8, "seed": 4}):
        found = paired_comparison(a, b, labels, **options)
        assert (found.low, found.high) == bootstrap_interval(a - b, labels, samples=10_000, **options)
    assert found.difference == pytest.approx(np.mean([(a - b)[labels == c].mean() for c in range(60)]))


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
        ([1, 2], [1, 2], [0, 1], {"confidence": 1}, "0 < confidence < 1"),
        ([1, 2], [1, 2], [0, 1], {"average": "all"}, "one of 'micro', 'macro'"),
    ],
)
def test_wrong_values_are_refused_with_advice(a, b, labels, options, message):
    with pytest.raises(ValueError, match=message):
        paired_comparison(a, b, labels, **options)


# Coverage: 95% intervals cover the truth in 95% of 400 draws, within 3.5 standard errors of 1.1%.


def test_intervals_of_a_difference_cover_it_and_p_values_are_honest(monkeypatch):
    monkeypatch.setattr(comparison, "_SAMPLES", 200)
    rng = np.random.default_rng(6)
    found = [paired_comparison(*simulated(rng, difference=0.02)) for _ in range(400)]
    assert np.mean([one.low <= 0.02 <= one.high for one in found]) == pytest.approx(0.95, abs=0.038)
    null = [paired_comparison(*simulated(rng)).p <= 0.05 for _ in range(400)]
    assert np.mean(null) == pytest.approx(0.05, abs=0.038)


# Seeds.


@pytest.mark.parametrize("confidence", [0.95, 0.9])
def test_an_interval_over_seeds_is_that_of_scipy(confidence):
    values = np.random.default_rng(8).normal(size=7)
    expected = stats.ttest_1samp(values, 0).confidence_interval(confidence)
    np.testing.assert_allclose(seed_interval(values, confidence=confidence), expected)
    assert seed_interval(values) == seed_interval(values, confidence=0.95)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([0.5], {}, "at least two finite numbers, one per training run"),
        ([0.5, np.nan], {}, "finite"),
        ([[0.5, 0.6]], {}, "one per training run"),
        ([0.5, 0.6], {"confidence": 95}, "confidence=95, expected a number between 0 and 1"),
    ],
)
def test_wrong_seeds_are_refused_with_advice(values, options, message):
    with pytest.raises(ValueError, match=message):
        seed_interval(values, **options)


# Many comparisons.


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


# Classes.


def test_the_table_of_classes_has_the_worst_first_by_hand():
    values = {"map@r": [1, 0.5, np.nan, 0.25, np.nan, 0.75], "mrr": [1, 0, np.nan, 1, np.nan, 0.5]}
    rows = per_class(values, [7, 7, 7, -3, 5, 9])
    assert [list(row) for row in rows] == [["label", "queries", "skipped", "map@r", "mrr"]] * 4
    assert list(rows[0].values()) == [-3, 1, 0, 0.25, 1]
    assert list(rows[1].values()) == [7, 2, 1, 0.75, 0.5]  # As good as 9, which has the larger label.
    assert list(rows[2].values()) == [9, 1, 0, 0.75, 0.5]
    assert list(rows[3].values())[:3] == [5, 0, 1]
    assert np.isnan(rows[3]["map@r"])
    assert [row["label"] for row in per_class(values, [7, 7, 7, -3, 5, 9], by="mrr")] == [7, 9, -3, 5]


def test_the_mean_over_the_table_is_the_macro_average():
    rng = np.random.default_rng(10)
    x, labels = rng.normal(size=(60, 4)), rng.integers(0, 9, 60)
    rows = per_class(retrieval(x, labels, per_query=True), labels)
    for name, value in retrieval(x, labels, average="macro").items():
        expected = (
            np.mean([row[name] for row in rows])
            if name not in ("queries", "skipped")
            else sum(row[name] for row in rows)
        )
        assert value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "labels", "by", "message"),
    [
        ({"mrr": [1, 2]}, [0, 1], "map@r", "by='map@r', expected one of mrr"),
        ({"mrr": [1, 2]}, [0, 1, 2], "mrr", r"mrr of shape \(2,\), expected \(3,\)"),
        ({"mrr": [1, 2]}, [0.0, 1.0], "mrr", "expected integers"),
    ],
)
def test_wrong_tables_are_refused_with_advice(values, labels, by, message):
    with pytest.raises(ValueError, match=message):
        per_class(values, labels, by=by)
