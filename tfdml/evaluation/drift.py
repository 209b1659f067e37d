"""Whether later searches differ from earlier ones, the reference: means, with whole days as the units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tfdml import metrics
from tfdml._core.checks import require
from tfdml.evaluation.comparison.intervals import difference_of_means
from tfdml.evaluation.comparison.record import table_lines

_TIME = "time"


class Shift(NamedTuple):
    """The means of a column in both stretches, the interval of current - reference, and p by Holm over all columns."""

    column: str
    reference: float
    current: float
    low: float
    high: float
    p: float

    @property
    def interval(self) -> str:
        """The difference and its interval, as text."""
        return f"{self.current - self.reference:+.3g} [{self.low:+.3g}, {self.high:+.3g}]"


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The columns of searches that have moved, and those that have not; prints as a table.

    Attributes:
        shifts: a `Shift` for each column.
        moved: the columns that have moved.
        days: number of days of the reference, and of the current stretch.
        searches: number of rows of both.
        confidence: confidence of the intervals.
    """

    shifts: tuple[Shift, ...]
    moved: tuple[str, ...]
    days: tuple[int, int]
    searches: tuple[int, int]
    confidence: float

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON values."""
        return vars(self) | {"shifts": [shift._asdict() for shift in self.shifts]}

    def __str__(self) -> str:
        """A table, and a sentence."""
        sizes = [f"{searches:,} of {days} days" for searches, days in zip(self.searches, self.days, strict=True)]
        heads = ["mean of", "reference", "current", f"difference [{100 * self.confidence:g}%]", "Holm p"]
        rows = [[x.column, f"{x.reference:.4g}", f"{x.current:.4g}", x.interval, f"{x.p:.2g}"] for x in self.shifts]
        sentence = f"Moved: {', '.join(self.moved)}." if self.moved else "Nothing moved."
        return "\n".join([f"Searches: {sizes[0]}, now {sizes[1]}.", *table_lines(heads, rows), sentence])


def drift(
    reference: Mapping[str, Sequence[Any] | np.ndarray],
    current: Mapping[str, Sequence[Any] | np.ndarray],
    *,
    confidence: float = 0.95,
) -> Drift:
    """Compare the searches of two stretches of days: has the mean of a column moved?

    Searches of one day resemble each other, so days are the units. With means m and standard errors e over whole days,

        t = (m_current - m_reference) / sqrt(e_current^2 + e_reference^2)

    has Welch's degrees of freedom, and p is corrected by Holm for the number of columns. A column has moved if p is at
    most 1 - confidence. docs/server.md has the rate of false alarms, and which shifts are seen.

    Example: the scores of the second week are lower by 0.1.

        >>> times = np.repeat(np.arange("2026-03-02", "2026-03-16", dtype="datetime64[D]"), 50)
        >>> scores = 0.8 - 0.1 * (np.arange(700) >= 350) + 0.05 * np.sin(np.arange(700) ** 1.5)
        >>> first, second = ({"time": times[rows], "score": scores[rows]} for rows in (slice(350), slice(350, 700)))
        >>> tfdml.evaluation.drift(first, second).moved
        ('score',)

    Args:
        reference, current: columns of one length: `time` in the form of ISO 8601 or as `datetime64`, and numbers, such
            as those that `tfdml serve --log` writes. A value that is NaN or "" is left out.
        confidence: 1 - the share of unchanged stretches for which something is said to have moved.

    Raises:
        ValueError: other columns in `current`, columns of different lengths, no numbers, fewer than two days.
    """
    require(0 < confidence < 1, f"confidence={confidence}", "a share between 0 and 1")
    columns = [column for column in reference if column != _TIME]
    require(set(reference) == set(current), f"columns {sorted(current)}", f"{sorted(reference)}, as of the reference")
    require(_TIME in reference and len(columns) > 0, f"columns {sorted(reference)}", "time, and numbers such as score")
    before, now = _numbers(reference, columns, "reference"), _numbers(current, columns, "current stretch")
    days = before[_TIME], now[_TIME]
    tests = [difference_of_means(before[column], now[column], days, confidence) for column in columns]
    corrected = metrics.holm_correction([p for _, _, p in tests])
    shifts = tuple(
        Shift(column, float(np.nanmean(before[column])), float(np.nanmean(now[column])), low, high, float(p))
        for column, (low, high, _), p in zip(columns, tests, corrected, strict=True)
    )
    return Drift(
        shifts=shifts,
        moved=tuple(shift.column for shift in shifts if shift.p <= 1 - confidence),
        days=(len(np.unique(days[0])), len(np.unique(days[1]))),
        searches=(len(days[0]), len(days[1])),
        confidence=confidence,
    )


def _numbers(table, columns, name):
    try:
        numbers = {_TIME: np.array([str(time)[:10] for time in table[_TIME]], "datetime64[D]")}
        numbers |= {column: np.array([np.nan if x == "" else float(x) for x in table[column]]) for column in columns}
    except (TypeError, ValueError) as error:
        received = f"a {name} that has other values than times and numbers ({error})"
        raise ValueError(f"Received {received}. Leave other columns out.") from error
    lengths = {column: len(values) for column, values in numbers.items()}
    require(len(set(lengths.values())) == 1, f"columns of {lengths} rows in the {name}", "one length")
    for column in columns:
        days = len(np.unique(numbers[_TIME][~np.isnan(numbers[column])]))
        require(days > 1, f"{column!r} on {days} days of the {name}", "two days or more, better a week")
    return numbers
