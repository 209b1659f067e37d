"""Figures 1, 2 and 5 of "A simple and effective framework" from ImageNet, where its tables are.

As `imbalance` and `top_k`, over photo patches and features of a network of ImageNet, of which a linear
layer is trained with 64,000 images: the smallest and the largest of their batches, two learning rates, five seeds.

    KERAS_BACKEND=jax python -m studies mining robust_features
"""

from dataclasses import asdict, dataclass, replace

import keras
import numpy as np

from studies import compiled
from studies.importance_sampling import trained_start
from studies.leaderboard import setting as board
from studies.leaderboard import starts
from studies.mining import imbalance, setting, top_k

SEEDS = (0, 1, 2, 3, 4)
RATES = (3e-3, 1e-2)
SIZES, TAKEN, IMAGES = (80, 640), (160, 640, 1280, 2560), 64_000


@dataclass(frozen=True)
class Run(setting.Run):
    """A run with its data and the dimension of its embeddings."""

    data: str = "photo patches"
    dim: int = 64


def rows(options):
    """One row per run and figure."""
    base, seeds = Run(**asdict(options.base)), options.seeds if options.quick else SEEDS
    rates = options.rates if options.quick else RATES
    options = replace(options, base=base, seeds=seeds, rates=rates, train=None, train_seeds=train_seeds)
    half = replace(options, base=replace(base, dim=32))
    found = {
        1: imbalance.rows(options, SIZES, IMAGES),
        5: imbalance.rows(half, SIZES[1:], IMAGES),
        2: top_k.rows(options, TAKEN, IMAGES),
    }
    return [{"figure": number, **row} for number, rows in found.items() for row in rows]


def train_seeds(runs):
    """Train runs that differ in their seeds alone, and return the results of each."""
    compiled.forget()
    parts = starts.data_of(runs[0].data, "trained", None if runs[0].classes == Run.classes else runs[0].classes)
    return trained_start.results_of(runs, parts.values(), _compiled, _rows, k=(1, 10, 100), metric="cosine")


def _compiled(run, training):
    keras.utils.set_random_seed(run.seed)
    model = trained_start.linear(run, training, run.dim, normalize=True)
    loss = setting.loss_of(run, np.unique(training.labels))
    model.compile(keras.optimizers.Adam(setting.rate_of(run)), loss=loss, jit_compile=False)
    return model


def _rows(run, labels):
    path = board.ROWS / f"robust-{run.batch}-{run.classes}-{run.seed}-{run.steps}.npy"
    return compiled.drawn_rows(path, lambda: setting.sampler_of(run), labels, run.steps)
