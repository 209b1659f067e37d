"""One training run of the studies of verification: glyphs in place of faces, at a size that one core trains in seconds.

A network of two convolutions, unit vectors of 128 numbers, batches of 80 images. Pairs of validation classes in ten
folds are decided at ten points of the training, those of test classes at its end.
"""

import time
from dataclasses import asdict, dataclass, replace

import keras
import numpy as np
from keras import layers

import tfdml
from studies import characters, runner
from tfdml import losses, miners

BATCH, POINTS = 80, 10
RATES = (3e-3, 1e-2, 3e-2)


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        loss: a key of `LOSSES`.
        per_class: number of images per class in a batch.
        dim: size of the embedding.
        learning_rate: highest learning rate of Adam; ten times as high for boundaries and proxies.
        seed: seed of the network, the batches and random miners.
        steps: number of training steps.
        classes: the largest number of classes used of each part.
    """

    loss: str = "margin"
    per_class: int = 5
    dim: int = 128
    learning_rate: float = 1e-2
    seed: int = 0
    steps: int = 300
    classes: int = 10_000


LOSSES = {
    "margin": lambda run, classes: losses.MarginLoss(
        boundary=tfdml.layers.Boundaries(), miner=miners.DistanceWeighted(seed=run.seed)
    ),
    "triplet": lambda run, classes: losses.TripletLoss(distance="squared", negatives=miners.semi_hard_negatives),
    "contrastive": lambda run, classes: losses.ContrastiveLoss(miner=miners.BalancedPairs(seed=run.seed)),
    "softmax": lambda run, classes: losses.NormalizedSoftmaxLoss(classes=classes, scale=16.0),
    "N-pairs": lambda run, classes: losses.NPairsLoss(),
}


def options(folder, *, quick=False, workers=1):
    """The run of which all others are variations."""
    if quick:
        base = Run(steps=10, classes=40)
        return runner.Options(base, train, folder, rates=RATES[:1], seeds=(0,), quick=True, workers=1)
    return runner.Options(Run(), train, folder, rates=RATES, seeds=(1, 2, 3, 4, 5), workers=workers)


def over_seeds(runs, options):
    """Results of each run with every seed, at the learning rate with the highest accuracy of validation classes."""
    grids = [[replace(run, learning_rate=rate) for rate in options.rates] for run in runs]
    trials = [replace(run, seed=0) for grid in grids for run in grid]
    results = runner.finished(trials, options)
    accuracies = {trial: result["curve"][-1]["accuracy"] for trial, result in zip(trials, results, strict=True)}
    best = [max(grid, key=lambda run: accuracies[replace(run, seed=0)]) for grid in grids]
    return runner.finished(runner.over_seeds(best, options), options)


def train(run):
    """Train one run and return accuracy and threshold over time, and the accuracy on test classes."""
    begin = time.process_time()
    keras.backend.clear_session()
    keras.utils.set_random_seed(run.seed)
    parts = [part.select_classes(np.arange(min(run.classes, len(part.class_names)))) for part in _parts()]
    model, (validation, test) = _compiled(run, parts[0]), map(_with_pairs, parts[1:])
    curve = []
    watch = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: curve.append(_decided(model, *validation)))
    sampler = tfdml.samplers.GroupSampler(
        classes_per_batch=BATCH // run.per_class, examples_per_class=run.per_class, seed=run.seed
    )
    epochs = {"steps_per_epoch": run.steps // POINTS, "epochs": POINTS, "callbacks": [watch]}
    model.fit(sampler.batches(parts[0]), **epochs, shuffle=False, verbose=0)
    return {
        "run": asdict(run),
        "curve": curve,
        "test": _decided(model, *test),
        "core_seconds": round(time.process_time() - begin, 1),
        "protocol": f"{parts[2].protocol or 'glyphs/class-disjoint/exact-cosine/v1/few-classes'}/10-folds",
        **tfdml.environment(),
    }


def _parts():
    return tfdml.datasets.glyphs(validation=True)


def _with_pairs(part):
    folds = 10 if part.labels.max() > 100 else 2
    return part, tfdml.datasets.verification_pairs(part, folds=folds, matched=300)


def _compiled(run, training):
    images = keras.Input((32, 32, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255)(images)
    for width, kernel, strides in ((16, 5, 2), (32, 3, 1)):
        x = layers.Conv2D(width, kernel, strides=strides, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.UnitNormalization()(layers.Dense(run.dim)(layers.Flatten()(x)))
    model = tfdml.models.EmbeddingModel(images, x)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, run.steps * 9 // 10, warmup_target=run.learning_rate, warmup_steps=run.steps // 10
    )
    loss = LOSSES[run.loss](run, len(training.class_names))
    multipliers = {layer.name: 10.0 for layer in loss.layers}
    optimizer = keras.optimizers.Adam(rate)
    model.compile(optimizer, loss=loss, learning_rate_multipliers=multipliers, jit_compile=False)
    return model


def _decided(model, part, pairs):
    """Accuracy over folds, and the mean threshold as a distance of unit vectors."""
    x = characters.embedded(model, part.images)
    scores = tfdml.metrics.pair_scores(x[pairs.first], x[pairs.second])
    decisions = tfdml.metrics.fold_accuracy(scores, pairs.same, pairs.folds)
    cosines = np.clip(decisions.thresholds, -1, 1)
    return {
        "accuracy": float(decisions.accuracies.mean()),
        "threshold": float(np.sqrt(2 - 2 * cosines).mean()),
    }
