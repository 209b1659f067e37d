"""What studies of many training runs share: runs kept as JSON files, tuned, repeated over seeds, written as tables.

A study's run is a frozen dataclass of settings with a `name`, and its `train(run)` returns a dict of results.
"""

import argparse
import csv
import functools
import json
import multiprocessing
import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

LEARNING_RATES = (1e-3, 3e-3, 1e-2)
SEEDS = (0, 1, 2)


def options(description, *, base, quick, train, output, rates=LEARNING_RATES):
    """The command line that studies share, and what they vary.

    Args:
        description: what the study shows.
        base: the run that the others are variations of.
        quick: the same with `--quick`: few steps and classes.
        train: function of a run that returns its results, at the top of a module.
        output: folder of the results unless `--output` says another one.
        rates: the learning rates that `tuned` tries.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="few classes, few steps, one seed: to see it run")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each; not with --quick")
    parser.add_argument("--output", type=Path, default=Path(output))
    found = parser.parse_args()
    found.output.mkdir(parents=True, exist_ok=True)
    found.base = quick if found.quick else base
    found.rates = rates[-1:] if found.quick else rates
    found.seeds = SEEDS[:1] if found.quick else SEEDS
    found.train = train
    return found


def finished(runs, options):
    """The results of `runs`, in their order; those that have no file yet are trained first."""
    folder = options.output / "runs"
    folder.mkdir(exist_ok=True)
    missing = [run for run in dict.fromkeys(runs) if not (folder / f"{run.name}.json").exists()]
    keep = functools.partial(_train_and_keep, options.train, folder)
    if options.quick:
        for run in missing:
            print(f"trained: {keep(run).name}", flush=True)
    elif missing:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.workers, mp_context=context, initializer=_one_thread) as pool:
            for number, run in enumerate(pool.map(keep, missing), start=1):
                print(f"{number} of {len(missing)} trained: {run.name}", flush=True)
    return [json.loads((folder / f"{run.name}.json").read_text()) for run in runs]


def tuned(runs, options):
    """Each of the runs with the learning rate that has the highest Recall@1 on the validation classes, by one seed."""
    grid = [replace(run, learning_rate=rate, seed=options.seeds[0]) for run in runs for rate in options.rates]
    score = {run: result["validation"]["recall@1"] for run, result in zip(grid, finished(grid, options), strict=True)}
    rates = len(options.rates)
    return [max(grid[i : i + rates], key=score.get) for i in range(0, len(grid), rates)]


def some(values, options):
    """The values as a list; with `--quick`, the first and the last of them."""
    return list(values)[:: max(len(values) - 1, 1)] if options.quick else list(values)


def over_seeds(runs, options):
    """Each of the runs with every seed."""
    return [replace(run, seed=seed) for run in runs for seed in options.seeds]


def rows_of(results):
    """Results as rows of a table: the settings of a run, then its numbers."""
    return [
        {
            **result["run"],
            **{f"validation {key}": value for key, value in result["validation"].items()},
            **result["test"],
            **{key: result[key] for key in ("seconds", "protocol", "hardware", "versions")},
        }
        for result in results
    ]


def write_rows(path, rows):
    """Write rows as CSV, whole or not at all."""
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(path)


def read_rows(path):
    """The rows of such a file, numbers as numbers."""
    rows = csv.DictReader(path.read_text().splitlines())
    return [{key: _number(value) for key, value in row.items()} for row in rows]


def where(rows, **settings):
    """The rows with these settings."""
    return [row for row in rows if all(row[key] == value for key, value in settings.items())]


def mean_of(rows, key="recall@1"):
    """The mean over rows, in percent."""
    return statistics.mean(100 * row[key] for row in rows)


def deviation_of(rows, key="recall@1"):
    """The standard deviation over rows, in percent; 0 for one row."""
    return statistics.stdev(100 * row[key] for row in rows) if len(rows) > 1 else 0.0


def table(rows, *, down, across, label=None):
    """Recall@1 as mean and standard deviation over seeds, as Markdown.

    Args:
        rows: of the runs.
        down, across: a column of the rows, and its values in the order of the table.
        label: over the values that go down, the name of their column by default.
    """
    (key, values), (other, others) = down, across
    lines = [[label or key, *others], ["---"] * (len(others) + 1)]
    lines += [[value, *(_share(where(rows, **{key: value, other: column})) for column in others)] for value in values]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def recalls(rows, *, by, keys):
    """Means and standard deviations over seeds of several numbers, as Markdown.

    Args:
        rows: of the runs.
        by: a column of the rows, and its values in the order of the table.
        keys: the numbers, shares that are shown in percent.
    """
    column, values = by
    lines = [[column, *(key.capitalize().replace("Map@r", "MAP@R") for key in keys)], ["---"] * (len(keys) + 1)]
    lines += [[value, *(_share(where(rows, **{column: value}), key) for key in keys)] for value in values]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _share(rows, key="recall@1"):
    return f"{mean_of(rows, key):.1f} ± {deviation_of(rows, key):.1f}"


def settings_of(run):
    """A file name that says every setting of a run."""
    return "_".join(f"{key}-{value}" for key, value in asdict(run).items())


def _train_and_keep(train, folder, run):
    result = json.dumps(train(run), indent=1)
    partial = folder / f".{run.name}.{os.getpid()}"
    partial.write_text(result)
    partial.replace(folder / f"{run.name}.json")
    return run


def _number(text):
    try:
        return float(text)
    except ValueError:
        return text


def _one_thread():
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
