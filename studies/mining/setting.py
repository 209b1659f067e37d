"""One training run of the studies of mining.

Batches hold 5 images per class, as in Wu et al., Sampling Matters in Deep Embedding Learning. Everything is of a size
that two cores train: 676 characters with 32 images each, a network of two convolutions instead of ResNet-50, unit
vectors of 64 dimensions, 1,000 steps whose learning rate falls by a tenth every 50, Recall@1 on 854 other characters.
"""

import time
from dataclasses import asdict, dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import tfdml
from studies import characters, runner
from tfdml import layers, losses, miners

PER_CLASS = 32
IN_BATCH = 5
OF_EXAMPLES = "learned, with one per example"


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        loss: a loss that `loss_of` knows.
        mining: a key of `MINERS`, of `NEGATIVES` for triplets, or of `UNCERTAINTIES` for robust losses.
        batch: number of images in a batch, 5 per class.
        boundary: boundary of the margin loss on distances, "learned" for one per class, or `OF_EXAMPLES`.
        k: number of ordered pairs that TopK takes.
        gamma: temperature of KL.
        learning_rate: initial learning rate of Adam.
        seed: seed of the network, the batches and random miners.
        steps: number of training steps.
        classes: the largest number of classes used of each part.
    """

    loss: str = "margin"
    mining: str = "distance weighted"
    batch: int = 80
    boundary: float | str = 1.2
    k: int = 320
    gamma: float = 0.1
    learning_rate: float = 3e-3
    seed: int = 0
    steps: int = 1000
    classes: int = 10_000


MINERS = {
    "all": lambda run: None,
    "random": lambda run: miners.BalancedPairs(seed=run.seed),
    "semi-hard": lambda run: miners.SemiHard(min_distance=0.5),
    "semi-hard on similarities": lambda run: miners.SemiHard(min_distance=0.5, distance="cosine"),
    "distance weighted": lambda run: miners.DistanceWeighted(seed=run.seed),
    "valid triplets": lambda run: miners.ValidTriplets(),
}
NEGATIVES = {
    "random": lambda run: miners.RandomNegatives(seed=run.seed),
    "semi-hard": lambda run: miners.semi_hard_negatives,
    "distance weighted": lambda run: miners.DistanceWeightedNegatives(seed=run.seed),
}
UNCERTAINTIES = {
    "top k": lambda run: losses.uncertainty.TopK(run.k),
    "top k balanced": lambda run: losses.uncertainty.TopKBalanced(run.k),
    "KL": lambda run: losses.uncertainty.KL(run.gamma),
    "grouped KL": lambda run: losses.uncertainty.GroupedKL(run.gamma),
    "grouped KL of all pairs": lambda run: losses.uncertainty.GroupedKL(run.gamma, keep_zero_losses=True),
}
ON_SIMILARITIES = {"margin": 0.2, "boundary": 0.5, "distance": "cosine"}  # as in A Simple and Effective Framework
BASES = {
    "margin on similarities": lambda: losses.MarginLoss(**ON_SIMILARITIES),
    "open margin on similarities": lambda: losses.MarginLoss(**{**ON_SIMILARITIES, "margin": 4.0}),  # no loss is 0
    "binomial": lambda: losses.BinomialDevianceLoss(),
}


def options(folder, *, quick=False, workers=2):
    """The runs that the studies of mining vary, kept in `folder`."""
    rates = (1e-3, 3e-3, 1e-2, 3e-2)
    if quick:
        base = Run(steps=30, classes=20)
        return runner.Options(base, train, folder, rates[-1:], seeds=(0,), quick=True, workers=1)
    return runner.Options(Run(), train, folder, rates, workers=workers)


def loss_of(run, class_ids):
    """The loss of a run."""
    if run.loss.startswith("triplet"):
        distance = "squared" if run.loss == "triplet squared" else "euclidean"
        return losses.TripletLoss(distance=distance, negatives=NEGATIVES[run.mining](run))
    if run.mining in UNCERTAINTIES:
        return losses.RobustLoss(BASES[run.loss](), uncertainty=UNCERTAINTIES[run.mining](run))
    boundary = boundary_of(run, class_ids)
    miner = MINERS[run.mining](run)
    return {
        "contrastive": lambda: losses.ContrastiveLoss(miner=miner),
        "margin": lambda: losses.MarginLoss(boundary=boundary, miner=miner),
        "margin on similarities": lambda: losses.MarginLoss(**ON_SIMILARITIES, miner=miner),
        "binomial": lambda: losses.BinomialDevianceLoss(miner=miner),
        "multi-similarity": lambda: losses.MultiSimilarityLoss(miner=miner),
        "equal weights": lambda: losses.CosineContrastiveLoss(threshold=-1.0, miner=miner),
        "lifted structure": lambda: losses.GeneralizedLiftedLoss(margin=0.0, distance="cosine", miner=miner),
    }[run.loss]()


def boundary_of(run, class_ids):
    """The boundary of the margin loss: a number, or learned for each class, or also for each example."""
    if run.boundary not in ("learned", OF_EXAMPLES):
        return run.boundary
    examples = PER_CLASS * len(class_ids) if run.boundary == OF_EXAMPLES else 0
    return layers.Boundaries(class_ids=class_ids, examples=examples)


def train(run):
    """Train one run and return its results: Recall@k and MAP@R of the validation and the test classes."""
    begin = time.time()
    model, batches, held_out = prepared(run)
    model.fit(batches, steps_per_epoch=run.steps, shuffle=False, verbose=0)
    found = [characters.retrieval(model, *part, k=(1, 10, 100), metric="cosine") for part in held_out]
    return {
        "run": asdict(run),
        **dict(zip(("validation", "test"), found, strict=True)),
        "learned": boundary_range(model.loss),
        "seconds": round(time.time() - begin, 1),
        "protocol": "glyphs/class-disjoint/exact-cosine/v1",
        **tfdml.environment(),
    }


def boundary_range(loss):
    """The lowest and the highest boundary of a class, where a loss learns one for each class alone."""
    learned = [layer for layer in loss.layers if isinstance(layer, layers.Boundaries) and not layer.examples]
    values = [float(layer.base + end(layer.of_classes)) for layer in learned for end in (ops.amin, ops.amax)]
    return dict(zip(("lowest boundary", "highest boundary"), values, strict=False))


def prepared(run):
    """The compiled model of a run, its training batches, and its validation and test parts."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(run.seed)
    (images, labels), *held_out = characters.parts(run.classes, PER_CLASS)
    model = characters.network(normalize=True, dim=getattr(run, "dim", 64))
    model.compile(keras.optimizers.Adam(rate_of(run)), loss=loss_of(run, np.unique(labels)))
    return model, _batches(run, sampler_of(run), images, labels), held_out


def sampler_of(run):
    """The sampler of a run."""
    classes = run.batch // IN_BATCH
    return tfdml.samplers.GroupSampler(classes_per_batch=classes, examples_per_class=IN_BATCH, seed=run.seed)


def rate_of(run):
    """The learning rate of a run, which falls by a tenth 20 times."""
    return keras.optimizers.schedules.ExponentialDecay(run.learning_rate, max(run.steps // 20, 1), 0.9, staircase=True)


def _batches(run, sampler, images, labels):
    """Training batches; with boundaries per example, labels are class ids and rows."""
    if run.boundary != OF_EXAMPLES:
        return sampler.batches(images, labels)
    return sampler.batches(np.arange(len(labels)), labels).map(
        lambda rows, _: (tf.gather(images, rows), tf.stack([tf.gather(labels, rows), rows], axis=1))
    )
