"""Exact bounds on a share, estimated from independent trials, by Clopper and Pearson.

Source: Clopper and Pearson, The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial,
Biometrika 26, 1934.
"""


def binomial_interval(successes: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """An interval that holds a share with at least this probability; 0 to 1 without trials.

    The lower bound solves P(X >= successes) = (1 - confidence) / 2, the upper one P(X <= successes) = (1 - confidence)
    / 2, where X is binomial.
    """
    one_sided = (1 + confidence) / 2
    low = binomial_lower_bound(successes, trials, confidence=one_sided)
    return low, 1 - binomial_lower_bound(trials - successes, trials, confidence=one_sided)


def binomial_lower_bound(successes: int, trials: int, *, confidence: float = 0.95) -> float:
    """A share is above this bound with at least this probability; 0 without successes."""
    from scipy import special

    return float(special.betaincinv(successes, trials - successes + 1, 1 - confidence)) if successes else 0.0
