"""Training runs of a study: trained once, kept as JSON files, tuned, repeated over seeds, written as rows of a table.

A run is a frozen dataclass of settings with `learning_rate` and `seed`; `train(run)` returns a dict of results.
"""

import argparse
import csv
import functools
import json
import multiprocessing
import os
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Options:
    """What the studies of a paper have in common.

    Attributes:
        base: the run of which all others are variations.
        train: function of a run that returns its results, at the top level of a module.
        folder: where the results of runs are kept, one JSON file per run.
        rates: the learning rates that `tuned` tries.
        seeds: the seeds that `results` repeats each run with.
        quick: whether studies keep only a few of their runs.
        workers: number of processes that train at the same time, one thread each; 1 trains in this process.
        train_seeds: function of runs that differ in their seeds alone, which trains them at once and returns a list of
            their results; None where each is trained by itself.
    """

    base: Any
    train: Callable[[Any], dict]
    folder: Path
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    seeds: tuple[int, ...] = (0, 1, 2)
    quick: bool = False
    workers: int = 2
    train_seeds: Callable[[list], list[dict]] | None = None


def options_of(doc, arguments=None, **defaults):
    """The options of a command line: `--quick`, and one for each default.

    Args:
        doc: text whose first line says what the command does.
        arguments: words of the command line; those of the process by default.
        **defaults: the values of the other options. A list takes several, None text, False a flag, True a flag
            `--no-...`; a dict has the arguments of `add_argument`.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small form that takes seconds")
    for name, default in defaults.items():
        flag = f"no-{name}" if default is True else name
        if isinstance(default, bool):
            settings = {"action": f"store_{str(not default).lower()}", "dest": name}
        elif isinstance(default, list):
            settings = {"default": default, "type": type(default[0]), "nargs": "+"}
        else:
            settings = {"default": default, "type": str if default is None else type(default)}
        settings = default if isinstance(default, dict) else settings
        parser.add_argument(f"--{flag.replace('_', '-')}", **settings)
    return parser.parse_args(arguments)


def results(runs, options):
    """Rows of the runs, each with its best learning rate, repeated with every seed."""
    return repeated(tuned(runs, options), options)


def repeated(runs, options):
    """Rows of the runs, repeated with every seed."""
    return rows_of(finished(over_seeds(runs, options), options))


def tuned(runs, options):
    """Each run with the learning rate of the highest Recall@1 on the validation classes, for the first seed."""
    grid = [replace(run, learning_rate=rate, seed=options.seeds[0]) for run in runs for rate in options.rates]
    score = {run: result["validation"]["recall@1"] for run, result in zip(grid, finished(grid, options), strict=True)}
    rates = len(options.rates)
    return [max(grid[i : i + rates], key=score.get) for i in range(0, len(grid), rates)]


def best(runs, options):
    """Of some runs, the one with the highest Recall@1 on the validation classes, for the first seed."""
    runs = [replace(run, seed=options.seeds[0]) for run in runs]
    scores = [result["validation"]["recall@1"] for result in finished(runs, options)]
    return runs[scores.index(max(scores))]


def over_seeds(runs, options):
    """Each run with every seed."""
    return [replace(run, seed=seed) for run in runs for seed in options.seeds]


def some(values, options):
    """The values as a list; only the first and the last if `options.quick`."""
    return list(values)[:: max(len(values) - 1, 1)] if options.quick else list(values)


def finished(runs, options):
    """The results of the runs, in their order. Runs without a file are trained first."""
    options.folder.mkdir(parents=True, exist_ok=True)
    missing = [run for run in dict.fromkeys(runs) if not _file(run, options).exists()]
    number = 0
    for runs_at_once in _trained(_at_once(missing, options), options):
        for run in runs_at_once:
            number += 1
            print(f"{number} of {len(missing)} trained: {name_of(run)}", flush=True)
    return [json.loads(_file(run, options).read_text()) for run in runs]


def name_of(run):
    """A file name that holds every setting of a run."""
    return "_".join(f"{key}-{value}" for key, value in asdict(run).items()).replace(" ", "-")


def rows_of(results):
    """Results as rows of a table: the settings of a run, then its numbers."""
    return [
        {
            **result["run"],
            **{f"validation {key}": value for key, value in result["validation"].items()},
            **result["test"],
            **result.get("learned", {}),
            **{key: result[key] for key in ("seconds", "protocol", "hardware", "versions")},
        }
        for result in results
    ]


def write_rows(path, rows):
    """Write rows as CSV; a crash leaves the old file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="") as file:
        columns = dict.fromkeys(column for row in rows for column in row)
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(path)


