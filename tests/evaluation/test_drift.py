"""Drift of searches: by Welch's test over days, and by what people get wrong."""

import re

import numpy as np
import pytest
from scipy import stats

from tfdml import evaluation

DAYS = np.arange("2026-03-02", "2026-03-16", dtype="datetime64[D]")


def stretch(days, sizes, seed=0, shift=0.0):
    """A table of searches of some days, so many of each."""
    rng = np.random.default_rng(seed)
    times = [f"{day}T12:00:00+00:00" for day, size in zip(days, sizes, strict=True) for _ in range(size)]
    level = np.repeat(0.02 * rng.standard_normal(len(days)), sizes)
    score = 0.8 + shift + level + 0.1 * rng.standard_normal(len(times))
    return {"time": times, "score": score, "unknown": (score < 0.7).astype(int)}


def test_over_days_of_one_size_it_is_the_test_of_welch_on_the_means_of_days():
    before, now = stretch(DAYS[:8], [20] * 8), stretch(DAYS[8:], [20] * 6, seed=1, shift=0.02)
    found = evaluation.drift(before, now)
    expected = {}
    for column in ("score", "unknown"):
        means = [np.asarray(table[column]).reshape(-1, 20).mean(axis=1) for table in (now, before)]
        expected[column] = stats.ttest_ind(*means, equal_var=False)
    score, unknown = found.shifts
    interval = expected["score"].confidence_interval(0.95)
    np.testing.assert_allclose((score.low, score.high), (interval.low, interval.high), rtol=1e-9)
    smaller, larger = sorted(result.pvalue for result in expected.values())
    np.testing.assert_allclose(sorted([score.p, unknown.p]), [2 * smaller, max(2 * smaller, larger)], rtol=1e-9)
    assert (found.days, found.searches) == ((8, 6), (160, 120))


def test_what_has_moved_is_named_and_what_has_not_is_not():
    before = stretch(DAYS[:7], [30] * 7)
    same, lower = (stretch(DAYS[7:], [10, 50, 30, 20, 40, 30, 30], seed=1, shift=shift) for shift in (0, -0.1))
    assert evaluation.drift(before, same).moved == ()
    assert evaluation.drift(before, lower).moved == ("score", "unknown")
    assert str(evaluation.drift(before, lower)).endswith("Moved: score, unknown.")
    assert "Searches: 210 of 7 days, now 210 of 7 days." in str(evaluation.drift(before, same))


def test_a_value_that_is_missing_is_left_out():
    before, now = stretch(DAYS[:7], [30] * 7), stretch(DAYS[7:], [30] * 7, seed=1)
    texts = {name: [str(value) for value in values] for name, values in now.items()}
    texts["unknown"][::2] = [""] * 105
    now["unknown"] = np.where(np.arange(210) % 2, now["unknown"], np.nan)
    assert evaluation.drift(before, texts) == evaluation.drift(before, now)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": None}, "columns ['time', 'unknown']"),
        ({"time": ["yesterday"] * 60}, "Leave other columns out"),
        ({"score": ["high"] * 60}, "could not convert string to float: 'high'"),
        ({"score": [0.5]}, "'score': 1"),
        ({"time": ["2026-03-02"] * 60}, "'score' on 1 days of the current stretch"),
        ({"unknown": [np.nan] * 60}, "'unknown' on 0 days of the current stretch"),
    ],
)
def test_a_wrong_table_is_named(change, message):
    before = stretch(DAYS[:3], [20] * 3)
    now = {name: values for name, values in (before | change).items() if values is not None}
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluation.drift(before, now)
    with pytest.raises(ValueError, match="confidence=1"):
        evaluation.drift(before, before, confidence=1)
    with pytest.raises(ValueError, match="time, and numbers"):
        evaluation.drift({"score": [1]}, {"score": [1]})
