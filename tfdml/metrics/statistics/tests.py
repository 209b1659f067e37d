"""Tests of differences of means over queries, whose units are whole classes, and Holm's correction."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, require
from tfdml.metrics.statistics.intervals import (
    Estimate,
    estimate,
    least_classes,
    require_confidence,
    student_quantile,
)
from tfdml.typing import Labels

_POWER = 0.8


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The difference of two models on the same queries. `print` shows it as a sentence.

    The sentence calls one model better if the interval does not contain 0 and p is at most 1 - confidence. For one of
    several comparisons, replace p by the adjusted value: `dataclasses.replace(comparison, p=adjusted)`, see
    `holm_correction`.

    Attributes:
        names: names of the two models.
        difference: mean of the first model minus mean of the second.
        low, high: confidence interval of the difference; NaN with too few classes for one.
        p: p-value of the difference, two-sided.
        confidence: confidence of the interval.
        queries, classes: numbers of queries and of classes with values.
    """

    names: tuple[str, str]
    difference: float
    low: float
    high: float
    p: float
    confidence: float
    queries: int
    classes: int

    @property
    def better(self) -> str:
        """The name of the better model; empty where the two cannot be told apart."""
        if self.p > 1 - self.confidence or not (self.low > 0 or self.high < 0):
            return ""
        return self.names[0 if self.low > 0 else 1]

    def __str__(self) -> str:
        """A sentence; one point is 0.01."""
        first, second = self.names
        interval = f"{100 * self.confidence:g}% interval"
        details = f"({interval}, p = {self.p:.2g}, {self.queries} queries of {self.classes} classes)"
        if np.isnan(self.low):
            least = f"a {interval} needs {least_classes(self.confidence)} classes or more"
            return f"{first} and {second} cannot be told apart: {least}, and there are {self.classes}."
        if not self.better:
            difference = f"{first} - {second} is {_points(self.low, self.high)}"
            return f"{first} and {second} cannot be told apart: {difference} {details}."
        if self.better == first:
            return f"{first} is better than {second} by {_points(self.low, self.high)} {details}."
        return f"{second} is better than {first} by {_points(-self.high, -self.low)} {details}."


def _points(low, high):
    return f"{100 * low:.1f} to {100 * high:.1f} points"


