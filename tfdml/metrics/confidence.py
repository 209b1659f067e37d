"""Confidence intervals of means over queries."""

import numpy as np
import numpy.typing as npt

from tfdml._checks import as_ids


def bootstrap(
    values: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    samples: int = 1000,
    average: str = "micro",
    seed: int = 0,
) -> tuple[float, float]:
    """Confidence interval of a mean over queries, by resampling whole classes.

    Queries of one class share their relevant items, so they are not independent; classes nearly are. Each sample draws
    C of the C classes with replacement and takes the mean over the queries of the drawn classes. The interval covers
    the middle `confidence` of these means (percentile bootstrap).

    Args:
        values: `(queries,)` floats, such as `retrieval(..., per_query=True)["map@r"]`. NaN marks a query that is
            excluded.
        labels: `(queries,)` integer class ids.
        confidence: share of the samples inside the interval, between 0 and 1.
        samples: number of samples.
        average: "micro", the mean over queries, or "macro", the mean over classes of the class means.
        seed: seed of the random draws; the same seed gives the same interval.

    Returns:
        `(low, high)`, floats.

    Raises:
        ValueError: fewer than two classes with values, different lengths, or an option out of range.

    Source: Efron, Bootstrap Methods: Another Look at the Jackknife, 1979; the classes are the sampling units, as in
    the cluster bootstrap of Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"Received values of shape {values.shape}, expected (queries,).")
    labels = as_ids(labels, "labels", len(values))
    require_average(average)
    if not 0 < confidence < 1 or samples < 1:
        raise ValueError(
            f"Received confidence={confidence} and samples={samples}, expected 0 < confidence < 1 <= samples."
        )
    sums, counts = class_sums(values, labels)
    if len(sums) < 2:
        raise ValueError(f"Received values of {len(sums)} classes, expected at least 2, because classes are resampled.")
    if average == "macro":
        sums, counts = sums / counts, np.ones(len(sums))
    draws = np.random.default_rng(seed).integers(len(sums), size=(samples, len(sums)), dtype=np.int32)
    means = [sums[draw].sum() / counts[draw].sum() for draw in draws]
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def mean_over_queries(values, labels, average):
    """Mean of the values that are not NaN: over queries ("micro"), or over classes of the class means ("macro").

    Args:
        values: `(queries,)`, not all of them NaN.
        labels: `(queries,)` int64.
        average: "micro" or "macro".

    Returns:
        a float.
    """
    if average == "micro":
        return float(values[~np.isnan(values)].mean())
    sums, counts = class_sums(values, labels)
    return float((sums / counts).mean())


def class_sums(values, labels):
    """Sum and number of the values of each class, without NaN: two arrays of `(classes that have values,)`."""
    kept = ~np.isnan(values)
    _, classes = np.unique(labels[kept], return_inverse=True)
    return np.bincount(classes, weights=values[kept]), np.bincount(classes)


def require_average(average):
    """Raises `ValueError` unless `average` is "micro" or "macro"."""
    if average not in ("micro", "macro"):
        raise ValueError(f"Received average={average!r}, expected 'micro' or 'macro'.")
