"""What the studies of mining share: one training run, and the setting of all of them.

Batches are of 5 images a class, as in Wu et al., Sampling Matters in Deep Embedding Learning. Everything is of a size
that two cores train: 676 characters with 32 images each, a network of two convolutions instead of ResNet-50, unit
vectors of 64 dimensions, 1,000 steps whose learning rate falls by a tenth every 50, Recall@1 on 854 other characters.
"""

import functools
import time
from dataclasses import asdict, dataclass

import keras
import numpy as np
from keras import layers

import tfdml
from recipes import studies
from tfdml import losses, miners

PER_CLASS = 32
IN_BATCH = 5


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        loss: a name of `LOSSES`.
        mining: a name of `MINERS`, of `NEGATIVES` for triplets, or of `UNCERTAINTIES` for robust losses.
        batch: images in a batch, 5 of each class.
        boundary: of the margin loss on distances, or "learned" for one of each class.
        k: ordered pairs that TopK takes.
        gamma: temperature of KL.
        learning_rate: of Adam, at the start.
        seed: of the network, the batches and the draws of miners.
        steps: training steps.
        classes: how many classes of each part are used at most.
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

    @property
    def name(self):
        """A file name that says every setting."""
        return studies.settings_of(self).replace(" ", "-")


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
    "top k": lambda run: losses.TopK(run.k),
    "top k balanced": lambda run: losses.TopKBalanced(run.k),
    "KL": lambda run: losses.KL(run.gamma),
    "grouped KL": lambda run: losses.GroupedKL(run.gamma),
}
ON_SIMILARITIES = {"margin": 0.2, "boundary": 0.5, "distance": "cosine"}  # as A Simple and Effective Framework has it


def loss_of(run, class_ids):
    """The loss of a run."""
    if run.loss.startswith("triplet"):
        distance = "squared" if run.loss == "triplet squared" else "euclidean"
        return losses.TripletLoss(distance=distance, negatives=NEGATIVES[run.mining](run))
    if run.loss == "margin on similarities" and run.mining in UNCERTAINTIES:
        base = losses.MarginLoss(**ON_SIMILARITIES)
        return losses.RobustLoss(base, uncertainty=UNCERTAINTIES[run.mining](run))
    boundary = losses.Boundaries(class_ids=class_ids) if run.boundary == "learned" else run.boundary
    miner = MINERS[run.mining](run)
    return {
        "contrastive": lambda: losses.ContrastiveLoss(miner=miner),
        "margin": lambda: losses.MarginLoss(boundary=boundary, miner=miner),
        "margin on similarities": lambda: losses.MarginLoss(**ON_SIMILARITIES, miner=miner),
        "binomial": lambda: losses.BinomialDevianceLoss(miner=miner),
        "RAW": lambda: losses.MultiSimilarityLoss(miner=miner),
        "equal weights": lambda: losses.CosineContrastiveLoss(threshold=-1.0, miner=miner),
        "lifted structure": lambda: losses.GeneralizedLiftedLoss(margin=0.0, distance="cosine", miner=miner),
    }[run.loss]()


def options(description):
    """The command line of these studies."""
    quick = Run(steps=30, classes=20)
    return studies.options(
        description, base=Run(), quick=quick, train=train, output="runs/mining", rates=(1e-3, 3e-3, 1e-2, 3e-2)
    )


def train(run):
    """The numbers of one run: Recall@k and MAP@R of the validation and the test classes."""
    begin = time.time()
    model, batches, held_out = prepared(run)
    model.fit(batches, steps_per_epoch=run.steps, shuffle=False, verbose=0)
    parts = [_retrieval(model, *part) for part in held_out]
    return {
        "run": asdict(run),
        **dict(zip(("validation", "test"), parts, strict=True)),
        "seconds": round(time.time() - begin, 1),
        "protocol": "glyphs/class-disjoint/exact-cosine/v1",
        **tfdml.environment(),
    }


def prepared(run):
    """A run before its first step: the compiled model, the training batches, and the validation and the test part."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(run.seed)
    (images, labels), *held_out = data(run.classes)
    sampler = tfdml.samplers.GroupSampler(
        classes_per_batch=run.batch // IN_BATCH, examples_per_class=IN_BATCH, seed=run.seed
    )
    model = _network()
    rate = keras.optimizers.schedules.ExponentialDecay(run.learning_rate, max(run.steps // 20, 1), 0.9, staircase=True)
    model.compile(keras.optimizers.Adam(rate), loss=loss_of(run, np.unique(labels)))
    return model, sampler.batches(images, labels), held_out


def _network():
    images = keras.Input((32, 32, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255)(images)
    x = layers.Conv2D(16, 5, strides=2, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Dense(64)(layers.Flatten()(x))
    return tfdml.models.EmbeddingModel(images, layers.UnitNormalization()(x))


def _retrieval(model, images, labels):
    """Recall@k and MAP@R; all 0 where training has diverged or collapsed."""
    keys = ("recall@1", "recall@10", "recall@100", "map@r")
    embeddings = model.predict(images, batch_size=512, verbose=0)
    if not np.isfinite(embeddings).all() or np.ptp(embeddings, axis=0).max() < 1e-4:
        return {key: 0.0 for key in keys}
    found = tfdml.metrics.retrieval(embeddings, labels, k=(1, 10, 100))
    return {key: found[key] for key in keys}


@functools.cache
def data(classes):
    """(images, labels) of training classes in four views, and of validation and test classes in one."""
    train, *held_out = tfdml.datasets.glyphs(validation=True, views=4)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(train.labels < classes))
    table = tfdml.samplers.draws.class_table(train.labels[rows])
    rows = np.concatenate([rows[table.rows[start : start + PER_CLASS]] for start in table.starts])
    parts = [(train.images[rows], train.labels[rows])]
    for part in held_out:
        first_view = np.flatnonzero(part.labels[: len(part.labels) // 4] < classes)
        parts.append((part.images[first_view], part.labels[first_view]))
    return parts