def paired_comparison(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    labels: Labels,
    *,
    names: tuple[str, str] = ("A", "B"),
    confidence: float = 0.95,
    average: str = "micro",
) -> Comparison:
    """Compare two models by their values on the same queries, by Student's t over classes.

    With the mean difference m, its standard error se as in `class_interval`, and H = sum_c h_c^2 of the shares of the
    queries, the interval is m - t se to m + t se, and p is the two-sided p-value of |m| / se. Both have 1 / H - 1
    degrees of freedom: differences vary by the query more than by the class. p is at least 2 / 2^C, the smallest that
    C classes allow where a difference and its negative are as likely.

    Both cover another choice of test classes, not other training seeds: a comparison of methods needs several seeds of
    each, see `seed_interval`. With fewer than 6 classes there is no 95% interval. docs/compare.md has the measured
    coverage and power.

    Example:

        >>> a, b = [0.9, 0.8, 0.7, 0.9, 0.8, 0.9], [0.5, 0.6, 0.5, 0.7, 0.6, 0.5]
        >>> comparison = tfdml.metrics.paired_comparison(a, b, labels=[0, 1, 2, 3, 4, 5])
        >>> round(comparison.difference, 4), comparison.p  # six classes allow no smaller p
        (0.2667, 0.03125)

    Args:
        a, b: `(queries,)` floats, such as `retrieval(..., per_query=True)["map@r"]` of two models on the same set. NaN
            marks an excluded query, in both.
        labels: `(queries,)` integer class ids.
        names: names of the two models.
        confidence, average: as in `class_interval`.

    Returns:
        `Comparison`. Equal values give a difference of 0, and p = 1.

    Raises:
        ValueError: NaN in one of the two only, or fewer than two classes with values.

    Source: Student, The Probable Error of a Mean, Biometrika, 1908; Kish, Survey Sampling, 1965, for 1 / H.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    require(a.shape == b.shape, f"values of shapes {a.shape} and {b.shape}", "values of the same queries")
    excluded = np.isnan(a)
    require(
        np.array_equal(excluded, np.isnan(b)),
        f"{excluded.sum()} and {np.isnan(b).sum()} queries with NaN, not the same ones",
        "NaN at the same queries. Evaluate both models with the same gallery and groups",
    )
    require_confidence(confidence)
    estimated = estimate(a - b, as_ids(labels, "labels", len(a)), average)
    classes = len(estimated.shares)
    require(classes > 1, "values of one class", "two classes at least, since classes are the units")
    half = np.nan
    if classes >= least_classes(confidence):
        half = student_quantile(_degrees(estimated), (1 + confidence) / 2) * estimated.error
    return Comparison(
        names=names,
        difference=estimated.mean,
        low=estimated.mean - half,
        high=estimated.mean + half,
        p=_p(estimated.mean, estimated.error, _degrees(estimated), classes),
        confidence=confidence,
        queries=int(np.count_nonzero(~excluded)),
        classes=classes,
    )


def difference_of_means(
    a: np.ndarray, b: np.ndarray, units: tuple[np.ndarray, np.ndarray], confidence: float
) -> tuple[float, float, float]:
    """The interval of the mean of b minus the mean of a, values of other queries and other units, and p.

    The degrees of freedom are Welch's, and 1 / H - 1 for each mean. p is at least 2 / 2^U for U units of both.
    """
    first, second = (estimate(*side) for side in zip((a, b), units, strict=True))
    error = float(np.hypot(first.error, second.error))
    freedoms = [_degrees(first), _degrees(second)]
    ratios = [(each.error / error) ** 4 for each in (first, second)] if error > 0 else freedoms
    degrees = 1 / sum(ratio / freedom for ratio, freedom in zip(ratios, freedoms, strict=True))
    difference, half = second.mean - first.mean, student_quantile(degrees, (1 + confidence) / 2) * error
    p = _p(difference, error, degrees, len(first.shares) + len(second.shares))
    return difference - half, difference + half, p


def detectable(a: np.ndarray, b: np.ndarray, labels: np.ndarray, level: float) -> float:
    """The smallest difference that a test at this level sees with 80% power, where it varies as a - b does.

    (t_(1 - level / 2) + t_0.8) se. At this difference the mean exceeds the bound of the test in four of five sets.
    """
    estimated = estimate(a - b, labels)
    degrees = _degrees(estimated)
    return (student_quantile(degrees, 1 - level / 2) + student_quantile(degrees, _POWER)) * estimated.error


def _degrees(estimated: Estimate) -> float:
    return float(1 / (estimated.shares**2).sum() - 1)


def _p(mean, error, degrees, classes):
    from scipy import special

    if mean == 0:
        return 1.0
    t = abs(mean) / error if error > 0 else np.inf
    return float(max(2 * special.stdtr(max(degrees, 1), -t), 2.0 ** (1 - classes)))


def holm_correction(p_values: npt.ArrayLike) -> np.ndarray:
    """Holm-adjusted p-values of several comparisons: they control the family-wise error rate.

    With m p-values in ascending order, p(1) to p(m), the i-th becomes max_{j <= i} min(1, (m - j + 1) p(j)). The
    comparisons may depend on each other.

    Example: the smallest of two p-values is doubled.

        >>> tfdml.metrics.holm_correction([0.2, 0.01]).tolist()
        [0.2, 0.02]

    Args:
        p_values: `(m,)` numbers from 0 to 1, of all comparisons that were made, not of the best ones only.

    Returns:
        `(m,)` float64 in the same order; empty for none.

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics, 1979.
    """
    p = np.asarray(p_values, np.float64)
    is_valid = p.ndim == 1 and bool(((p >= 0) & (p <= 1)).all())
    require(is_valid, f"p-values {p.tolist()}", "(m,) numbers from 0 to 1")
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(np.minimum(1, np.arange(len(p), 0, -1) * p[order]))
    return adjusted
