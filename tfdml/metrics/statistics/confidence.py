"""Confidence intervals of means over queries, and over training seeds."""

import math

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, require, require_one_of
from tfdml.typing import Labels

AVERAGES = ("micro", "macro")
_DRAWS = 1000  # Samples drawn at the same time.


def bootstrap_interval(
    values: npt.ArrayLike,
    labels: Labels,
    *,
    confidence: float = 0.95,
    samples: int = 1000,
    average: str = "micro",
    seed: int = 0,
) -> tuple[float, float]:
    """Confidence interval of a mean over queries, by resampling whole classes.

    Queries of one class share their relevant items, so they are not independent; classes nearly are. Each sample draws
    C of the C classes with replacement and takes the mean over the queries of the drawn classes. The interval covers
    the middle `confidence` of these means (percentile bootstrap). With fewer than about 20 classes it is too narrow.

    No sample leaves the range of the C class means. The median of all classes, of which C were drawn, lies above this
    range or below it with probability 2 / 2^C, so no interval inside has a confidence above 1 - 2 / 2^C. With fewer
    classes, such as 5 for 95%, there is no interval: both bounds are NaN.

    See also: `paired_comparison` for the difference of two models; `seed_interval` for several trainings.

    Example:

        >>> values, labels = [1.0, 1.0, 0.0, 1.0, 0.5, 0.5], [0, 0, 1, 1, 2, 2]
        >>> tfdml.metrics.bootstrap_interval(values, labels)  # three classes are too few for 95%
        (nan, nan)
        >>> tfdml.metrics.bootstrap_interval(values, labels, confidence=0.75)
        (0.5, 0.8333333333333334)

    Args:
        values: `(queries,)` floats, such as `retrieval(..., per_query=True)["map@r"]`. NaN marks a query that is
            excluded.
        labels: `(queries,)` integer class ids.
        confidence: share of the samples inside the interval, between 0 and 1.
        samples: number of samples.
        average: "micro", the mean over queries, or "macro", the mean over classes of the class means.
        seed: seed of the random draws; the same seed gives the same interval.

    Returns:
        `(low, high)`, floats; NaN with too few classes for the confidence.

    Source: Efron, Bootstrap Methods: Another Look at the Jackknife, 1979; the classes are the sampling units, as in
    the cluster bootstrap of Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8.
    """
    if not 0 < confidence < 1 or samples < 1:
        raise ValueError(
            f"Received confidence={confidence} and samples={samples}, expected 0 < confidence < 1 <= samples."
        )
    sums, counts = weighted_sums(values, labels, average)
    if len(sums) < least_classes(confidence):
        return math.nan, math.nan
    means = [sums[draw].sum() / counts[draw].sum() for draw in _draws(len(sums), samples, seed)]
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def least_classes(confidence: float = 0.95) -> int:
    """The least number of classes C with an interval of this confidence: 2 / 2^C is at most 1 - confidence."""
    return math.ceil(1 - math.log2(1 - confidence))


def seed_interval(values: npt.ArrayLike, *, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence interval of the mean over training seeds, by Student's t.

    With n values of mean m and standard deviation s (divisor n - 1), the interval is m - h to m + h,

        h = t s / sqrt(n),

    where t is the (1 + confidence) / 2 quantile of Student's t distribution with n - 1 degrees of freedom. It is the
    interval of the mean of many more seeds on the same test set. The difference of two methods that were trained with
    the same seeds is `seed_interval(numpy.subtract(a, b))`.

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
    require(0 < confidence < 1, f"confidence={confidence}", "a number between 0 and 1")
    from scipy import special

    t = special.stdtrit(len(values) - 1, (1 + confidence) / 2)
    mean, half_width = float(values.mean()), float(t * values.std(ddof=1) / len(values) ** 0.5)
    return mean - half_width, mean + half_width


def _draws(classes, samples, seed):
    rng = np.random.default_rng(seed)
    for start in range(0, samples, _DRAWS):
        yield from rng.integers(classes, size=(min(_DRAWS, samples - start), classes), dtype=np.int32)


def weighted_sums(values, labels, average):
    """Sum and weight of each class with values, at least one: sum(sums) / sum(weights) is the mean over queries."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"Received values of shape {values.shape}, expected (queries,).")
    labels = as_ids(labels, "labels", len(values))
    require_one_of(AVERAGES, average=average)
    sums, counts = class_sums(values, labels)
    require(len(sums) > 0, "values of no class", "one class at least")
    return (sums, counts) if average == "micro" else (sums / counts, np.ones(len(sums)))


def mean_over_queries(values, labels, average):
    """Mean of the values that are not NaN: over queries ("micro"), or over classes of the class means ("macro")."""
    if average == "micro":
        return float(values[~np.isnan(values)].mean())
    sums, counts = class_sums(values, labels)
    return float((sums / counts).mean())


def class_sums(values, labels):
    """Sum and number of the values of each class, without NaN: two arrays of `(classes that have values,)`."""
    has_value = ~np.isnan(values)
    _, classes = np.unique(labels[has_value], return_inverse=True)
    return np.bincount(classes, weights=values[has_value]), np.bincount(classes)
