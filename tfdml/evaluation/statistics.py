"""Means, intervals and tests of models that have a value for each of the same queries."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfdml import metrics
from tfdml._core.checks import require
from tfdml._core.optional import environment
from tfdml.evaluation.record import Evaluation, Group, Mean, Pair
from tfdml.metrics.statistics.tests import Comparison, detectable

_SMALLEST, _LARGEST = 1e-150, 1e150  # whose squares, and sums of them, float64 holds
_MAX_GROUPS = 100  # values of one column of `by`
_EXAMPLES = 3  # of good and of bad queries


class Measurements(NamedTuple):
    """The values of the models, `(queries,)` by model and metric, NaN where a query has none.

    `wholes` are metrics that are one number for all queries. `labels` are the units of the intervals, `unit` is their
    noun; each "query" is a training run where it is "seeds". `names` are the texts of the queries.
    """

    values: Mapping[str, Mapping[str, np.ndarray]]
    labels: np.ndarray
    unit: str
    names: np.ndarray
    wholes: Mapping[str, Mapping[str, float]] = {}


def require_names(models: Any, argument: str) -> None:
    """Raise a ValueError unless the models are a mapping from names to at least one model."""
    is_mapping = isinstance(models, Mapping)
    require(is_mapping, f"{argument} of type {type(models).__name__}", 'models by name, such as {"a": a, "b": b}')
    require(len(models) > 0, f"no {argument}", "at least one")
    for name in models:
        require(isinstance(name, str) and name.strip() != "", f"a model with the name {name!r}", "text")


def require_against(against: str | None, models: Mapping[str, Any]) -> None:
    """Raise a ValueError unless this is the name of a model, or None."""
    require(against is None or against in models, f"against={against!r}", f"one of {', '.join(models)}, or None")


def require_options(confidence: float, shown: int) -> None:
    """Raise a ValueError for a confidence or a number of shown queries that cannot be."""
    require(0 < confidence < 1, f"confidence={confidence}", "a number between 0 and 1")
    require(shown >= 0, f"shown={shown}", "a number of queries of at least 0")


def as_number(value: Any) -> float:
    """A number, or its text as other programs write it; NaN for anything else, such as `1_000`."""
    try:
        return math.nan if "_" in str(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def require_squares(numbers: np.ndarray, name: str) -> None:
    """Raise a ValueError unless float64 holds the squares of numbers; NaN does not count."""
    largest = np.nanmax(np.abs(numbers), initial=0)
    expected = f"numbers of up to {_LARGEST:g}, not all below {_SMALLEST:g}. Divide them by one number"
    require(largest == 0 or _SMALLEST <= largest <= _LARGEST, f"{name} of up to {largest:g}", expected)


def as_groups(by: Mapping[str, Sequence[Any]] | None, count: int) -> dict[str, np.ndarray]:
    """The columns of `by` as texts `(queries,)`."""
    columns = {name: np.array([str(value) for value in column]) for name, column in (by or {}).items()}
    for name, column in columns.items():
        require(len(column) == count, f"by[{name!r}] with {len(column):,} values", f"{count:,}: one for each query")
        number = len(np.unique(column))
        expected = f"at most {_MAX_GROUPS}. Put them into fewer groups"
        require(number <= _MAX_GROUPS, f"by[{name!r}] with {number:,} different values", expected)
    return columns


def compared(
    measurements: Measurements,
    *,
    groups: Mapping[str, np.ndarray],
    confidence: float,
    shown: int,
    against: str | None = None,
    **conditions: Any,
) -> Evaluation:
    """The record of an evaluation; the first metric is the main one. `conditions` are further fields of the record.

    With `against`, a name, its pairs are the only ones.
    """
    values, labels, unit, names, wholes = measurements
    main = next(iter(next(iter(values.values()))))
    mains = {model: columns[main] for model, columns in values.items()}
    has_value = ~np.isnan(next(iter(mains.values())))
    units = len(np.unique(labels[has_value]))
    expected = f"two {unit} at least, since intervals are over {unit}"
    require(units > 1 or len(values) == 1, f"values of {main} for {units} of the {unit}", expected)
    means = {
        model: means_of(columns, labels, unit, confidence)
        | {name: Mean(value, np.nan, np.nan) for name, value in wholes.get(model, {}).items()}
        for model, columns in values.items()
    }
    chosen = ((name, against) for name in mains if name != against) if against else itertools.combinations(mains, 2)
    pairs = _pairs(mains, chosen, labels, unit, confidence, shown)
    best = mains[max(mains, key=lambda model: means[model][main].value)]
    good, bad = (_examples(side * best, labels) if unit != "seeds" else () for side in (-1, 1))
    listed = {*good, *bad, *itertools.chain.from_iterable(pair.queries for pair in pairs)}
    return Evaluation(
        main=main,
        unit=unit,
        confidence=confidence,
        queries=int(has_value.sum()),
        skipped=int((~has_value).sum()),
        units=units,
        means=means,
        pairs=pairs,
        groups=_groups(mains, groups, labels, unit, confidence),
        good=good,
        bad=bad,
        query_names={row: str(names[row]) for row in sorted(listed)},
        environment=environment(),
        labels=labels,
        per_query=values,
        **conditions,
    )


def means_of(
    values: Mapping[str, np.ndarray], labels: np.ndarray, unit: str = "classes", confidence: float = 0.95
) -> dict[str, Mean]:
    """Means with intervals of values per query by metric; NaN is left out."""
    return {name: _mean(column, labels, unit, confidence) for name, column in values.items()}


def _mean(values, labels, unit, confidence):
    interval = metrics.seed_interval(values, confidence=confidence) if unit == "seeds" else None
    interval = interval or metrics.class_interval(values, labels, confidence=confidence)
    return Mean(float(np.nanmean(values)), *interval)


def _examples(values, labels):
    """Rows of the lowest values, of different classes."""
    order = np.argsort(values, kind="stable")
    order = order[~np.isnan(values[order])]
    _, first = np.unique(labels[order], return_index=True)
    return tuple(order[np.sort(first)][:_EXAMPLES].tolist())


def _pairs(mains, chosen, labels, unit, confidence, shown):
    """The chosen pairs of models, with p-values corrected for all of them."""
    comparisons = [
        _over_seeds(mains, names, confidence)
        if unit == "seeds"
        else metrics.paired_comparison(*(mains[name] for name in names), labels, names=names, confidence=confidence)
        for names in chosen
    ]
    corrected = metrics.holm_correction([comparison.p for comparison in comparisons])
    level = (1 - confidence) / max(1, len(comparisons))  # of the first step of Holm's correction
    return tuple(
        _pair(comparison, float(p), [mains[name] for name in comparison.names], labels, level, shown)
        for comparison, p in zip(comparisons, corrected, strict=True)
    )


def _over_seeds(mains, names, confidence):
    """The difference of two models over seeds: Student's interval and paired test; p is 1 for equal differences."""
    from scipy import stats

    differences = mains[names[0]] - mains[names[1]]
    low, high = metrics.seed_interval(differences, confidence=confidence)
    return Comparison(
        names=names,
        difference=float(differences.mean()),
        low=low,
        high=high,
        p=float(stats.ttest_1samp(differences, 0).pvalue) if np.ptp(differences) else 1.0,
        confidence=confidence,
        queries=len(differences),
        classes=len(differences),
    )


def _pair(comparison, corrected, values, labels, level, shown):
    smallest = np.nan if np.isnan(comparison.low) else detectable(*values, labels, level)
    return Pair(comparison, corrected, _most_different(*values, shown), smallest)


def _most_different(first, second, shown):
    differences = np.nan_to_num(np.abs(first - second))
    order = np.argsort(-differences, kind="stable")[:shown]
    return tuple(order[differences[order] > 0].tolist())


def _groups(mains, groups, labels, unit, confidence):
    has_value = ~np.isnan(next(iter(mains.values())))
    rows = {
        (name, value): np.flatnonzero((column == value) & has_value)
        for name, column in groups.items()
        for value in np.unique(column[has_value]).tolist()
    }
    return tuple(
        Group(
            by=name,
            value=value,
            queries=len(chosen),
            units=len(np.unique(labels[chosen])),
            means={model: _mean(x[chosen], labels[chosen], unit, confidence) for model, x in mains.items()},
        )
        for (name, value), chosen in rows.items()
    )
