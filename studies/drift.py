"""How often does `tfdml.evaluation.drift` raise a false alarm, and which shifts does it see?

    python -m studies.drift            # two minutes of one core
    python -m studies.drift --quick    # a smoke test on few streams

A stream has two stretches of days. A day has a Poisson number of searches, 100 on a mean day, and a level that all of
its searches share. Scores are level + noise of the standard deviation 0.1, and `unknown` says that a score is below the
mean by more than 0.13. The level is a normal variable of the standard deviation 0.01 for each day by itself ("days"),
with a correlation of 0.5 from day to day ("days that follow days"), or it is lower by 0.02 on two days of the week
("weekends", and numbers of searches are halved there). Later days have a lower mean by `shift`.
"""

import itertools

import numpy as np

import tfdml
from studies import pages, runner

ROWS = pages.RESULTS / "drift.csv"
PAGE = pages.ROOT / "docs" / "drift.md"
DAYS, SHIFTS, STREAMS = (3, 7, 14, 28), (0.0, 0.01, 0.02, 0.05), 1000
LEVELS = ("days", "days that follow days", "weekends")
NOISE, OF_DAYS, UNKNOWN, SEARCHES, CORRELATION, WEEKEND = 0.1, 0.01, 0.13, 100, 0.5, 0.02


def draw(rng, level, days, shift):
    """The tables of both stretches of a stream."""
    noise = rng.standard_normal(2 * days)
    is_weekend = np.arange(2 * days) % 7 >= 5
    if level == "days that follow days":
        for day in range(1, 2 * days):
            noise[day] = CORRELATION * noise[day - 1] + np.sqrt(1 - CORRELATION**2) * noise[day]
    levels, mean = OF_DAYS * noise, np.full(2 * days, float(SEARCHES))
    if level == "weekends":
        levels, mean = levels - WEEKEND * is_weekend, mean * np.where(is_weekend, 0.5, 1)
    levels[days:] -= shift
    sizes = np.maximum(1, rng.poisson(mean))
    time = np.repeat(np.datetime64("2026-03-02") + np.arange(2 * days), sizes)
    score = np.repeat(levels, sizes) + NOISE * rng.standard_normal(len(time))
    table = {"time": time, "score": score, "unknown": score < -UNKNOWN}
    end = sizes[:days].sum()
    return {name: values[:end] for name, values in table.items()}, {
        name: values[end:] for name, values in table.items()
    }


def row(level, days, shift, streams):
    """The share of streams in which something moved, with its standard error."""
    rng = np.random.default_rng([LEVELS.index(level), days, SHIFTS.index(shift)])
    alarms = np.mean([bool(tfdml.evaluation.drift(*draw(rng, level, days, shift)).moved) for _ in range(streams)])
    error = np.sqrt(alarms * (1 - alarms) / streams)
    sizes = {"level": level, "days": days, "shift": shift, "streams": streams}
    return {**sizes, "alarms": float(alarms), "error": float(error), **tfdml.environment()}


def table(rows):
    """A line for each kind of levels and length of a stretch: shares of alarms in %."""
    head = ["levels", "days of each", "false alarms", *(f"seen: {shift:g}" for shift in SHIFTS[1:])]
    body = []
    for level in LEVELS:
        for days in DAYS[1:]:
            of_shift = [runner.where(rows, level=level, days=days, shift=shift)[0] for shift in SHIFTS]
            body.append([level, days, *(f"{100 * found['alarms']:.1f}" for found in of_shift)])
    return runner.markdown(head, body)


def main(arguments=None):
    """Measure all streams; a few with `--quick`, which writes nothing."""
    if runner.options_of(__doc__, arguments).quick:
        return print(row("weekends", 7, 0.05, streams=20))
    return runner.write_rows(ROWS, [row(*kind, streams=STREAMS) for kind in itertools.product(LEVELS, DAYS, SHIFTS)])


if __name__ == "__main__":
    main()
