"""Time of `tfdml train` from a folder of photos to a run that is served, by its default settings.

python benchmarks/train.py                    # four minutes on two cores
python benchmarks/train.py --max-minutes 1    # two
python benchmarks/train.py --quick    # 40 photos, a small network, four batches
"""

import argparse
import contextlib
import io
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import tensorflow as tf
from _report import RESULTS, print_table, write_csv

import tfdml

QUICK = {"backbone": "residual", "size": 16, "steps": 4, "epochs": 2, "classes_per_batch": 4}


def write_photos(folder, classes, photos_per_class, height, width):
    """JPEG files of color noise, smooth and with a pattern of each class."""
    rng = np.random.default_rng(0)
    for label in range(classes):
        pattern = rng.integers(0, 256, (6, 6, 3))
        for number in range(photos_per_class):
            pixels = tf.image.resize(np.clip(pattern + rng.normal(0, 40, pattern.shape), 0, 255), (height, width))
            path = folder / f"class {label:02}" / f"{number:02}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tf.io.encode_jpeg(tf.cast(pixels, tf.uint8)).numpy())


class PartTimes(io.StringIO):
    """The lines of a run, and the times at which training and the outputs begin."""

    def __init__(self):
        super().__init__()
        self.times = []

    def write(self, text):
        """Keep the time of a line that begins a part."""
        if text == "Training" or text.startswith("Measuring"):  # a verdict may begin with "Training helped"
            self.times.append(time.perf_counter())
        return super().write(text)


def measured(folder, options):
    """Seconds of a run until training begins, of training, and of the outputs."""
    begin, lines = time.perf_counter(), PartTimes()
    with contextlib.redirect_stderr(lines):
        run = tfdml.training.train(folder / "photos", folder / "run", **options)
    times = [begin, *lines.times, time.perf_counter()]
    before, training, outputs = (after - begin for begin, after in pairwise(times))
    settings = run.settings
    return {
        "backbone": settings.backbone,
        "tuning": settings.tuning,
        "pixels": settings.size,
        "batch": settings.batch_size,
        "steps": settings.steps,
        "before_s": before,
        "training_s": training,
        "outputs_s": outputs,
        "minutes": (before + training + outputs) / 60,
    }


def main():
    """Measure a run, and write its row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="40 photos, a small network, four batches")
    parser.add_argument("--output", default=RESULTS / "train.csv", help="the file of the results")
    text = "limit for the training, which does not change the time before and after it"
    parser.add_argument("--max-minutes", type=float, help=text)
    arguments = parser.parse_args()
    classes, photos_per_class = (10, 4) if arguments.quick else (40, 13)
    with tempfile.TemporaryDirectory() as folder:
        write_photos(Path(folder) / "photos", classes, photos_per_class, 160, 213)
        limit = {} if arguments.max_minutes is None else {"max_minutes": arguments.max_minutes}
        row = measured(Path(folder), {**(QUICK if arguments.quick else {}), **limit})
    machine = tfdml.environment("keras", "tensorflow")
    rows = [{"photos": classes * photos_per_class, "classes": classes, **row, **machine}]
    print_table(rows, list(rows[0])[:-2])
    write_csv(arguments.output, rows)


if __name__ == "__main__":
    main()
