"""The margin loss at its best boundary is isotonic regression: the smallest change that puts distances in order."""

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.backend import numbers
from tfdml import losses, pairs

MARGIN = 0.2


def smallest_change(positive, negative):
    """The linear program of Wu et al., section 4, by SciPy."""
    number = len(positive) + len(negative)
    changes, gaps = [], []
    for p, d_positive in enumerate(positive):
        for n, d_negative in enumerate(negative):
            changes.append(-np.eye(number)[p] - np.eye(number)[len(positive) + n])
            gaps.append(d_negative - d_positive - 2 * MARGIN)
    return linprog(np.ones(number), A_ub=np.array(changes), b_ub=gaps).fun


@pytest.mark.parametrize("seed", range(3))
def test_the_smallest_sum_of_hinges_over_boundaries_is_the_smallest_change(seed):
    labels = np.array([0, 0, 0, 1, 1, 1])
    x = np.random.default_rng(seed).standard_normal((6, 3)).astype("float32")
    made = pairs.all_pairs(labels, x)
    d = numbers(pairs.euclidean(pairs.normalized(made)))
    upper, same = np.triu(np.ones((6, 6), bool), 1), labels[:, None] == labels
    # The sum is piecewise linear in the boundary: its minimum is at an end of a hinge.
    ends = np.clip(np.concatenate([d[upper & same] + MARGIN, d[upper & ~same] - MARGIN]), 0, 2)
    sums = [
        numbers(losses.MarginLoss(margin=MARGIN, boundary=float(end)).pair_losses(made))[upper].sum() for end in ends
    ]
    assert min(sums) == pytest.approx(smallest_change(d[upper & same], d[upper & ~same]), rel=1e-4)
