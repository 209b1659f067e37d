"""Time of a training step: our loss and sampler against Keras' own softmax loss over plain batches, same network.

python benchmarks/fit.py                                  # a small network, a minute on two cores
python benchmarks/fit.py --backbone ResNet50              # results/networks.csv, ten minutes on two cores
python benchmarks/fit.py --quick --backbone MobileNet     # a few steps of a small batch
"""

import functools
import statistics

import keras
import numpy as np
import tensorflow as tf
from _report import RESULTS, median_seconds, options_of, seconds_in_turns, write_table

import tfdml


def images_and_labels(examples, classes, shape=(32, 32, 1)):
    """Random images: the values do not matter for the time."""
    images = np.random.default_rng(0).integers(0, 256, (examples, *shape), dtype="uint8")
    return images, np.arange(examples) % classes


def network(shape, backbone, **options):
    """A small embedding network, or one with its own copy of a backbone; weights at random."""
    if backbone:
        return tfdml.models.from_backbone(backbone, input_shape=shape, weights=None, **options)
    inputs = keras.Input(shape, dtype="uint8")
    return tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs))


def ours(images, labels, groups, backbone=None, **options):
    """(model, batches) of metric learning with four examples per class, compiled with options."""
    model = network(images.shape[1:], backbone, dim=128)
    loss = tfdml.losses.MultiSimilarityLoss(miner=tfdml.miners.ValidTriplets(margin=0.1))
    model.compile("adam", loss=loss, **options)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=groups, examples_per_class=4, seed=0)
    return model, sampler.batches(images, labels)


def softmax(images, labels, groups, backbone=None):
    """(model, batches) of plain classification with the same network under it."""
    features = network(images.shape[1:], backbone, dim=None, normalize=False)
    model = keras.Model(features.inputs, keras.layers.Dense(int(labels.max()) + 1)(features.outputs[0]))
    model.compile("adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    batches = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).batch(4 * groups).repeat()
    return model, batches.prefetch(tf.data.AUTOTUNE)


def epochs(candidates, steps):
    """For each (model, batches), a function that trains it for so many steps."""
    settings = {"steps_per_epoch": steps, "epochs": 1, "shuffle": False, "verbose": 0}
    return {name: functools.partial(model.fit, batches, **settings) for name, (model, batches) in candidates.items()}


def step_seconds(candidates, *, steps, rounds):
    """Median seconds of a step of `fit` for each (model, batches), in turns."""
    seconds = median_seconds(epochs(candidates, steps), repeats=rounds)
    return {name: value / steps for name, value in seconds.items()}


def small_rows(quick):
    """Rows of the small network, with batches of 64 and 256."""
    data = images_and_labels(*((2_000, 200) if quick else (12_000, 870)))
    for groups in [4] if quick else [16, 64]:
        candidates = {make.__name__: make(*data, groups) for make in (ours, softmax)}
        seconds = step_seconds(candidates, steps=3 if quick else 50, rounds=1 if quick else 7)
        times = {f"{name}_ms": 1e3 * value for name, value in seconds.items()}
        yield {"batch": 4 * groups, **times, "ours_over_softmax": seconds["ours"] / seconds["softmax"]}


def row(options):
    """The row of a backbone: medians, and the quartiles of the ratio of a round."""
    data = images_and_labels(256, 64, (options.size, options.size, 3))
    candidates = {make.__name__: make(*data, options.batch_size // 4, options.backbone) for make in (ours, softmax)}
    seconds = seconds_in_turns(epochs(candidates, 1), repeats=options.rounds)
    about = {"backbone": options.backbone, "pixels": options.size, "batch": options.batch_size}
    numbers = {"rounds": options.rounds}
    kinds = zip(*(np.transpose(each) for each in seconds.values()), strict=True)
    for prefix, pairs in zip(("", "cpu_"), kinds, strict=True):
        low, middle, high = np.quantile(np.divide(*pairs), [0.25, 0.5, 0.75])
        numbers |= {f"{name}_{prefix}s": statistics.median(each) for name, each in zip(seconds, pairs, strict=True)}
        numbers |= {f"{prefix}ours_over_softmax": middle, f"{prefix}quartiles": f"{low:.3f} to {high:.3f}"}
    return about | numbers


def main():
    """Measure both and write the table."""
    settings = {"backbone": None, "size": 160, "batch_size": 32, "rounds": 24}
    options = options_of(__doc__, "fit.csv", **settings, quick={"size": 32, "batch_size": 8, "rounds": 1})
    if not options.backbone:
        return write_table(options.output, small_rows(options.quick))
    output = RESULTS / "networks.csv" if options.output.name == "fit.csv" else options.output
    return write_table(output, [row(options)])


if __name__ == "__main__":
    main()
