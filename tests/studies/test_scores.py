"""The study of scores: halves without a common class, and errors of probabilities that are known."""

import numpy as np
import pytest

from studies import scores
from tfdml import metrics
from tfdml.metrics.calibration import Outcomes


def test_the_halves_have_no_class_in_common_and_all_rows():
    _, labels = scores.clusters(classes=11)
    first, second = scores.halves(labels, 0)
    assert not set(labels[first]) & set(labels[second])
    assert sorted([*first, *second]) == list(range(88))
    assert scores.halves(labels, 1)[0].tolist() != first.tolist()


def test_errors_are_those_of_the_truth():
    curve, ones = (np.log(0.25), np.log(4)), (1.0, 1.0)  # a fifth and four fifths, at even odds
    facts = {"prior": 0.5, "metric": "cosine", "model": None, "pairs": 2, "classes": 2}
    calibration = metrics.ScoreCalibration(scores=(0.0, 1.0), ratio=(curve,) * 3, rank_1=(ones,) * 3, **facts)
    same = np.tile([1, 0, 0, 0, 0, 1, 1, 1, 1, 0], 40).astype(bool)
    outcomes = Outcomes(np.tile(np.repeat([0.0, 1.0], 5), 40), same, np.arange(400))
    row = scores.measured(calibration, outcomes, 0.5)
    assert row["ece"] < 0.01
    assert row["brier"] == pytest.approx(0.16)
    assert row["of_truth"] > row["ece"]
    # At ten times the odds, a fifth becomes 2.5 / 3.5, and four fifths 40 / 41.
    assert row["ece_high"] == pytest.approx((2.5 / 3.5 - 0.2 + 40 / 41 - 0.8) / 2, abs=0.01)
    assert not any(name.startswith(("score", "right")) for name in row)  # no score is right in 90 of 100 cases
