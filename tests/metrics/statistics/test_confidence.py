"""Bootstrap over classes."""

import numpy as np
import pytest

from tfdml.metrics import bootstrap_interval
from tfdml.metrics.statistics.confidence import _draws, least_classes


def test_equal_values_have_an_interval_of_no_width():
    assert bootstrap_interval([0.25] * 12, np.arange(12) // 2) == (0.25, 0.25)


def test_bounds_are_quantiles_of_the_means_of_drawn_classes():
    # The mean of three draws is 0 with a probability of 8/27, and 2/3 or more with one of 7/27.
    assert bootstrap_interval([0, 0, 0, 0, 1, 1], [5, 5, 7, 7, 9, 9], confidence=0.75) == (0, 2 / 3)


@pytest.mark.parametrize(("confidence", "least"), [(0.5, 2), (0.75, 3), (0.95, 6), (0.99, 8)])
def test_there_is_no_interval_where_the_range_of_the_classes_is_too_narrow_for_it(confidence, least):
    # The median of all classes is outside the range of C drawn ones with a probability of 2 / 2^C.
    values, options = np.random.default_rng(0).random(least), {"confidence": confidence}
    assert np.isfinite(bootstrap_interval(values, np.arange(least), **options)).all()
    if least > 2:
        assert np.isnan(bootstrap_interval(values[1:], np.arange(least - 1), **options)).all()
    assert least == least_classes(confidence)


def test_interval_of_a_mean_has_the_width_that_theory_gives():
    rng = np.random.default_rng(0)
    values = rng.normal(size=2000)
    low, high = bootstrap_interval(values, np.arange(2000), samples=4000)
    np.testing.assert_allclose((low + high) / 2, values.mean(), atol=0.005)
    np.testing.assert_allclose(high - low, 2 * 1.96 * values.std() / 2000**0.5, rtol=0.05)


def test_classes_that_move_together_widen_the_interval():
    rng = np.random.default_rng(0)
    values = np.repeat(rng.normal(size=100), 10)
    together, apart = (
        bootstrap_interval(values, np.repeat(np.arange(100), 10)),
        bootstrap_interval(values, np.arange(1000)),
    )
    assert together[1] - together[0] > 2.5 * (apart[1] - apart[0])


def test_skipped_queries_are_left_out_and_classes_can_weigh_the_same():
    values, labels = np.array([1, np.nan, 0, 0, 0, np.nan]), np.array([0, 0, 1, 1, 1, 2])
    assert bootstrap_interval(values, labels, confidence=1e-9) == (0.25, 0.25)
    assert bootstrap_interval(values, labels, confidence=1e-9, average="macro") == (0.5, 0.5)


@pytest.mark.parametrize("samples", [1, 1000, 1001, 2500])
def test_as_many_samples_are_drawn_as_are_asked_for(samples):
    assert np.stack(list(_draws(3, samples, 0))).shape == (samples, 3)


def test_the_seed_decides():
    values, labels = np.random.default_rng(0).normal(size=50), np.arange(50)
    assert bootstrap_interval(values, labels, seed=1) == bootstrap_interval(values, labels, seed=1)
    assert bootstrap_interval(values, labels, seed=1) != bootstrap_interval(values, labels, seed=2)


@pytest.mark.parametrize(
    ("values", "labels", "options", "message"),
    [
        ([np.nan, np.nan], [3, 4], {}, "values of no class"),
        ([1.0, 2.0], [3, 4, 5], {}, "one id per row"),
        ([[1.0], [2.0]], [3, 4], {}, r"expected \(queries,\)"),
        ([1.0, 2.0], [3, 4], {"confidence": 1.0}, "confidence"),
        ([1.0, 2.0], [3, 4], {"samples": 0}, "samples"),
        ([1.0, 2.0], [3, 4], {"average": "mean"}, "one of 'micro', 'macro'"),
    ],
)
def test_wrong_input_is_refused_with_advice(values, labels, options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(values, labels, **options)