def read_rows(path):
    """Rows of a CSV file, with numbers as floats."""
    rows = csv.DictReader(path.read_text().splitlines())
    return [{key: _number(value) for key, value in row.items()} for row in rows]


def where(rows, **settings):
    """The rows with these settings."""
    return [row for row in rows if all(row[key] == value for key, value in settings.items())]


def mean_of(rows, key="recall@1"):
    """Mean over rows, in percent."""
    return statistics.mean(100 * row[key] for row in rows)


def deviation_of(rows, key="recall@1"):
    """Standard deviation over rows, in percent; 0 for one row."""
    return statistics.stdev(100 * row[key] for row in rows) if len(rows) > 1 else 0.0


def share(rows, key="recall@1"):
    """Mean and standard deviation over rows, in percent, as text; empty for no rows."""
    return f"{mean_of(rows, key):.1f} ± {deviation_of(rows, key):.1f}" if rows else ""


def table(rows, *, down, across, label=None):
    """Recall@1 as mean and standard deviation over seeds, as a Markdown table.

    Args:
        rows: rows of runs.
        down, across: a column of the rows, and its values in the order of the table.
        label: heading of the values that go down; by default the name of their column.
    """
    (key, values), (other, others) = down, across
    body = [[value, *(share(where(rows, **{key: value, other: column})) for column in others)] for value in values]
    return markdown([label or key, *others], body)


def recalls(rows, *, by, keys=("recall@1", "recall@10", "recall@100", "map@r")):
    """Several numbers as mean and standard deviation over seeds, as a Markdown table.

    Args:
        rows: rows of runs.
        by: a column of the rows, and its values in the order of the table.
        keys: columns of the numbers, which are shown in percent.
    """
    column, values = by
    body = [[value, *(share(where(rows, **{column: value}), key) for key in keys)] for value in values]
    return markdown([column, *(key.capitalize().replace("Map@r", "MAP@R") for key in keys)], body)


def markdown(head, body, texts=None):
    """Lists of cells as a Markdown table; all columns but those at the places `texts` are aligned to the right."""
    rules = ["---" if texts is None or place in texts else "---:" for place in range(len(head))]
    lines = [head, rules, *body]
    return "\n".join("|" + "".join(f"{f' {cell}'.rstrip()} |" for cell in line) for line in lines)


def _file(run, options):
    return options.folder / f"{name_of(run)}.json"


def _at_once(runs, options):
    """The runs in lists that are trained at once: those that differ in their seeds alone, if `train_seeds` can."""
    if options.train_seeds is None:
        return [[run] for run in runs]
    lists = {}
    for run in runs:
        lists.setdefault(replace(run, seed=0), []).append(run)
    return list(lists.values())


def _trained(lists, options):
    """Train lists of runs and yield each once its files are written."""
    keep = functools.partial(_train_and_keep, options)
    if options.workers == 1 or not lists:
        yield from map(keep, lists)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context, initializer=_one_thread) as pool:
        yield from pool.map(keep, lists)


def is_kept(run, options):
    """Whether a run has its file."""
    return _file(run, options).exists()


def _train_and_keep(options, runs):
    keep(runs, options.train_seeds(runs) if options.train_seeds else [options.train(run) for run in runs], options)
    return runs


def keep(runs, results, options):
    """Write the results of runs to their files."""
    options.folder.mkdir(parents=True, exist_ok=True)
    for run, result in zip(runs, results, strict=True):
        partial = options.folder / f".{name_of(run)}.{os.getpid()}"
        partial.write_text(json.dumps(result, indent=1))
        partial.replace(_file(run, options))


def _number(text):
    try:
        return float(text)
    except ValueError:
        return text


def _one_thread():
    if os.environ.get("KERAS_BACKEND") == "jax":
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
        return
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
