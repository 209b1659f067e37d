"""Options, processes and timing in turns, and CSV tables with the hardware and versions they were measured on."""

import argparse
import datetime
import functools
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # a benchmark is run by its path
from studies import runner
from studies.runner import write_rows

RESULTS = Path(__file__).parents[1] / "results"


def options_of(doc, table, *, case=None, quick=(), **defaults):
    """The options of a benchmark: `--quick`, `--output`, and one for each default as in `studies.runner.options_of`.

    Args:
        doc: text whose first line says what is measured.
        table: name of the file in `results` that rows are written to.
        case: function of a case. `--case` with its arguments as JSON prints what it returns, and ends the process.
        quick: values of options for `--quick`.
        **defaults: the values of the other options.
    """
    output = {"type": Path, "default": RESULTS / table, "help": "the file of the rows"}
    of_case = {"type": json.loads, "help": argparse.SUPPRESS}
    options = runner.options_of(doc, output=output, case=of_case, **defaults)
    if options.case is not None:
        print(json.dumps(case(*options.case)))
        raise SystemExit
    return argparse.Namespace(**vars(options) | dict(quick if options.quick else ()))


def of_process(script, *case, **environment):
    """What a script returns for a case, from a process of its own with more variables of the environment."""
    command = [sys.executable, script, "--case", json.dumps(case)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{Path(script).name} failed for {case}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def rows_of_cases(script, names, cases, **environment):
    """A row for each case, from a process of its own: its first arguments by name, then what the script returns."""
    for case in cases:
        about = {name: value or "-" for name, value in zip(names, case, strict=False)}
        yield about | of_process(script, *case, **environment)


def timed(function):
    """The result of a function, its seconds on the clock, and its processor seconds."""
    clock, processor = time.perf_counter(), time.process_time()
    return function(), time.perf_counter() - clock, time.process_time() - processor


def seconds_in_turns(functions, *, repeats, warmups=1):
    """`(repeats, 2)` seconds of calls of each function, on the clock and of the processor, after calls to warm up.

    The functions of a dict take turns, each second round in reverse, so that the load of the machine is the same for
    all. Each returns only when its work is done.
    """
    for function in warmups * list(functions.values()):
        function()
    seconds = {name: [] for name in functions}
    for turn in range(repeats):
        for name in list(functions)[:: -1 if turn % 2 else 1]:
            seconds[name].append(timed(functions[name])[1:])
    return seconds


def median_seconds(functions, *, repeats, warmups=1):
    """Median seconds of a call of each function, in turns."""
    turns = seconds_in_turns(functions, repeats=repeats, warmups=warmups)
    return {name: statistics.median(clock for clock, _ in seconds) for name, seconds in turns.items()}


class Peak:
    """A context in which the peak of the memory of this process is watched: `mib` beyond its memory at the start."""

    def __enter__(self):
        import psutil

        self._process, self._done = psutil.Process(), threading.Event()
        self._before = self._peak = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while not self._done.wait(0.005):
            self._peak = max(self._peak, self._process.memory_info().rss)

    def __exit__(self, *error):
        self._done.set()
        self._thread.join()
        self.mib = (self._peak - self._before) / 2**20


def measured_steps(model, images, labels, steps):
    """MiB of the peak of this process beyond its memory now, and the median seconds of a training step.

    One more step is made before, which compiles.
    """
    step = functools.partial(model.train_on_batch, images, labels)
    with Peak() as memory:
        seconds = median_seconds({"step": step}, repeats=steps)["step"]
    return {"peak_mib": memory.mib, "step_s": seconds}


def peak_mib():
    """Largest resident memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def folder_mib(folder, pattern="*"):
    """Size of the files of a folder, in MiB."""
    return sum(path.stat().st_size for path in Path(folder).rglob(pattern) if path.is_file()) / 2**20


def ratio(one, other):
    """one / other, or nothing where one of them was not measured."""
    return one / other if isinstance(one, float) and isinstance(other, float) else ""


def facts(*packages):
    """The day of a measurement, such as 2026-11-24, the hardware, and the versions with those of more packages."""
    import tfdml  # late: the processes of peers do without TensorFlow

    return {"measured": datetime.date.today().isoformat(), **tfdml.environment(*packages)}


def write_table(path, rows, *packages):
    """Print rows and write them with what they were measured on, as one file; rows of an earlier day keep theirs."""
    about, rows = facts(*packages), list(rows)
    print_table(rows, [column for column in dict.fromkeys(key for row in rows for key in row) if column not in about])
    write_rows(Path(path), [row if "hardware" in row else row | about for row in rows])
    print(f"wrote {path}")


def print_table(rows, columns):
    """Print some columns of rows, aligned."""
    cells = [columns, *([format_cell(row.get(column, "")) for column in columns] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), flush=True)


def format_cell(value):
    """Floats with four digits, anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def require_peers(*packages):
    """Exit with the command that installs what is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise SystemExit(f"Missing {', '.join(missing)}: run `make bench`, or pip install -r requirements/peers.lock.")
