"""Memory and time of a training step of a large batch: in one pass, and in micro-batches with the same gradient.

python benchmarks/micro_batches.py            # ten minutes on two cores, most of it for 65,536 images
python benchmarks/micro_batches.py --quick    # one step of a small batch
"""

import argparse
import json
import subprocess
import sys

from _report import RESULTS, measured_steps, print_table, write_csv

import tfdml


def measured(batch_size, micro_batch_size, anchors_per_block, size, steps):
    """Peak memory beyond that of the built model and its data, in MiB, and the median seconds of a step."""
    import keras
    import numpy as np

    import tfdml

    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (batch_size, size, size, 3), dtype="uint8")
    labels = np.arange(batch_size) // 4
    inputs = keras.Input((size, size, 3), dtype="uint8")
    outputs = tfdml.models.residual_cnn(inputs, stem=(32,), widths=(64, 128))
    model = tfdml.models.EmbeddingModel(inputs, outputs)
    loss = tfdml.losses.MultiSimilarityLoss(anchors_per_block=anchors_per_block)
    model.compile("adam", loss=loss, micro_batch_size=micro_batch_size)
    return measured_steps(model, images, labels, steps)


def row(case):
    """One case, in its own process."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    columns = dict(zip(["batch", "micro_batch", "anchors_per_block", "pixels"], case, strict=False))
    columns = {name: value or "-" for name, value in columns.items()}
    environment = tfdml.environment("keras", "tensorflow")
    return columns | json.loads(done.stdout.splitlines()[-1]) | environment


def main():
    """Measure all cases, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="one step of a small batch")
    parser.add_argument("--output", default=RESULTS / "micro_batches.csv", help="the file of the results")
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measured(*arguments.case)))
        return
    rows = [row(case) for case in (QUICK if arguments.quick else CASES)]
    print_table(rows, list(rows[0])[:6])
    write_csv(arguments.output, rows)


# batch, micro-batch, anchors per block, pixels, steps
CASES = [
    (64, None, None, 64, 5),
    (256, None, None, 64, 5),
    (1024, None, None, 64, 3),
    (256, 64, None, 64, 5),
    (1024, 64, None, 64, 3),
    (8192, 1024, 256, 8, 1),
    (65536, 1024, 256, 8, 1),
]
QUICK = [(16, None, None, 16, 1), (16, 8, 4, 16, 1)]

if __name__ == "__main__":
    main()
