"""Intervals and tests of means over queries, with whole classes as the units: Student's t.

With class sums s_c, numbers of queries w_c, W = sum_c w_c and shares h_c = w_c / W, the mean is m = sum_c s_c / W, and

    se^2 = sum_c ((s_c - m w_c) / W)^2 / (1 - 2 h_c + H),   H = sum_c h_c^2,

which is unbiased where the means of all classes have one variance. studies/judge.py measures the intervals below.

Sources: Imbens and Kolesár, Robust Standard Errors in Small Samples, Review of Economics and Statistics, 2016, for the
degrees of freedom; Kish, Survey Sampling, 1965, for 1 / H, the effective number of classes; Korn and Graubard, Analysis
of Health Surveys, 1999, for the logit scale.
"""

from typing import NamedTuple

import numpy as np

from tfdml.metrics.statistics.comparison import Comparison
from tfdml.metrics.statistics.confidence import class_sums, least_classes

_POWER = 0.8


class _Estimate(NamedTuple):
    """A mean over queries, its standard error, and the shares `(classes,)` of the queries."""

    mean: float
    error: float
    shares: np.ndarray


def _estimate(values, labels):
    sums, counts = class_sums(values, labels)
    shares, mean = counts / counts.sum(), sums.sum() / counts.sum()
    residuals = (sums - mean * counts) / counts.sum()
    variance = (residuals**2 / (1 - 2 * shares + (shares**2).sum())).sum()
    return _Estimate(float(mean), float(np.sqrt(variance)), shares)


def interval_of_mean(values: np.ndarray, labels: np.ndarray, confidence: float) -> tuple[float, float]:
    """The interval of a mean; NaN with fewer classes than `least_classes`.

    The degrees of freedom are (sum_c h_c^2)^2 / sum_c h_c^4 - 1: classes differ by more than their queries do. Values
    in [0, 1] have the interval of log(m / (1 - m)), which stays in [0, 1]. Where all of C classes have the mean 1, a
    true mean below (a / 2)^(1 / C), a = 1 - confidence, would show that with probability a / 2 at most.
    """
    mean, error, shares = _estimate(values, labels)
    if len(shares) < least_classes(confidence):
        return np.nan, np.nan
    is_share = np.nanmin(values) >= 0 and np.nanmax(values) <= 1
    if is_share and mean in (0, 1):
        low = ((1 - confidence) / 2) ** (1 / len(shares))
        return (low, 1.0) if mean else (0.0, 1 - low)
    half = _quantile((shares**2).sum() ** 2 / (shares**4).sum() - 1, (1 + confidence) / 2) * error
    if not is_share:
        return mean - half, mean + half
    center, half = np.log(mean / (1 - mean)), half / (mean * (1 - mean))
    low, high = 1 / (1 + np.exp(-center + half * np.array([1, -1])))
    return float(low), float(high)


def paired_comparison(
    a: np.ndarray, b: np.ndarray, labels: np.ndarray, names: tuple[str, str], confidence: float
) -> Comparison:
    """The mean difference of two models on the same queries, with its interval and p.

    The degrees of freedom are 1 / H - 1: differences vary by the query more than by the class. p is from the t test,
    but at least 2 / 2^C, the smallest that C classes allow where a difference and its negative are as likely.
    """
    mean, error, shares = _estimate(a - b, labels)
    degrees = 1 / (shares**2).sum() - 1
    half = _quantile(degrees, (1 + confidence) / 2) * error if len(shares) >= least_classes(confidence) else np.nan
    return Comparison(
        names=names,
        difference=mean,
        low=mean - half,
        high=mean + half,
        p=_p(mean, error, degrees, len(shares)),
        confidence=confidence,
        queries=int(np.count_nonzero(~np.isnan(a))),
        classes=len(shares),
    )


def difference_of_means(
    a: np.ndarray, b: np.ndarray, units: tuple[np.ndarray, np.ndarray], confidence: float
) -> tuple[float, float, float]:
    """The interval of the mean of b minus the mean of a, values of other queries and other units, and p.

    The degrees of freedom are Welch's, and 1 / H - 1 for each mean. p is at least 2 / 2^U for U units of both.
    """
    estimates = [_estimate(*side) for side in zip((a, b), units, strict=True)]
    error = np.hypot(*(estimate.error for estimate in estimates))
    freedoms = [1 / (estimate.shares**2).sum() - 1 for estimate in estimates]
    ratios = [(estimate.error / error) ** 4 for estimate in estimates] if error > 0 else freedoms
    degrees = 1 / sum(ratio / freedom for ratio, freedom in zip(ratios, freedoms, strict=True))
    difference, half = estimates[1].mean - estimates[0].mean, _quantile(degrees, (1 + confidence) / 2) * error
    p = _p(difference, error, degrees, sum(len(estimate.shares) for estimate in estimates))
    return difference - half, difference + half, p


def _p(mean, error, degrees, classes):
    from scipy import special

    if mean == 0:
        return 1.0
    t = abs(mean) / error if error > 0 else np.inf
    return float(max(2 * special.stdtr(max(degrees, 1), -t), 2.0 ** (1 - classes)))


def detectable(a: np.ndarray, b: np.ndarray, labels: np.ndarray, level: float) -> float:
    """The smallest difference that a test at this level sees with 80% power, where it varies as a - b does.

    (t_(1 - level / 2) + t_0.8) se. At this difference the mean exceeds the bound of the test in four of five sets.
    """
    _, error, shares = _estimate(a - b, labels)
    degrees = 1 / (shares**2).sum() - 1
    return float((_quantile(degrees, 1 - level / 2) + _quantile(degrees, _POWER)) * error)


def _quantile(degrees, share):
    from scipy import special

    return special.stdtrit(max(degrees, 1), share)
