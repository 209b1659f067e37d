"""Confidence intervals of means over queries, whose units are whole classes, and over training seeds: Student's t.

With class sums s_c, numbers of queries w_c, W = sum_c w_c and shares h_c = w_c / W, the mean is m = sum_c s_c / W, and

    se^2 = sum_c ((s_c - m w_c) / W)^2 / (1 - 2 h_c + H),   H = sum_c h_c^2,

which is unbiased where the means of all classes have one variance. studies/judge.py measures the intervals.

Sources: Imbens and Kolesár, Robust Standard Errors in Small Samples, Review of Economics and Statistics, 2016, for the
degrees of freedom; Kish, Survey Sampling, 1965, for 1 / H, the effective number of classes; Korn and Graubard, Analysis
of Health Surveys, 1999, for the logit scale.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, require, require_one_of
from tfdml.typing import Labels

AVERAGES = ("micro", "macro")


def class_interval(
    values: npt.ArrayLike, labels: Labels, *, confidence: float = 0.95, average: str = "micro"
) -> tuple[float, float]:
    """Confidence interval of a mean over queries, by Student's t over classes.

    Queries of one class share their relevant items, so they are not independent; classes nearly are. With shares h_c of
    the queries and the standard error se of the mean m, the interval is m - h to m + h,

        h = t se,   (sum_c h_c^2)^2 / sum_c h_c^4 - 1 degrees of freedom.

    Values in [0, 1] have the interval of log(m / (1 - m)): it stays in [0, 1]. Where all of C classes have the mean 1,
    a true mean below (a / 2)^(1 / C), a = 1 - confidence, would show that with probability a / 2 at most.

    With fewer than `1 - log2(1 - confidence)` classes, such as 5 for 95%, there is no interval: both bounds are NaN.
    docs/compare.md has the measured coverage.

    See also: `paired_comparison` for the difference of two models; `seed_interval` for several trainings.

    Example: six classes; half of them have the mean 1.

        >>> low, high = tfdml.metrics.class_interval([1, 0, 1, 0, 1, 0], labels=[0, 1, 2, 3, 4, 5])
        >>> round(low, 2), round(high, 2)
        (0.09, 0.91)
        >>> tfdml.metrics.class_interval([1, 0, 1], labels=[0, 1, 2])  # three classes are too few for 95%
        (nan, nan)

    Args:
        values: `(queries,)` floats, such as `retrieval(..., per_query=True)["map@r"]`. NaN marks an excluded query.
        labels: `(queries,)` integer class ids.
        confidence: between 0 and 1.
        average: "micro", the mean over queries, or "macro", the mean over classes of the class means.

    Returns:
        `(low, high)`, floats; NaN with too few classes for the confidence.
    """
    require_confidence(confidence)
    values = np.asarray(values, np.float64)
    mean, error, shares = estimate(values, as_ids(labels, "labels", len(values)), average)
    if len(shares) < least_classes(confidence):
        return math.nan, math.nan
    is_share = np.nanmin(values) >= 0 and np.nanmax(values) <= 1
    if is_share and mean in (0, 1):
        low = ((1 - confidence) / 2) ** (1 / len(shares))
        return (low, 1.0) if mean else (0.0, 1 - low)
    half = student_quantile((shares**2).sum() ** 2 / (shares**4).sum() - 1, (1 + confidence) / 2) * error
    if not is_share:
        return float(mean - half), float(mean + half)
    center, half = np.log(mean / (1 - mean)), half / (mean * (1 - mean))
    low, high = 1 / (1 + np.exp(-center + half * np.array([1, -1])))
    return float(low), float(high)


def seed_interval(values: npt.ArrayLike, *, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence interval of the mean over training seeds, by Student's t.

    With n values of mean m and standard deviation s (divisor n - 1), the interval is m - h to m + h,

        h = t s / sqrt(n),

    where t is the (1 + confidence) / 2 quantile of Student's t distribution with n - 1 degrees of freedom. It is the
    interval of the mean of many more seeds on the same test set. The difference of two methods with the same training
    seeds is `seed_interval(numpy.subtract(a, b))`.

    Example: m = 3, s^2 = 2.5, and t = 2.776 for 4 degrees of freedom.

        >>> low, high = tfdml.metrics.seed_interval([1, 2, 3, 4, 5])
        >>> round(low, 2), round(high, 2)
        (1.04, 4.96)

    Args:
        values: `(seeds,)` floats, one number per training run, such as its `map@r`.
        confidence: between 0 and 1.

    Source: Student, The Probable Error of a Mean, Biometrika, 1908.
    """
    values = np.asarray(values, dtype=np.float64)
    is_valid = values.ndim == 1 and len(values) > 1 and bool(np.isfinite(values).all())
    require(
        is_valid, f"values {values.tolist()}", "at least two finite numbers, one per training run. Train more seeds"
    )
    require_confidence(confidence)
    half = student_quantile(len(values) - 1, (1 + confidence) / 2) * values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean() - half), float(values.mean() + half)


def require_confidence(confidence: float) -> None:
    """Raise a ValueError unless this is between 0 and 1."""
    require(0 < confidence < 1, f"confidence={confidence}", "a number between 0 and 1")


def least_classes(confidence: float = 0.95) -> int:
    """The least number of classes C with an interval of this confidence: 2 / 2^C is at most 1 - confidence.

    The median of all classes lies outside the range of C drawn classes with probability 2 / 2^C.
    """
    return math.ceil(1 - math.log2(1 - confidence))


class Estimate(NamedTuple):
    """A mean over queries, its standard error, and the shares `(classes,)` of the queries."""

    mean: float
    error: float
    shares: np.ndarray


def estimate(values: np.ndarray, units: np.ndarray, average: str = "micro") -> Estimate:
    """The `Estimate` of values `(queries,)`; each unit is one query, its mean, with the average "macro"."""
    require(values.ndim == 1, f"values of shape {values.shape}", "(queries,)")
    require_one_of(AVERAGES, average=average)
    sums, counts = class_sums(values, units)
    require(len(sums) > 0, "values of no class", "one class at least")
    if average == "macro":
        sums, counts = sums / counts, np.ones(len(sums))
    shares, mean = counts / counts.sum(), sums.sum() / counts.sum()
    residuals = (sums - mean * counts) / counts.sum()
    with np.errstate(divide="ignore", invalid="ignore"):  # one class has no error
        variance = (residuals**2 / (1 - 2 * shares + (shares**2).sum())).sum()
    return Estimate(float(mean), float(np.sqrt(variance)), shares)


def student_quantile(degrees: float, share: float) -> float:
    """The quantile of Student's t distribution, with one degree of freedom at least."""
    from scipy import special

    return float(special.stdtrit(max(degrees, 1), share))


def mean_over_queries(values: np.ndarray, labels: np.ndarray, average: str) -> float:
    """Mean of the values that are not NaN: over queries ("micro"), or over classes of the class means ("macro")."""
    if average == "micro":
        return float(values[~np.isnan(values)].mean())
    sums, counts = class_sums(values, labels)
    return float((sums / counts).mean())


def class_sums(values: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the values of each class, without NaN: two arrays of `(classes that have values,)`."""
    has_value = ~np.isnan(values)
    _, classes = np.unique(labels[has_value], return_inverse=True)
    return np.bincount(classes, weights=values[has_value]), np.bincount(classes)
