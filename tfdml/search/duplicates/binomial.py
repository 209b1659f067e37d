"""Exact bounds on a share that is estimated from independent trials."""

import math

import numpy as np

from tfdml._core.checks import require, require_whole

_STEPS = 60  # halvings of [0, 1]


def binomial_interval(successes: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """The Clopper-Pearson interval of a share: it holds the share with at least this probability.

    The lower bound solves P(X >= successes) = (1 - confidence) / 2, the upper one P(X <= successes) = (1 - confidence)
    / 2, where X is binomial. Without trials the interval is 0 to 1.

    Source: Clopper and Pearson, The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial,
    Biometrika 26, 1934.
    """
    require(0 < confidence < 1, f"confidence={confidence}", "a number between 0 and 1")
    tail = (1 - confidence) / 2
    low = binomial_lower_bound(successes, trials, confidence=1 - tail)
    return low, 1 - binomial_lower_bound(trials - successes, trials, confidence=1 - tail)


def binomial_lower_bound(successes: int, trials: int, *, confidence: float = 0.95) -> float:
    """The one-sided Clopper-Pearson bound: a share is above it with at least this probability; 0 without successes."""
    require_whole("trials", trials, 0)
    require_whole("successes", successes, 0, trials)
    require(0 < confidence < 1, f"confidence={confidence}", "a number between 0 and 1")
    if not successes:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _upper_tail(successes, trials, middle) > 1 - confidence else (middle, high)
    return low


def _upper_tail(successes, trials, share):
    """P(X >= successes) of a binomial X."""
    counts = np.arange(successes, trials + 1)
    logarithms = [math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in counts.tolist()]
    return np.exp(logarithms + counts * math.log(share) + (trials - counts) * math.log1p(-share)).sum()
