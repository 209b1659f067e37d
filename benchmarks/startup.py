"""Seconds until the command line answers, and until tfdml is imported: of the processor, and by the clock.

The command is run as pip installs it, in a process of its own; modules were read from disk before. The import is
measured in a process that has imported TensorFlow and Keras. Medians of processes that take turns.

    python benchmarks/startup.py            # nine processes of each
    python benchmarks/startup.py --quick    # one
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from _report import RESULTS, hardware, print_table, today, versions, write_csv

ROOT = Path(__file__).parents[1]
COLUMNS = ["what", "processor_s", "wall_s", "repeats"]
COMMAND = "import sys; from tfdml.__main__ import main; sys.exit(main())"
WORDS = ["--help", "--version", "train --help", "train photos --out run --epoch-count 3"]
BEYOND = """
import time
import tensorflow
import keras
begin = time.process_time(), time.perf_counter()
import tfdml
print(time.process_time() - begin[0], time.perf_counter() - begin[1])
"""


def of_process(*arguments):
    """Processor and wall seconds of a Python process."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def beyond():
    """Processor and wall seconds of `import tfdml` after TensorFlow and Keras."""
    done = subprocess.run([sys.executable, "-c", BEYOND], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(map(float, done.stdout.split()))


def measurements():
    """By what is measured, a function that measures it once."""
    commands = {f"tfdml {words}": ["-c", COMMAND, *words.split()] for words in WORDS}
    programs = {
        "python -c pass": ["-c", "pass"],
        **commands,
        "import tensorflow, keras": ["-c", "import tensorflow, keras"],
    }
    timed = {what: lambda arguments=arguments: of_process(*arguments) for what, arguments in programs.items()}
    return {**timed, "import tfdml, after these": beyond}


def main():
    """Measure in turns, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one process of each")
    parser.add_argument("--output", type=Path, default=RESULTS / "startup.csv")
    options = parser.parse_args()
    repeats, functions = 1 if options.quick else 9, measurements()
    of_process("-c", COMMAND, "--help")
    seconds = {what: [] for what in functions}
    for _ in range(repeats):
        for what, measure in functions.items():
            seconds[what].append(measure())
    machine = {"versions": versions(), "hardware": hardware(), "date": today()}
    medians = {what: [statistics.median(each) for each in zip(*pairs, strict=True)] for what, pairs in seconds.items()}
    rows = [dict(zip(COLUMNS, (what, *values, repeats), strict=True)) | machine for what, values in medians.items()]
    print_table(rows, COLUMNS)
    write_csv(options.output, rows)


if __name__ == "__main__":
    main()
