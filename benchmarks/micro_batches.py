"""Memory and time of a training step of a large batch: in one pass, and in micro-batches with the same gradient.

python benchmarks/micro_batches.py            # ten minutes on two cores, most of it for 65,536 images
python benchmarks/micro_batches.py --quick    # one step of a small batch
"""

import keras
import numpy as np
from _report import measured_steps, options_of, rows_of_cases, write_table

import tfdml


def measured(batch_size, micro_batch_size, anchors_per_block, size, steps):
    """Peak memory beyond that of the built model and its data, in MiB, and the median seconds of a step."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (batch_size, size, size, 3), dtype="uint8")
    labels = np.arange(batch_size) // 4
    inputs = keras.Input((size, size, 3), dtype="uint8")
    outputs = tfdml.models.residual_cnn(inputs, stem=(32,), widths=(64, 128))
    model = tfdml.models.EmbeddingModel(inputs, outputs)
    loss = tfdml.losses.MultiSimilarityLoss(anchors_per_block=anchors_per_block)
    model.compile("adam", loss=loss, micro_batch_size=micro_batch_size)
    return measured_steps(model, images, labels, steps)


def main():
    """Measure all cases."""
    options = options_of(__doc__, "micro_batches.csv", case=measured)
    names, cases = ("batch", "micro_batch", "anchors_per_block", "pixels"), QUICK if options.quick else CASES
    write_table(options.output, rows_of_cases(__file__, names, cases))


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
