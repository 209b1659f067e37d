"""Drift of searches: by Welch's test over days, and by what people get wrong."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tfdml import evaluation

DAYS = np.arange("2026-03-02", "2026-03-16", dtype="datetime64[D]")


def stretch(days, sizes, seed=0, shift=0.0):
    """A table of searches of some days, so many of each."""
    rng = np.random.default_rng(seed)
    times = [f"{day}T12:00:00+00:00" for day, size in zip(days, sizes, strict=True) for _ in range(size)]
    level = np.repeat(0.02 * rng.standard_normal(len(days)), sizes)
    score = 0.8 + shift + level + 0.1 * rng.standard_normal(len(times))
    return {"time": times, "score": score, "unknown": (score < 0.7).astype(int)}


def test_over_days_of_one_size_it_is_the_test_of_welch_on_the_means_of_days():
    before, now = stretch(DAYS[:8], [20] * 8), stretch(DAYS[8:], [20] * 6, seed=1, shift=0.02)
    found = evaluation.drift(before, now)
    expected = {}
    for column in ("score", "unknown"):
        means = [np.asarray(table[column]).reshape(-1, 20).mean(axis=1) for table in (now, before)]
        expected[column] = stats.ttest_ind(*means, equal_var=False)
    score, unknown = found.shifts
    interval = expected["score"].confidence_interval(0.95)
    np.testing.assert_allclose((score.low, score.high), (interval.low, interval.high), rtol=1e-9)
    smaller, larger = sorted(result.pvalue for result in expected.values())
    np.testing.assert_allclose(sorted([score.p, unknown.p]), [2 * smaller, max(2 * smaller, larger)], rtol=1e-9)
    assert (found.days, found.searches) == ((8, 6), (160, 120))


def test_what_has_moved_is_named_and_what_has_not_is_not():
    before = stretch(DAYS[:7], [30] * 7)
    same, lower = (stretch(DAYS[7:], [10, 50, 30, 20, 40, 30, 30], seed=1, shift=shift) for shift in (0, -0.1))
    assert evaluation.drift(before, same).moved == ()
    assert evaluation.drift(before, lower).moved == ("score", "unknown")
    assert str(evaluation.drift(before, lower)).endswith("Moved: score, unknown.")
    assert "Searches: 210 of 7 days, now 210 of 7 days." in str(evaluation.drift(before, same))


def test_a_value_that_is_missing_is_left_out():
    before, now = stretch(DAYS[:7], [30] * 7), stretch(DAYS[7:], [30] * 7, seed=1)
    texts = {name: [str(value) for value in values] for name, values in now.items()}
    texts["unknown"][::2] = [""] * 105
    now["unknown"] = np.where(np.arange(210) % 2, now["unknown"], np.nan)
    assert evaluation.drift(before, texts) == evaluation.drift(before, now)


FORMS = {
    "a zone": lambda moment: (moment + np.timedelta64(330, "m")).item().isoformat(" ") + "+05:30",
    "Z": lambda moment: f"{moment}Z",
    "no zone": str,
    "datetime": lambda moment: moment.item(),
    "pandas": lambda moment: pd.Timestamp(moment.item(), tz="UTC").tz_convert("America/New_York"),
    "datetime64": lambda moment: moment,
    **{
        f"Unix, 10^-{power} s": lambda moment, power=power: int(moment.astype(int)) * 10**power
        for power in (0, 3, 6, 9)
    },
    "digits": lambda moment: str(moment.astype(int)),
    "fractions": lambda moment: f"{moment.astype(int)}.25",
    "float": lambda moment: float(moment.astype(int)),
}


@pytest.mark.parametrize("form", FORMS)
def test_days_are_those_of_utc_whatever_the_form_of_a_time(form):
    """Ten searches in each hour of six days and one: the first and the last hours of a day tell zones apart."""
    hours = np.arange("2026-03-02", "2026-03-09", dtype="datetime64[h]").astype("datetime64[s]")
    rng = np.random.default_rng(0)
    score = np.repeat(rng.normal(size=7), 24) + 0.1 * rng.normal(size=len(hours))
    is_later = hours >= np.datetime64("2026-03-06")
    found = [
        evaluation.drift(*({"time": times[rows], "score": score[rows]} for rows in (~is_later, is_later)))
        for times in (hours, np.array([FORMS[form](hour) for hour in hours]))
    ]
    assert found[0] == found[1]
    assert found[1].days == (4, 3)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["yesterday"], "the time 'yesterday' in row 39 of the current stretch, expected ISO 8601"),
        (["02/03/2026"], "the time '02/03/2026'"),
        ([20260302], "the time '20260302'"),
        (["2026"], "the time '2026'"),
        (["20260302120000"], "the time '20260302120000'"),
        ([46083.5], "the time '46083.5'"),
        ([-1772445600], "the time '-1772445600'"),
        (["1_772_445_600"], "the time '1_772_445_600'"),
        (["2026-03-20T10:00:00Z", 1774000000], "(with a zone) and '1774000000' (Unix time in seconds), expected one"),
        (["2026-03-20T10:00:00Z", "2026-03-20T10:00:00"], "(with a zone) and '2026-03-20T10:00:00' (without a zone)"),
        ([1774000000, 1774000000000], "(Unix time in seconds) and '1774000000000' (Unix time in milliseconds)"),
        (["2026-03-20", ""], "1 rows of the current stretch without a time, such as row 39"),
        (["2026-03-20", None, np.nan], "2 rows of the current stretch without a time, such as row 38"),
    ],
)
def test_a_time_that_is_ambiguous_or_missing_is_an_error(times, message):
    """A stretch of 40 rows, whose last times are these, and the first ones the first of them."""
    before = stretch(DAYS[:4], [10] * 4)
    now = {**before, "time": [times[0]] * (40 - len(times)) + times}
    if len(times) == 1 and "row 39" in message:
        message = message.replace("row 39", "row 0")
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluation.drift(before, now)


def test_stretches_that_overlap_are_an_error_and_a_day_of_both_is_said():
    week = stretch(DAYS[:7], [2] * 7)
    for first, last in ((0, 14), (0, 7), (7, 14), (4, 11)):
        with pytest.raises(ValueError, match="expected a reference that ends before the current stretch begins"):
            evaluation.drift(stretch(DAYS[4:11], [2] * 7), stretch(DAYS[first:last], [2] * (last - first)))
    later = stretch(DAYS[6:12], [2] * 6)
    later["time"] = [time.replace("T12", "T13") for time in later["time"]]
    assert evaluation.drift(week, later).notes == ("2026-03-08 is in both stretches.",)


def test_a_column_without_values_in_one_stretch_is_left_out():
    before, now = stretch(DAYS[:7], [5] * 7), stretch(DAYS[7:], [5] * 7, seed=1)
    alone = evaluation.drift(*({name: table[name] for name in ("time", "score")} for table in (before, now)))
    blank, late = [""] * 35, [None] * 30 + [1] * 5
    for first, second, days in ((blank, blank, (0, 0)), (blank, [1] * 35, (0, 7)), ([0] * 35, late, (7, 1))):
        found = evaluation.drift(before | {"unknown": first}, now | {"unknown": second})
        note = f"Left out: 'unknown' on {days[0]} days of the reference, {days[1]} of the current."
        assert (found.shifts, found.notes) == (alone.shifts, (note,))
        assert note in str(found)
    with pytest.raises(ValueError, match=re.escape("'score' on 7 days of the reference, 0 of the current; 'unknown'")):
        evaluation.drift(before | {"unknown": blank}, now | {"score": blank, "unknown": blank})


@pytest.mark.parametrize(("days", "columns", "undecided"), [(3, 2, True), (3, 1, False), (4, 2, False), (2, 1, True)])
def test_too_few_days_are_said_exactly_where_no_shift_could_be_seen(days, columns, undecided):
    before, now = stretch(DAYS[:days], [50] * days), stretch(DAYS[days : 2 * days], [50] * days, seed=1)
    for table, value in ((before, 0.0), (now, 1.0)):
        table |= {"score": np.full(50 * days, value), "unknown": np.full(50 * days, value)}
    names = ["time", "score", "unknown"][: 1 + columns]
    found = evaluation.drift(*({name: table[name] for name in names} for table in (before, now)))
    assert (found.undecided, found.moved) == ((tuple(names[1:]), ()) if undecided else ((), tuple(names[1:])))
    assert ("Too few days to tell: score" in str(found)) == undecided
    assert "Nothing" not in str(found)


def test_a_column_with_few_days_beside_one_with_many():
    before, now = stretch(DAYS[:7], [9] * 7), stretch(DAYS[7:], [9] * 7)
    rare = [1] * 18 + [""] * 45
    found = evaluation.drift(before | {"unknown": rare}, now | {"unknown": rare})
    assert found.undecided == ("unknown",)
    assert str(found).endswith(
        "Too few days to tell: unknown. At a confidence of 0.95, 2 columns need 7 days, both stretches together.\n"
        "Nothing else moved."
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": None}, "columns ['time', 'unknown']"),
        ({"score": ["high"] * 60}, "Received 'high' as 'score' in row 0 of the current stretch, expected a number."),
        ({"score": ["1_000"] * 60}, "Received '1_000' as 'score'"),
        ({"score": [0.0] * 59 + [np.inf]}, "Received 'inf' as 'score' in row 59"),
        ({"score": [0.5]}, "'score': 1"),
        ({"time": [], "score": [], "unknown": []}, "Received a current stretch without rows"),
        ({"time": ["2026-03-20"] * 60}, "values of 'score' on 3 days of the reference, 1 of the current; 'unknown'"),
    ],
)
def test_a_wrong_table_is_named(change, message):
    before = stretch(DAYS[:3], [20] * 3)
    now = {name: values for name, values in (before | change).items() if values is not None}
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluation.drift(before, now)
    with pytest.raises(ValueError, match="confidence=1"):
        evaluation.drift(before, before, confidence=1)
    with pytest.raises(ValueError, match="time, and numbers"):
        evaluation.drift({"score": [1]}, {"score": [1]})
