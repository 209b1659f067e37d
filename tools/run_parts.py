"""Runs parts of the checks one after another, and prints the time and memory of each beside its budget.

    python tools/run_parts.py test          # the parts of `make test`
    python tools/run_parts.py test ci all   # and what `.ci/run` and `make test-all` have beyond it
    python tools/run_parts.py jax           # one part
    python tools/run_parts.py --hold test   # also fails where a part takes three times its budget, or 6 GiB
    python tools/run_parts.py --minutes 45 ci   # leaves out, and names, parts that would end later

`tests/budgets.toml` lists the parts: the group, the pytest arguments or another command, and the processor seconds that
the part takes on the machine of the budgets. Processor seconds are those of all processes of a part, so other work on
the machine changes them little. Other processors take longer: a loop of Python is timed before and after each part, and
the seconds of this loop over those on the machine of the budgets are the slowness, by which a budget is multiplied.
Memory is that of the largest process. `tests/test_budgets.py` compares the sums of the budgets with what the commands
promise; here, a part fails only where something is wrong, not where it is a little slower than its budget.
"""

import argparse
import math
import os
import shlex
import statistics
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BUDGETS = ROOT / "tests" / "budgets.toml"
TOLERANCE = 3  # times the budget on this machine: a limit that holds up right work costs more than it saves
LOOP = "import time; sum(number * number % 7 for number in range(4_000_000)); print(time.process_time())"
LOOP_SECONDS = 0.17  # of LOOP on the machine of the budgets
MEMORY = 6 * 2**30  # bytes of a process


class Measured(NamedTuple):
    """A part that has run: seconds, and bytes of its largest process."""

    name: str
    budget: float
    slowness: float
    status: int
    wall: float
    processor: float
    memory: int

    @property
    def is_over(self):
        """Whether it took far more time than its budget, or more memory than CI has."""
        return self.processor > TOLERANCE * self.slowness * self.budget or self.memory > MEMORY


def command(part, workers):
    """The command of a part as a list."""
    if "command" in part:
        return shlex.split(part["command"])
    return [sys.executable, "-m", "pytest", "-n", workers, "--dist", "worksteal", *shlex.split(part["pytest"])]


def loop_seconds(workers):
    """The mean processor seconds of the loop, on as many cores as a part has."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP], stdout=subprocess.PIPE) for _ in range(int(workers))]
    return statistics.mean(float(loop.communicate()[0]) for loop in loops)


def run(name, part, workers):
    """Run a part to its end."""
    print(f"== {name}", flush=True)
    before = loop_seconds(workers)
    environment = {**os.environ, **part.get("environment", {})}
    begin = time.monotonic()
    process = subprocess.Popen(command(part, workers), cwd=ROOT, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    processor = usage.ru_utime + usage.ru_stime
    slowness = (before + loop_seconds(workers)) / 2 / LOOP_SECONDS
    return Measured(name, part["processor_seconds"], slowness, status, wall, processor, 1024 * usage.ru_maxrss)


def run_all(parts, workers, seconds):
    """Run all parts that end within some seconds, as their budgets say; the names of the others come second."""
    begin, measured, left_out = time.monotonic(), [], []
    for name, part in parts.items():
        expected = part["processor_seconds"] * loop_seconds(workers) / LOOP_SECONDS / int(workers)
        if time.monotonic() - begin + expected > seconds:
            left_out.append(name)
        else:
            measured.append(run(name, part, workers))
    return measured, left_out


def table(measured):
    """A line for each part, and their sum."""
    lines = [f"{'part':<24}{'wall s':>8}{'processor s':>13}{'budget s':>10}{'slowness':>10}{'peak MiB':>10}"]
    for part in measured:
        remarks = [" failed"] * bool(part.status) + [" far over its budget"] * part.is_over
        numbers = f"{part.wall:>8.0f}{part.processor:>13.0f}{part.budget:>10.0f}{part.slowness:>10.2f}"
        numbers += f"{part.memory / 2**20:>10.0f}"
        lines.append(f"{part.name:<24}{numbers}{','.join(remarks)}")
    sums = [sum(getattr(part, column) for part in measured) for column in ("wall", "processor", "budget")]
    return "\n".join([*lines, f"{'together':<24}{sums[0]:>8.0f}{sums[1]:>13.0f}{sums[2]:>10.0f}"])


def main():
    """Run the parts that are named, or are in a group that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("selected", nargs="+", metavar="GROUP or PART")
    parser.add_argument("--hold", action="store_true", help="fail far above the budgets")
    parser.add_argument("--minutes", type=float, default=math.inf, help="leave out parts that would end later")
    parser.add_argument("--workers", default="2", help="processes of pytest")
    options = parser.parse_args()
    parts = tomllib.loads(BUDGETS.read_text())
    unknown = set(options.selected).difference(parts, (part["group"] for part in parts.values()))
    if unknown:
        parser.error(f"Received {', '.join(unknown)}, expected a group or a part of {BUDGETS.name}.")
    selected = {name: part for name, part in parts.items() if {name, part["group"]} & set(options.selected)}
    measured, left_out = run_all(selected, options.workers, 60 * options.minutes)
    print(table(measured))
    if left_out:
        print(f"Not run, as they would end after {options.minutes:.0f} minutes: {', '.join(left_out)}.")
    sys.exit(any(part.status or (options.hold and part.is_over) for part in measured))


if __name__ == "__main__":
    main()
