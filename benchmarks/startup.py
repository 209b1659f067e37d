"""Seconds until the command line answers, tfdml is imported, and a step is compiled: of the processor, by the clock.

The command is run as pip installs it, in a process of its own; modules were read from disk before. The import is
measured in a process that has imported TensorFlow and Keras. The first training step traces and compiles: its time is
that of the first of a network of `tfdml train` beyond the second. Medians of processes that take turns.

    python benchmarks/startup.py            # three processes of each
    python benchmarks/startup.py --quick    # one
"""

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from _report import options_of, write_table

ROOT = Path(__file__).parents[1]
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
STEP = """
import time
import numpy as np
import tfdml
model = tfdml.models.from_backbone("EfficientNetLite0", dim=128, input_shape=(128, 128, 3), weights=None)
model.compile("adam", loss=tfdml.losses.MultiSimilarityLoss(miner=tfdml.miners.ValidTriplets(margin=0.1)))
images, labels = np.zeros((8, 128, 128, 3), "uint8"), np.arange(8) // 2
times = []
for _ in range(3):
    times.append((time.process_time(), time.perf_counter()))
    model.train_on_batch(images, labels)
first, second, third = times
print(*(2 * b - a - c for a, b, c in zip(first, second, third)))
"""


def of_command(*arguments):
    """Processor and wall seconds of a Python process."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def told_by(program):
    """Processor and wall seconds that a program prints."""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(map(float, done.stdout.split()))


def measurements():
    """By what is measured, a function that measures it once."""
    commands = {f"tfdml {words}": ["-c", COMMAND, *words.split()] for words in WORDS}
    programs = {
        "python -c pass": ["-c", "pass"],
        **commands,
        "import tensorflow, keras": ["-c", "import tensorflow, keras"],
    }
    timed = {what: lambda arguments=arguments: of_command(*arguments) for what, arguments in programs.items()}
    parts = {"import tfdml, after these": BEYOND, "first training step": STEP}
    return {**timed, **{what: lambda program=program: told_by(program) for what, program in parts.items()}}


def main():
    """Measure in turns, print and write the table."""
    options = options_of(__doc__, "startup.csv")
    repeats, functions = 1 if options.quick else 3, measurements()
    of_command("-c", COMMAND, "--help")
    turns = [{what: measure() for what, measure in functions.items()} for _ in range(repeats)]
    rows = []
    for what in functions:
        processor, wall = (statistics.median(values) for values in zip(*(turn[what] for turn in turns), strict=True))
        rows.append({"what": what, "processor_s": processor, "wall_s": wall, "repeats": repeats})
    write_table(options.output, rows)


if __name__ == "__main__":
    main()
