"""Time of `tfdml train` from a folder of photos to a run that is served, by its default settings.

python benchmarks/train.py                    # four minutes on two cores
python benchmarks/train.py --max-minutes 1    # two
python benchmarks/train.py --quick    # 40 photos, a small network, four batches
"""

import contextlib
import io
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import tensorflow as tf
from _report import options_of, write_table

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
    names = {"backbone": "backbone", "tuning": "tuning", "pixels": "size", "batch": "batch_size", "steps": "steps"}
    return {
        **{name: getattr(run.settings, setting) for name, setting in names.items()},
        "before_s": before,
        "training_s": training,
        "outputs_s": outputs,
        "minutes": (before + training + outputs) / 60,
    }


def main():
    """Measure a run, and write its row."""
    limit = {"type": float, "help": "limit for the training, which does not change the time before and after it"}
    options = options_of(__doc__, "train.csv", max_minutes=limit)
    classes, photos_per_class = (10, 4) if options.quick else (40, 13)
    settings = {} if options.max_minutes is None else {"max_minutes": options.max_minutes}
    with tempfile.TemporaryDirectory() as folder:
        write_photos(Path(folder) / "photos", classes, photos_per_class, 160, 213)
        row = measured(Path(folder), {**(QUICK if options.quick else {}), **settings})
    write_table(options.output, [{"photos": classes * photos_per_class, "classes": classes, **row}])


if __name__ == "__main__":
    main()
