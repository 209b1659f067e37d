"""Sets of points with equal NMI, F1 and Recall@1."""

import numpy as np
import pytest

from studies import equal_scores


@pytest.mark.parametrize("gap", equal_scores.GAPS)
def test_three_scores_are_perfect_and_map_at_r_is_the_mean_over_points_by_hand(gap):
    x, labels = equal_scores.points(gap)
    distances = np.linalg.norm(x[:, None] - x, axis=-1)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : equal_scores.SIDE**2 - 1]
    relevant = labels[nearest] == labels[:, None]
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    found = equal_scores.scores(gap)
    assert [round(found[name], 12) for name in ("NMI", "F1", "Recall@1")] == [1, 1, 1]
    assert found["MAP@R"] == pytest.approx(np.mean(precision * relevant), abs=2e-3)  # ties are broken otherwise
