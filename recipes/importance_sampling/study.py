"""What the studies of importance sampling share: one training run, and the setting of all of them.

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
from keras import layers

import tfdml
from recipes import studies

NEGATIVES = tuple(2.0**power for power in range(14))
PER_CLASS = 32
PAIRS = 126  # Of a p-random batch: a sixteenth of the 2,016 pairs of a group of 64, which would take 4,032 images.


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        design: "4x16" for (4, 16)-group batches, "0.5-random" for p-random pairs.
        delta: exponent of the importance weights; 0 is no importance sampling.
        loss: "balanced" or "contrastive".
        negatives: lambda of the balanced contrastive loss.
        learning_rate: of Adam, at the start.
        seed: of the network, the batches, and the examples that are removed.
        per_class: examples of each class, or None for all, which are 32 to 224.
        removed: gamma; the share of examples that a class loses is uniform in [0, gamma].
        labels: train on so many classes only, drawn anew every 100 steps; None for all.
        watch: whether the full training loss and Recall@1 are measured every 100 steps.
        steps: training steps.
        classes: how many classes of each part are used at most.
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

    @property
    def name(self):
        """A file name that says every setting."""
        return studies.settings_of(self)


def options(description):
    """The command line of these studies."""
    quick = Run(steps=40, classes=40)
    found = studies.options(description, base=Run(), quick=quick, train=train, output="runs/importance_sampling")
    found.negatives = (256.0,) if found.quick else NEGATIVES
    return found


def with_best_negatives(options):
    """The run of (4, 16)-group batches with weights and the lambda of the highest validation Recall@1 over seeds."""
    runs = studies.tuned([replace(options.base, negatives=negatives) for negatives in options.negatives], options)

    def score(run):
        found = studies.rows_of(studies.finished(studies.over_seeds([run], options), options))
        return studies.mean_of(found, "validation recall@1")

    return max(runs, key=score)


def train(run):
    """The numbers of one run: Recall@k and MAP@R of the validation and the test classes."""
    begin = time.time()
    keras.backend.clear_session()
    keras.utils.set_random_seed(run.seed)
    (images, labels), *held_out = _data(run.classes, run.per_class)
    if run.removed:
        kept = _distorted(labels, run.removed, run.seed)
        images, labels = images[kept], labels[kept]
    sampler = _sampler(run)
    batches, seen = _batches(run, sampler, images, labels)
    importance = sampler.importance(seen, delta=run.delta) if run.delta else None
    model = _network()
    rate = keras.optimizers.schedules.ExponentialDecay(run.learning_rate, 100, 0.9, staircase=True)
    loss = _loss(run, seen, pairing=sampler.pairing, importance=importance)
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    watch = _Watch(_loss(run, seen), images, labels, held_out[1])
    epochs = run.steps // min(run.steps, 100)
    model.fit(
        batches,
        steps_per_epoch=run.steps // epochs,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[watch] if run.watch else None,
    )
    parts = [_retrieval(model, *part) for part in held_out]
    return {
        "run": asdict(run),
        **dict(zip(("validation", "test"), parts, strict=True)),
        "watched": watch.rows,
        "seconds": round(time.time() - begin, 1),
        "protocol": "glyphs/class-disjoint/exact-euclidean/v1",
        **tfdml.environment(),
    }


class _Watch(keras.callbacks.Callback):
    """The full training loss, eq. (10), and Recall@1 of the test classes after every 100 steps."""

    def __init__(self, loss, images, labels, test):
        super().__init__()
        self.loss, self.images, self.labels, self.test = loss, images, labels, test
        self.rows = []

    def on_epoch_end(self, epoch, logs=None):
        embeddings = self.model.predict(self.images, batch_size=512, verbose=0)
        full = tfdml.analysis.full_loss(self.loss, self.labels, embeddings)
        step = self.model.steps
        self.rows.append({"step": step, "full_loss": full, **_retrieval(self.model, *self.test)})


def _network():
    images = keras.Input((32, 32, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255)(images)
    x = layers.Conv2D(16, 5, strides=2, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(2)(x)
    return tfdml.models.EmbeddingModel(images, layers.Dense(64)(layers.Flatten()(x)))


def _sampler(run):
    first, kind = run.design.split("-") if "-" in run.design else (run.design, "group")
    if kind == "random":
        return tfdml.samplers.PairSampler(pairs_per_batch=PAIRS, positive_fraction=float(first), seed=run.seed)
    m, n = map(int, first.split("x"))
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
        numbered = np.searchsorted(chosen, labels[kept])  # Classes are alike in size, so one set of weights fits all.
        stretches.append(sampler.batches(images[kept], numbered, start=start).take(steps))
    return functools.reduce(tf.data.Dataset.concatenate, stretches), numbered


def _retrieval(model, images, labels):
    """Recall@k and MAP@R; all 0 where training has diverged."""
    keys = ("recall@1", "recall@2", "recall@8", "map@r")
    embeddings = model.predict(images, batch_size=512, verbose=0)
    if not np.isfinite(embeddings).all():
        return {key: 0.0 for key in keys}
    found = tfdml.metrics.retrieval(embeddings, labels, k=(1, 2, 8), metric="euclidean")
    return {key: found[key] for key in keys}


@functools.cache
def _data(classes, per_class):
    """(images, labels) of training classes in four views, and of validation and test classes in one."""
    train, *held_out = tfdml.datasets.glyphs(validation=True, views=4)
    rows = np.flatnonzero(train.labels < classes)
    if per_class is not None:
        rows = np.random.default_rng(0).permutation(rows)
        place_in_class = tfdml.samplers.class_table.class_table(train.labels[rows])
        rows = np.concatenate([rows[place_in_class.rows[s : s + per_class]] for s in place_in_class.starts])
    parts = [(train.images[rows], train.labels[rows])]
    for part in held_out:
        first_view = np.flatnonzero(part.labels[: len(part.labels) // 4] < classes)
        parts.append((part.images[first_view], part.labels[first_view]))
    return parts


def _distorted(labels, gamma, seed):
    """Rows that stay when every class loses a share of its examples, uniform in [0, gamma]; one stays at least."""
    rng, kept = np.random.default_rng(seed), []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        lost = int(rng.uniform(0, gamma) * len(rows))
        kept.append(rng.permutation(rows)[min(lost, len(rows) - 1) :])
    return np.sort(np.concatenate(kept))
