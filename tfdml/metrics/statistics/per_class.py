"""Metrics per class."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, require
from tfdml.metrics.statistics.intervals import class_sums
from tfdml.typing import Labels


def per_class(values: Mapping[str, npt.ArrayLike], labels: Labels, *, by: str = "map@r") -> list[dict[str, Any]]:
    """Table of the mean metrics of each class, the worst class first.

    The mean over the rows is the metric with `average="macro"`. Means of few queries are uncertain: the minimum over
    many classes is biased low by chance.

    Example:

        >>> values = {"mrr": [1.0, 0.5, 0.25, np.nan]}  # of four queries; the last one was skipped
        >>> for row in tfdml.metrics.per_class(values, labels=[0, 0, 1, 1], by="mrr"):
        ...     print(row)
        {'label': 1, 'queries': 1, 'skipped': 1, 'mrr': 0.25}
        {'label': 0, 'queries': 2, 'skipped': 0, 'mrr': 0.75}

    Args:
        values: `(queries,)` floats by name, as `retrieval(..., per_query=True)` returns them; NaN for a skipped query.
        labels: `(queries,)` integer class ids; with `retrieval(..., queries=mask)`, the labels of the queries.
        by: the metric that orders the table.

    Returns:
        A list of dicts, one per class: "label", "queries", the number of queries with values, "skipped", the number
        without, and the mean of each metric, NaN if it has no other queries. Classes follow in ascending order of `by`
        and then of label, those with NaN last.
    """
    require(by in values, f"by={by!r}", f"one of {', '.join(values)}")
    labels = as_ids(labels, "labels")
    columns = {name: np.asarray(column, np.float64) for name, column in values.items()}
    for name, column in columns.items():
        require(column.shape == labels.shape, f"{name} of shape {column.shape}", f"{labels.shape}: one value per label")
    ids, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    queries = np.bincount(codes, weights=~np.isnan(columns[by])).astype(int)
    means = {name: _class_means(column, codes, len(ids)) for name, column in columns.items()}
    return [
        {
            "label": int(ids[i]),
            "queries": int(queries[i]),
            "skipped": int(counts[i] - queries[i]),
            **{name: float(column[i]) for name, column in means.items()},
        }
        for i in np.argsort(means[by], kind="stable")
    ]


def _class_means(values, codes, classes):
    """Mean of the values of each class that are not NaN: `(classes,)`, NaN without any."""
    means = np.full(classes, np.nan)
    sums, counts = class_sums(values, codes)
    means[np.unique(codes[~np.isnan(values)])] = sums / counts
    return means
