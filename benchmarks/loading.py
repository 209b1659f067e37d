"""Images per second from PNG files: drawing rows, reading, decoding, and skipping unreadable files.

All give batches of 64 images of 64 x 64, 16 classes with 4 images each, from 5,000 files in 100 classes that lie in the
cache of the file system. Each line does all that the line above it does; `shuffle().map().batch()` is the same decoding
by `tf.data` alone. Without TensorFlow, Pillow decodes, and threads load the next batches ahead. Passes take turns, and
the median counts.

    python benchmarks/loading.py            # two minutes on two cores
    python benchmarks/loading.py --quick    # a few files
"""

import statistics
import tempfile
from itertools import count, islice
from pathlib import Path

import numpy as np
import tensorflow as tf
from _report import options_of, timed, write_table
from PIL import Image

from tfdml.samplers import GroupSampler
from tfdml.samplers.streams.batch_source import BatchSource, KerasBatches, batch_parts

SIDE = 64
CLASSES_PER_BATCH, EXAMPLES_PER_CLASS = 16, 4
BATCH = CLASSES_PER_BATCH * EXAMPLES_PER_CLASS
FULL = {"files": 5_000, "classes": 100, "steps": 150, "rounds": 5}
QUICK = {"files": 80, "classes": 20, "steps": 5, "rounds": 1}
UNREADABLE = 1_000  # One file in a thousand, at least one.


def make_files(folder, files, classes):
    """Paths of PNG files of smooth noise, the same paths with some that are not images, and labels."""
    rng = np.random.default_rng(0)
    paths = [str(folder / f"{number}.png") for number in range(files)]
    for path in paths:
        coarse = rng.integers(0, 256, (SIDE // 4, SIDE // 4, 3), np.uint8)
        tf.io.write_file(path, tf.io.encode_png(tf.cast(tf.image.resize(coarse, (SIDE, SIDE)), tf.uint8)))
    broken = folder / "broken.png"
    broken.write_bytes(b"no image")
    with_broken = [str(broken) if number % UNREADABLE == 0 else path for number, path in enumerate(paths)]
    return paths, with_broken, np.arange(files) % classes


def decode(path):
    """A file's image."""
    return tf.ensure_shape(tf.io.decode_png(tf.io.read_file(path), channels=3), (SIDE, SIDE, 3))


def decode_by_pillow(path):
    """A file's image, without TensorFlow."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def without_tensorflow(sampler, paths, labels):
    """The batches that `sampler.batches` gives where TensorFlow is not installed."""
    batches = KerasBatches(BatchSource(*batch_parts(sampler, paths, labels, decode_by_pillow, None)), prefetch=4)
    return (batches[t] for t in count())


def ways(paths, with_broken, labels):
    """name -> endless stream of batches."""
    sampler = GroupSampler(classes_per_batch=CLASSES_PER_BATCH, examples_per_class=EXAMPLES_PER_CLASS)
    shuffled = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths)).repeat()
    decoded = shuffled.map(lambda path, label: (decode(path), label), num_parallel_calls=tf.data.AUTOTUNE)
    return {
        "draw rows": sampler.index_batches(labels),
        "read files": sampler.batches(paths, labels, load=tf.io.read_file),
        "read and decode": sampler.batches(paths, labels, load=decode),
        "read and decode, skip": sampler.batches(paths, labels, load=decode, on_error="skip"),
        f"skip 1 in {UNREADABLE}": sampler.batches(with_broken, labels, load=decode, on_error="skip"),
        "read and decode, without TensorFlow": without_tensorflow(sampler, np.array(paths), labels),
        "shuffle().map().batch()": decoded.batch(BATCH).prefetch(tf.data.AUTOTUNE),
    }


def rate(stream, steps, prepared=8):
    """Images per second of one pass, after the batches that were prepared while others ran."""
    sum(1 for _ in islice(stream, prepared))
    batches, seconds, _ = timed(lambda: sum(1 for _ in islice(stream, steps)))
    return batches * BATCH / seconds


def measure(datasets, *, steps, rounds):
    """name -> images per second, the median over rounds of one pass each."""
    streams = {name: iter(dataset) for name, dataset in datasets.items()}
    turns = [{name: rate(stream, steps) for name, stream in streams.items()} for _ in range(rounds)]
    return {name: statistics.median(turn[name] for turn in turns) for name in streams}


def main():
    """Write the files, measure every way and write the table."""
    options = options_of(__doc__, "loading.csv")
    size = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(Path(folder), size["files"], size["classes"])
        found = measure(ways(*files), steps=size["steps"], rounds=size["rounds"])
    plain = found["shuffle().map().batch()"]
    rows = [{"way": way, "images_per_second": rate, "over_tf_data": rate / plain} for way, rate in found.items()]
    write_table(options.output, rows)


if __name__ == "__main__":
    main()
