"""Timing in turns, and CSV tables with the hardware and versions they were measured on."""

import csv
import datetime
import importlib.util
import os
import resource
import statistics
import threading
import time
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"


def today():
    """The day of a measurement, such as 2026-11-24."""
    return datetime.date.today().isoformat()


def median_seconds(functions, *, repeats):
    """Median seconds of a call of each function, in turns, so that the load of the machine is the same for all.

    Args:
        functions: dict of name to function without arguments; each must return only when its work is done.
        repeats: number of calls of each that are timed, after one call to warm up.
    """
    seconds = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            begin = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def measured_steps(model, images, labels, steps):
    """MiB of the peak of this process beyond its memory now, and the median seconds of a training step.

    One more step is made before, which compiles.
    """
    import psutil

    process, done, seconds = psutil.Process(), threading.Event(), []
    before, peak = process.memory_info().rss, [0]

    def watch():
        while not done.wait(0.01):
            peak[0] = max(peak[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(steps + 1):
        begin = time.perf_counter()
        model.train_on_batch(images, labels)
        seconds.append(time.perf_counter() - begin)
    done.set()
    watcher.join()
    return {"peak_mib": (peak[0] - before) / 2**20, "step_s": statistics.median(seconds[1:])}


def peak_mib():
    """Largest resident memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ratio(one, other):
    """one / other, or nothing where one of them was not measured."""
    return one / other if isinstance(one, float) and isinstance(other, float) else ""


def write_csv(path, rows):
    """Write rows (dicts with the same keys) to a temporary name and rename it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".partial-{path.name}")
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    os.replace(partial, path)
    print(f"wrote {path}")


def print_table(rows, columns):
    """Print some columns of rows, aligned."""
    cells = [columns, *([format_cell(row[column]) for column in columns] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def format_cell(value):
    """Floats with four digits, anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def require_peers(*packages):
    """Exit with the command that installs what is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise SystemExit(f"Missing {', '.join(missing)}: run `make bench`, or pip install -r requirements/peers.lock.")
