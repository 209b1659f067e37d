"""Test whether the mean of a logged column has changed; days are the sampling units."""

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tfdml import metrics
from tfdml._core.checks import require
from tfdml.evaluation.record import table_lines
from tfdml.evaluation.statistics import as_number, require_squares
from tfdml.metrics.statistics.tests import difference_of_means

_TIME = "time"
_SECONDS = "datetime64[s]"
_BLANK = ("", "None", "NaT", "nan", "NaN", "<NA>")
_FIRST, _LAST = 1e9, 1e10  # seconds of Unix time, which begin in 2001 and end in 2286
_POWERS = {"seconds": 0, "milliseconds": 3, "microseconds": 6, "nanoseconds": 9}
_FORMS = "ISO 8601, such as 2026-03-02T09:30:00+01:00, or Unix time after 2001 in seconds or thousandths of them"


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
        undecided: the columns with too few days for any shift, however large, to be called one.
        days: number of days of the reference, and of the current stretch.
        searches: number of rows of both.
        confidence: confidence of the intervals.
        notes: sentences on columns that are left out, and on a day that is in both stretches.
    """

    shifts: tuple[Shift, ...]
    moved: tuple[str, ...]
    undecided: tuple[str, ...]
    days: tuple[int, int]
    searches: tuple[int, int]
    confidence: float
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON values."""
        return vars(self) | {"shifts": [shift._asdict() for shift in self.shifts]}

    def __str__(self) -> str:
        """A table, and sentences."""
        sizes = [f"{size:,} of {_counted(days)}" for size, days in zip(self.searches, self.days, strict=True)]
        heads = ["mean of", "reference", "current", f"difference [{100 * self.confidence:g}%]", "Holm p"]
        rows = [[x.column, f"{x.reference:.4g}", f"{x.current:.4g}", x.interval, f"{x.p:.2g}"] for x in self.shifts]
        head = f"Searches: {sizes[0]}, now {sizes[1]}."
        return "\n".join([head, *table_lines(heads, rows), *self.notes, *self._verdict()])

    def _verdict(self):
        if self.undecided:
            number = len(self.shifts)
            least = math.ceil(1 + math.log2(number / (1 - self.confidence)))
            needs = f"{number} column{'s need' if number > 1 else ' needs'} {least} days, both stretches together"
            yield f"Too few days to tell: {', '.join(self.undecided)}. At a confidence of {self.confidence:g}, {needs}."
        if self.moved:
            yield f"Moved: {', '.join(self.moved)}."
        elif len(self.undecided) < len(self.shifts):
            yield "Nothing else moved." if self.undecided else "Nothing moved."


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
    most 1 - confidence. docs/drift.md has the rate of false alarms, and the shifts that it sees.

    Example: the scores of the second week are lower by 0.1.

        >>> times = np.repeat(np.arange("2026-03-02", "2026-03-16", dtype="datetime64[D]"), 50)
        >>> scores = 0.8 - 0.1 * (np.arange(700) >= 350) + 0.05 * np.sin(np.arange(700) ** 1.5)
        >>> first, second = ({"time": times[rows], "score": scores[rows]} for rows in (slice(350), slice(350, 700)))
        >>> tfdml.evaluation.drift(first, second).moved
        ('score',)

    Args:
        reference, current: columns of one length: `time`, and numbers, such as those that `tfdml serve --log` writes.
            Times are texts in ISO 8601, dates, `datetime64`, or Unix time as numbers or digits: from 10^9 to 10^10 it
            is in seconds, 10^3, 10^6 and 10^9 times as much in its thousandths; any other number is an error. All times
            of a stretch have one form. Days are days of UTC for times with a zone, and as written for others. A value
            that is NaN, None or "" is left out, and so is a column with values on less than two days.
        confidence: 1 - the share of false alarms among unchanged stretches.

    Raises:
        ValueError: other columns in `current`, columns of different lengths, no numbers, fewer than two days; a row
            without a time, times of two forms; a current stretch that begins before the reference ends.
    """
    require(0 < confidence < 1, f"confidence={confidence}", "a share between 0 and 1")
    columns = [column for column in reference if column != _TIME]
    require(set(reference) == set(current), f"columns {sorted(current)}", f"{sorted(reference)}, as of the reference")
    require(_TIME in reference and len(columns) > 0, f"columns {sorted(reference)}", "time, and numbers such as score")
    before, now = _read(reference, columns, "reference"), _read(current, columns, "current stretch")
    _require_order(before[_TIME], now[_TIME])
    days = before[_TIME].astype("datetime64[D]"), now[_TIME].astype("datetime64[D]")
    counts = {
        column: [
            len(np.unique(on[~np.isnan(numbers[column])])) for on, numbers in zip(days, (before, now), strict=True)
        ]
        for column in columns
    }
    few = [
        f"{x!r} on {_counted(a)} of the reference, {b} of the current" for x, (a, b) in counts.items() if a < 2 or b < 2
    ]
    require(len(few) < len(columns), f"values of {'; '.join(few)}", "two days or more of both, better a week")
    columns = [column for column in columns if min(counts[column]) > 1]
    tests = [difference_of_means(before[column], now[column], days, confidence) for column in columns]
    corrected = metrics.holm_correction([p for _, _, p in tests])
    smallest = metrics.holm_correction([2.0 ** (1 - sum(counts[column])) for column in columns])
    shifts = tuple(
        Shift(column, float(np.nanmean(before[column])), float(np.nanmean(now[column])), low, high, float(p))
        for column, (low, high, _), p in zip(columns, tests, corrected, strict=True)
    )
    return Drift(
        shifts=shifts,
        moved=tuple(shift.column for shift in shifts if shift.p <= 1 - confidence),
        undecided=tuple(column for column, p in zip(columns, smallest, strict=True) if p > 1 - confidence),
        days=(len(np.unique(days[0])), len(np.unique(days[1]))),
        searches=(len(days[0]), len(days[1])),
        confidence=confidence,
        notes=(
            *(f"Left out: {text}." for text in few),
            *(f"{day} is in both stretches." for day in np.intersect1d(*days)),
        ),
    )


def _counted(days):
    return f"{days} day{'s' * (days != 1)}"


def _read(table, columns, name):
    """The columns of a stretch as floats, NaN where they are blank, and its times as `datetime64`."""
    lengths = {column: len(table[column]) for column in (_TIME, *columns)}
    require(len(set(lengths.values())) == 1, f"columns of {lengths} rows in the {name}", "one length")
    require(lengths[_TIME] > 0, f"a {name} without rows", "searches of two days or more")
    return {_TIME: _as_times(table[_TIME], name)} | {
        column: _as_floats(table[column], column, name) for column in columns
    }


def _as_floats(values, column, name):
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        numbers, texts = array.astype(float), array
    else:
        texts = np.array([str(value) for value in array.tolist()])
        numbers = np.array([as_number(text) for text in texts.tolist()])
    for row in np.flatnonzero(~np.isfinite(numbers)):
        received = f"{str(texts[row])!r} as {column!r} in row {row} of the {name}"
        require(str(texts[row]) in _BLANK, received, "a number. Leave other columns out")
    require_squares(numbers, f"{column!r} of the {name}")
    return numbers


def _as_times(values, name):
    """Times of one form as `datetime64[us]`; those with a zone are in UTC."""
    array = np.asarray(values)
    if array.dtype.kind == "M":
        _require_times(np.isnat(array), name)
        return array.astype("datetime64[us]")
    texts = [str(value).strip() for value in array.tolist()]
    _require_times(np.isin(texts, _BLANK), name)
    parsed: dict[str, datetime.datetime] = {}
    forms: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        try:
            form, parsed[text] = _parsed(text)
        except (ValueError, OverflowError) as error:
            received = f"the time {text!r} in row {texts.index(text)} of the {name}"
            raise ValueError(f"Received {received}, expected {_FORMS}.") from error
        forms.setdefault(form, text)
    received = " and ".join(f"{text!r} ({form})" for form, text in forms.items())
    require(len(forms) == 1, f"times of several forms in the {name}: {received}", "one form")
    return np.array([parsed[text] for text in texts], "datetime64[us]")


def _require_times(is_blank, name):
    received = f"{np.count_nonzero(is_blank):,} rows of the {name} without a time, such as row {np.argmax(is_blank)}"
    require(not is_blank.any(), received, "a time in each row. Leave the others out")


def _parsed(text):
    """The form of a time, and the time without a zone."""
    number = as_number(text)
    if math.isnan(number):
        time = datetime.datetime.fromisoformat(text)
        utc = time if time.tzinfo is None else time.astimezone(datetime.UTC).replace(tzinfo=None)
        return f"with{'out' * (time.tzinfo is None)} a zone", utc
    unit = next((unit for unit, power in _POWERS.items() if _FIRST <= number / 10**power < _LAST), "")
    require(unit != "", f"the number {text}", _FORMS)
    time = datetime.datetime.fromtimestamp(number / 10 ** _POWERS[unit], datetime.UTC)
    return f"Unix time in {unit}", time.replace(tzinfo=None)


def _require_order(before, now):
    stretches = [f"from {times.min().astype(_SECONDS)} to {times.max().astype(_SECONDS)}" for times in (before, now)]
    received = f"a reference {stretches[0]} and a current stretch {stretches[1]}"
    expected = "a reference that ends before the current stretch begins. Exchange the two, or leave out what both have"
    require(before.max() < now.min(), received, expected)
