"""One training run of the studies of importance sampling.

The setting follows section 6 of Hong, Park and Kim, Deep Metric Learning via Weighted Contrastive Loss, at a size that
two cores train: 676 characters with 32 images each instead of birds, a network of two convolutions instead of
ResNet-50, 2,000 steps whose learning rate falls by a tenth every 100, Recall@1 on 854 other characters.
"""

import functools
import time
from dataclasses import asdict, dataclass, replace

import keras
import numpy as np
import tensorflow as tf

import tfdml
from studies import characters, runner

NEGATIVES = tuple(2.0**power for power in range(14))
PER_CLASS = 32
PAIRS = 126  # Of a p-random batch: a sixteenth of the 2,016 pairs of a group of 64, which would take 4,032 images.


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        design: "4x16" for (4, 16)-group batches, "0.5-random" for `PAIRS` p-random pairs, "0.5-random-2016" for 2,016.
        delta: exponent of the importance weights; 0 turns importance sampling off.
        loss: "balanced" or "contrastive".
        negatives: lambda of the balanced contrastive loss.
        learning_rate: initial learning rate of Adam.
        seed: seed of the network, the batches, and the examples that are removed.
        per_class: number of examples per class, or None for all, which are 32 to 224.
        removed: gamma; the share of examples that a class loses is uniform in [0, gamma].
        labels: number of classes to train on, drawn again every 100 steps; None for all.
        watch: whether the full training loss and Recall@1 are measured every 100 steps.
        steps: number of training steps.
        classes: the largest number of classes used of each part.
    """

    design: str = "4x16"
    delta: float = 1.0
    loss: str = "balanced"
    negatives: float = 256.0
    learning_rate: float = 1e-2
    seed: int = 0
    per_class: int | None = PER_CLASS
    removed: float = 0.0
    labels: int | None = None
    watch: bool = False
    steps: int = 2000
    classes: int = 10_000


def options(folder, *, quick=False, workers=2):
    """The runs that the studies of importance sampling vary, kept in `folder`."""
    if quick:
        base = Run(steps=40, classes=40)
        return runner.Options(base, train, folder, (1e-2,), seeds=(0,), quick=True, workers=1)
    return runner.Options(Run(), train, folder, workers=workers)


def with_each_lambda(options):
    """The base run with each lambda of the balanced contrastive loss, the paper's alone if `options.quick`."""
    lambdas = [options.base.negatives] if options.quick else NEGATIVES
    return [replace(options.base, negatives=negatives) for negatives in lambdas]


def with_best_lambda(options):
    """The base run with the lambda of the highest validation Recall@1, as the mean over seeds."""

    def score(run):
        return runner.mean_of(runner.repeated([run], options), "validation recall@1")

    return max(runner.tuned(with_each_lambda(options), options), key=score)


def train(run):
    """Train one run and return its results: Recall@k and MAP@R of the validation and the test classes."""
    begin = time.time()
    keras.backend.clear_session()
    keras.utils.set_random_seed(run.seed)
    (images, labels), *held_out = characters.parts(run.classes, run.per_class)
    if hasattr(run, "training_classes"):
        kept = labels < run.training_classes
        images, labels = images[kept], labels[kept]
    if run.removed:
        kept = _thinned(labels, run.removed, run.seed)
        images, labels = images[kept], labels[kept]
    watch = _Watch(_loss(run, labels), images, labels, held_out[1])
    model = _fitted(run, images, labels, callbacks=[watch] if run.watch else None)
    found = [_retrieval(model, *part) for part in held_out]
    return {
        "run": asdict(run),
        **dict(zip(("validation", "test"), found, strict=True)),
        "watched": watch.rows,
        "seconds": round(time.time() - begin, 1),
        "protocol": "glyphs/class-disjoint/exact-euclidean/v1",
        **tfdml.environment(),
    }


def _fitted(run, images, labels, callbacks):
    """The trained model of a run."""
    sampler = sampler_of(run)
    batches, seen = _batches(run, sampler, images, labels)
    importance = sampler.importance(seen, delta=run.delta) if run.delta else None
    model = characters.network(normalize=False)
    rate = keras.optimizers.schedules.ExponentialDecay(run.learning_rate, 100, 0.9, staircase=True)
    loss = _loss(run, seen, pairing=sampler.pairing, importance=importance)
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    epochs = run.steps // min(run.steps, 100)
    steps = run.steps // epochs
    model.fit(batches, steps_per_epoch=steps, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks)
    return model


class _Watch(keras.callbacks.Callback):
    """The full training loss, eq. (10), and Recall@1 of the test classes after every 100 steps."""

    def __init__(self, loss, images, labels, test):
        super().__init__()
        self.loss, self.images, self.labels, self.test = loss, images, labels, test
        self.rows = []

    def on_epoch_end(self, epoch, logs=None):
        full = tfdml.analysis.full_loss(self.loss, characters.embedded(self.model, self.images), self.labels)
        found = _retrieval(self.model, *self.test)
        self.rows.append({"step": self.model.steps, "full_loss": full, **found})


def _retrieval(model, images, labels):
    return characters.retrieval(model, images, labels, k=(1, 2, 8), metric="euclidean")


def sampler_of(run):
    """The sampler of the design of a run."""
    if "-" in run.design:
        fraction, _, *pairs = run.design.split("-")
        pairs_per_batch = int(pairs[0]) if pairs else PAIRS
        return tfdml.samplers.PairSampler(
            pairs_per_batch=pairs_per_batch, positive_fraction=float(fraction), seed=run.seed
        )
    m, n = map(int, run.design.split("x"))
    return tfdml.samplers.GroupSampler(classes_per_batch=n, examples_per_class=m, seed=run.seed)


def _loss(run, labels, **options):
    if run.loss == "contrastive":
        return tfdml.losses.ContrastiveLoss(**options)
    counts = dict(zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True))
    return tfdml.losses.BalancedContrastiveLoss(class_counts=counts, negatives_per_positive=run.negatives, **options)


def _batches(run, sampler, images, labels):
    """The stream of training batches, and the labels of the set that it draws from."""
    if run.labels is None:
        return sampler.batches(images, labels), labels
    rng = np.random.default_rng(run.seed)
    stretches, steps = [], min(run.steps, 100)
    for start in range(0, run.steps, steps):
        chosen = np.sort(rng.choice(np.unique(labels), run.labels, replace=False))
        kept = np.isin(labels, chosen)
        numbered = np.searchsorted(chosen, labels[kept])  # Classes have one size, so weights are the same.
        stretches.append(sampler.batches(images[kept], numbered, start=start).take(steps))
    return functools.reduce(tf.data.Dataset.concatenate, stretches), numbered


def _thinned(labels, gamma, seed):
    """The rows left when each class loses a share of its examples, uniform in [0, gamma], but never its last one."""
    rng, kept = np.random.default_rng(seed), []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        lost = int(rng.uniform(0, gamma) * len(rows))
        kept.append(rng.permutation(rows)[min(lost, len(rows) - 1) :])
    return np.sort(np.concatenate(kept))
