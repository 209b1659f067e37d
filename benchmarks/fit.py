"""Time of a training step: our loss and sampler against Keras' own softmax loss over plain batches, same network.

python benchmarks/fit.py            # a minute on two cores
python benchmarks/fit.py --quick    # a few steps of a small batch
"""

import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from _report import RESULTS, print_table, write_csv

import tfdml


def images_and_labels(examples, classes):
    """Random 32 x 32 images: the values do not matter for the time."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (examples, 32, 32, 1), dtype="uint8")
    return images, np.arange(examples) % classes


def ours(images, labels, groups, examples_per_class, **options):
    """(model, batches) of metric learning, compiled with options."""
    inputs = keras.Input(images.shape[1:], dtype="uint8")
    model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs))
    loss = tfdml.losses.MultiSimilarityLoss(miner=tfdml.miners.ValidTriplets())
    model.compile("adam", loss=loss, **options)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=groups, examples_per_class=examples_per_class, seed=0)
    return model, sampler.batches(images, labels)


def softmax(images, labels, batch_size):
    """(model, batches) of plain classification with the same network under it."""
    inputs = keras.Input(images.shape[1:], dtype="uint8")
    logits = keras.layers.Dense(int(labels.max()) + 1)(tfdml.models.plain_cnn(inputs))
    model = keras.Model(inputs, logits)
    model.compile("adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    batches = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).batch(batch_size).repeat()
    return model, batches.prefetch(tf.data.AUTOTUNE)


def step_seconds(candidates, *, steps, rounds):
    """Median seconds of a step of `fit` for each (model, batches), in turns."""
    seconds = {name: [] for name in candidates}
    for turn in range(rounds + 1):
        for name, (model, batches) in candidates.items():
            begin = time.perf_counter()
            model.fit(batches, steps_per_epoch=steps, epochs=1, shuffle=False, verbose=0)
            if turn:  # the first builds and compiles
                seconds[name].append((time.perf_counter() - begin) / steps)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def main():
    """Measure both and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", default=RESULTS / "fit.csv")
    arguments = parser.parse_args()
    images, labels = images_and_labels(2_000 if arguments.quick else 12_000, 200 if arguments.quick else 870)
    rows = []
    for groups in [4] if arguments.quick else [16, 64]:
        candidates = {
            "ours": ours(images, labels, groups, 4),
            "softmax": softmax(images, labels, groups * 4),
        }
        seconds = step_seconds(candidates, steps=3 if arguments.quick else 50, rounds=1 if arguments.quick else 7)
        rows.append(
            {
                "batch": groups * 4,
                "ours_ms": 1e3 * seconds["ours"],
                "softmax_ms": 1e3 * seconds["softmax"],
                "ours_over_softmax": seconds["ours"] / seconds["softmax"],
                **tfdml.environment("tensorflow", "keras"),
            }
        )
    write_csv(arguments.output, rows)
    print_table(rows, list(rows[0])[:-2])


if __name__ == "__main__":
    main()
