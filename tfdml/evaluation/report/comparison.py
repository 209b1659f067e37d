"""Comparison of an evaluation with others of the same queries."""

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from tfdml import metrics
from tfdml._core.checks import require
from tfdml.metrics.statistics.comparison import Comparison
from tfdml.metrics.statistics.confidence import least_classes


def paired_differences(evaluation: Any, baseline: Any) -> dict[str, Comparison]:
    """By metric, the mean difference of two evaluations of the same queries and its 95% interval over classes."""
    labels, values = evaluation.per_query.labels, baseline.per_query.values
    return {
        name: metrics.paired_comparison(x, values[name], labels, seed=evaluation.seed)
        for name, x in evaluation.per_query.values.items()
    }


def require_same_queries(evaluation: Any, baselines: Mapping[str, Any]) -> None:
    """Raise a ValueError that names the first baseline of another set, with other labels or with other metrics."""
    for name, baseline in baselines.items():
        require(isinstance(name, str) and name.strip() != "", f"a baseline with the name {name!r}", "text")
        received = f"baselines[{name!r}] of type {type(baseline).__name__}"
        require(hasattr(baseline, "per_query"), received, "an evaluation by tfdml.evaluate")
        facts = zip(_facts(evaluation), _facts(baseline), strict=True)
        noun = next((noun for (noun, first), (_, second) in facts if not _agree(first, second)), None)
        expected = "an evaluation of the same queries and gallery. Evaluate both models on one set with the same k"
        require(noun is None, f"baselines[{name!r}] with other {noun}", expected)


def _facts(evaluation):
    """The facts that are the same for the same queries and gallery, with their names."""
    yield "metrics", list(evaluation.metrics)
    yield "labels of queries", evaluation.per_query.labels
    yield "labels of the gallery", evaluation.per_query.item_labels
    for data in evaluation.sets:
        yield "class names", getattr(data, "class_names", None)
        paths = getattr(data, "paths", None)  # the same set may be in another folder
        yield "files", None if paths is None else [PurePath(str(path)).name for path in paths]
    yield "protocol", evaluation.protocol


def _agree(first, second):
    """Whether two facts are equal, or one of them is not known: embeddings with labels have no class names."""
    return first is None or second is None or np.array_equal(first, second)


def interval_text(low: float, high: float, form: str = ".1f") -> str:
    """A 95% interval over classes in %, as text; there is none with too few classes, whose bounds are NaN."""
    if math.isnan(low):
        return f"none: fewer than {least_classes()} classes"
    return f"{100 * low:{form}} to {100 * high:{form}}"
