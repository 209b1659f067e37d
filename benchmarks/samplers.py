"""Batches per second from images in memory: our samplers, `shuffle().batch()`, the sampler of pytorch-metric-learning.

All give batches of 64 from 32 x 32 images: 16 classes with 4 images each, also for the peer, except for pairs and
uniform batches. A pass is 100,000 images, after which the peer draws its next list of rows; this counts, since it
happens in each pass. PyTorch runs in its own process. Passes take turns, and the median counts.

    python benchmarks/samplers.py            # six minutes on two cores, 6 GiB
    python benchmarks/samplers.py --quick    # a small set; --no-peers leaves PyTorch out
"""

import statistics
import time
from itertools import islice

import numpy as np
from _report import of_process, options_of, require_peers, timed, write_table

DATA = [
    {"classes": 100, "examples": 50_000},
    {"classes": 1_730, "examples": 34_600},
    {"classes": 22_634, "examples": 1_000_000},
]
QUICK = [{"classes": 100, "examples": 800}]
CLASSES_PER_BATCH, EXAMPLES_PER_CLASS = 16, 4
BATCH = CLASSES_PER_BATCH * EXAMPLES_PER_CLASS
PEER_PACKAGES = ("torch", "pytorch-metric-learning")


def make_data(classes, examples):
    """Images `(examples, 32, 32, 1)` and labels in mixed order; classes have 4 images or more, unevenly."""
    rng = np.random.default_rng(0)
    more = rng.integers(0, classes, examples - EXAMPLES_PER_CLASS * classes)
    labels = rng.permutation(np.concatenate([np.repeat(np.arange(classes), EXAMPLES_PER_CLASS), more]))
    return rng.integers(0, 256, (examples, 32, 32, 1), np.uint8), labels


def tensorflow_ways(images, labels, steps):
    """name -> function that prepares a way and returns a function, each call of which gives the batches of one pass."""
    import tensorflow as tf

    from tfdml import samplers

    images = tf.constant(images)
    rng = np.random.default_rng(0)
    classes = int(labels.max()) + 1
    centers = samplers.ClassCenters(labels, dim=64)
    centers.refresh(rng.standard_normal((classes, 64)), np.arange(classes))
    settings = {"classes_per_batch": CLASSES_PER_BATCH, "examples_per_class": EXAMPLES_PER_CLASS}
    group, uniform = samplers.GroupSampler(**settings), samplers.UniformSampler(batch_size=BATCH)
    ours = [
        group,
        samplers.PKSampler(**settings),
        samplers.PairSampler(pairs_per_batch=BATCH // 2, positive_fraction=0.5),
        uniform,
        samplers.EpisodeSampler(ways=CLASSES_PER_BATCH, shots=1, queries=EXAMPLES_PER_CLASS - 1),
        samplers.HierarchicalSampler(
            super_classes=np.arange(classes) % 10,
            super_classes_per_batch=2,
            classes_per_super_class=CLASSES_PER_BATCH // 2,
            examples_per_class=EXAMPLES_PER_CLASS,
        ),
        samplers.HardClassSampler(**settings, centers=centers),
        samplers.MixedSampler(samplers=(group, uniform), weights=(1, 1)),
    ]

    def passes(dataset):
        batches = iter(dataset)
        return lambda: islice(batches, steps)

    def sampled(sampler):
        return lambda: passes(sampler.batches(images, labels))

    def shuffled():
        return passes(tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).repeat().batch(BATCH))

    return {**{type(sampler).__name__: sampled(sampler) for sampler in ours}, "shuffle().batch()": shuffled}


def torch_ways(images, labels, steps):
    """The same for the peer, without and with worker processes."""
    import torch
    from pytorch_metric_learning.samplers import MPerClassSampler
    from torch.utils.data import DataLoader, TensorDataset

    dataset = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))

    def loaded(workers):
        def make():
            sampler = MPerClassSampler(labels, EXAMPLES_PER_CLASS, BATCH, length_before_new_iter=steps * BATCH)
            loader = DataLoader(dataset, BATCH, sampler=sampler, num_workers=workers, persistent_workers=workers > 0)
            return lambda: iter(loader)

        return make

    return {f"MPerClassSampler, {workers} workers": loaded(workers) for workers in (0, 2)}


def measure(ways, *, steps, rounds):
    """Rows of way, batches a second (median over rounds, one pass each) and seconds to the first batch of all."""
    firsts, passes = {}, {}
    for name, make in ways.items():
        begin = time.perf_counter()
        passes[name] = make()
        batches = passes[name]()
        next(batches)
        firsts[name] = time.perf_counter() - begin
        count(batches)
    rates = {name: [] for name in ways}
    for _ in range(rounds):
        for name in ways:
            number, seconds, _ = timed(lambda: count(passes[name]()))  # noqa: B023
            rates[name].append(number / seconds)
            if number != steps:
                raise SystemExit(f"{name} gave {number} batches, expected {steps}; the rates would not compare.")
    return [(name, statistics.median(rates[name]), firsts[name]) for name in ways]


def count(batches):
    """Take all batches and return their number."""
    return sum(1 for _ in batches)


def measure_torch(data, options):
    """`measure` of `torch_ways`, in a process without TensorFlow's threads."""
    return measure(torch_ways(*make_data(**data), options["steps"]), **options)


def rows_of(data, settings, peers):
    """A row for each way, on one set of images."""
    found = measure(tensorflow_ways(*make_data(**data), settings["steps"]), **settings)
    found += of_process(__file__, data, settings) if peers else []
    shuffle = next(rate for way, rate, _ in found if way == "shuffle().batch()")
    for way, rate, first in found:
        rates = {"batches_per_second": rate, "images_per_second": BATCH * rate, "over_shuffle": rate / shuffle}
        yield {**data, "way": way, **rates, "first_batch_s": first}


def main():
    """Measure every way on every set of images and write the table."""
    options = options_of(__doc__, "samplers.csv", case=measure_torch, peers=True)
    if options.peers:
        require_peers("torch", "pytorch_metric_learning")
    settings = {"steps": 10, "rounds": 1} if options.quick else {"steps": 100_000 // BATCH, "rounds": 5}
    sets = QUICK if options.quick else DATA
    rows = [row for data in sets for row in rows_of(data, settings, options.peers)]
    write_table(options.output, rows, *(PEER_PACKAGES if options.peers else ()))


if __name__ == "__main__":
    main()
