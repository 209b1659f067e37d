"""Time of a training step of ResNet-50: our loss and sampler against Keras' softmax loss over plain batches.

python benchmarks/networks.py            # ten minutes on two cores
python benchmarks/networks.py --quick    # one step of a small batch
"""

import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from _report import RESULTS, print_table, write_csv

import tfdml

CLASSES = 64


def images_and_labels(size, examples):
    """Random images: the values do not matter for the time."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (examples, size, size, 3), dtype="uint8")
    return images, np.arange(examples) % CLASSES


def network(backbone, size, **options):
    """An embedding network with its own copy of the backbone, weights at random."""
    return tfdml.models.from_backbone(backbone, input_shape=(size, size, 3), weights=None, **options)


def ours(backbone, images, labels, batch_size):
    """(model, batches) of metric learning: multi-similarity with its miner, four images per class."""
    model = network(backbone, images.shape[1], dim=128)
    loss = tfdml.losses.MultiSimilarityLoss(miner=tfdml.miners.ValidTriplets(margin=0.1))
    model.compile(keras.optimizers.Adam(1e-5), loss=loss)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=batch_size // 4, examples_per_class=4, seed=0)
    return model, sampler.batches(images, labels)


def softmax(backbone, images, labels, batch_size):
    """(model, batches) of plain classification on the same images."""
    features = network(backbone, images.shape[1], dim=None, normalize=False)
    model = keras.Model(features.inputs, keras.layers.Dense(CLASSES)(features.outputs[0]))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-5), loss=loss)
    batches = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).batch(batch_size).repeat()
    return model, batches.prefetch(tf.data.AUTOTUNE)


def step_seconds(candidate):
    """Seconds by the clock and of processor time of `fit` for one step."""
    model, batches = candidate
    clock, processor = time.perf_counter(), time.process_time()
    model.fit(batches, steps_per_epoch=1, epochs=1, shuffle=False, verbose=0)
    return np.array([time.perf_counter() - clock, time.process_time() - processor])


def seconds_in_turns(first, second, *, rounds):
    """`(rounds, 2, 2)`: round; candidate; clock, processor. Who begins a round alternates."""
    for candidate in (first, second):
        step_seconds(candidate)  # builds and compiles
    found = []
    for turn in range(rounds):
        order = [(0, first), (1, second)]
        timed = {place: step_seconds(candidate) for place, candidate in (order[::-1] if turn % 2 else order)}
        found.append([timed[0], timed[1]])
        print(f"round {turn + 1}: {found[-1][0][0]:.2f} s and {found[-1][1][0]:.2f} s", flush=True)
    return np.array(found)


def row(arguments, seconds):
    """Medians, and the quartiles of the ratio of a round."""
    clock, processor = (np.quantile(seconds[:, 0, kind] / seconds[:, 1, kind], [0.25, 0.5, 0.75]) for kind in (0, 1))
    ours_s, softmax_s = np.median(seconds, axis=0)
    return {
        "backbone": arguments.backbone,
        "pixels": arguments.size,
        "batch": arguments.batch_size,
        "rounds": len(seconds),
        "ours_s": float(ours_s[0]),
        "softmax_s": float(softmax_s[0]),
        "ours_over_softmax": float(clock[1]),
        "quartiles": f"{clock[0]:.3f} to {clock[2]:.3f}",
        "ours_cpu_s": float(ours_s[1]),
        "softmax_cpu_s": float(softmax_s[1]),
        "cpu_ours_over_softmax": float(processor[1]),
        "cpu_quartiles": f"{processor[0]:.3f} to {processor[2]:.3f}",
        **tfdml.environment("tensorflow", "keras"),
    }


def main():
    """Measure both and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--backbone", default="ResNet50", help="a network of keras.applications")
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=24, help="steps of each, in turns")
    parser.add_argument("--output", default=RESULTS / "networks.csv")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.size, arguments.batch_size, arguments.rounds = 32, 8, 1
    data = images_and_labels(arguments.size, 4 * CLASSES)
    candidates = [make(arguments.backbone, *data, arguments.batch_size) for make in (ours, softmax)]
    seconds = seconds_in_turns(*candidates, rounds=arguments.rounds)
    rows = [row(arguments, seconds)]
    write_csv(arguments.output, rows)
    print_table(rows, list(rows[0])[:-2])


if __name__ == "__main__":
    main()
