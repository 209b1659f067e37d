"""The study of drift: what it draws."""

import numpy as np
import pytest

from studies import drift


@pytest.mark.parametrize("level", drift.LEVELS)
def test_a_stream_has_its_shift_and_its_weekends(level):
    rng = np.random.default_rng(0)
    before, now = drift.draw(rng, level, 700, 0.05)
    assert now["score"].mean() - before["score"].mean() == pytest.approx(-0.05, abs=0.005)
    assert len(np.unique(before["time"])) == 700
    is_weekend = (before["time"] - np.datetime64("2026-03-02")).astype(int) % 7 >= 5
    falls = before["score"][~is_weekend].mean() - before["score"][is_weekend].mean()
    assert falls == pytest.approx(drift.WEEKEND if level == "weekends" else 0, abs=0.003)
    np.testing.assert_array_equal(before["unknown"], before["score"] < -drift.UNKNOWN)
