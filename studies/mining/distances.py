"""Figures 3b and 7 of "Sampling matters": how far apart negatives are, and which of them each strategy draws.

Margin loss with distance-weighted sampling. The negatives of the test characters at five points of the training, and
what the strategies draw from a batch of 640 training images at its end.
"""

from dataclasses import replace

import keras
import numpy as np

import tfdml
from studies import characters, figures, runner
from studies.mining import setting
from tfdml import analysis, miners

BINS = 50
EPOCHS = 20
SHOWN = (0, 1, 2, 5, 20)
STRATEGIES = {
    "random": lambda: miners.BalancedPairs(seed=0),
    "hardest": lambda: miners.HardestNegatives(),
    "semi-hard": lambda: miners.SemiHard(min_distance=0.5),
    "distance weighted": lambda: miners.DistanceWeighted(seed=0),
}


def rows(options):
    """One row per bin of each histogram."""
    run = replace(options.base, learning_rate=1e-2)
    model, batches, (_, test) = setting.prepared(run)
    histograms = _over_time(run, model, batches, *test) | _by_strategy(run, model)
    about = {"protocol": "glyphs/class-disjoint/exact-cosine/v1", **tfdml.environment()}
    return [
        {"panel": panel, "name": name, "distance": float(distance), "density": float(density), **about}
        for (panel, name), found in histograms.items()
        for distance, density in zip(*found, strict=True)
    ]


def _over_time(run, model, batches, images, labels):
    """Train, and take a histogram before the first step and after some of the epochs."""
    histograms = {}

    def look(epoch):
        if epoch in SHOWN:
            name = f"{epoch * run.steps // EPOCHS} steps"
            histograms["time", name] = histogram(characters.embedded(model, images), labels)

    look(0)
    watch = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: look(epoch + 1))
    epochs = {"steps_per_epoch": max(run.steps // EPOCHS, 1), "epochs": EPOCHS, "callbacks": [watch]}
    model.fit(batches, **epochs, shuffle=False, verbose=0)
    return histograms


def _by_strategy(run, model):
    """A histogram of what each strategy draws from one batch."""
    train, *_ = characters.parts(run.classes, setting.PER_CLASS)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=min(128, run.classes), examples_per_class=5, seed=1)
    images, labels = next(iter(sampler.batches(*train)))
    embeddings = characters.embedded(model, images)
    return {
        ("strategy", name): histogram(embeddings, np.asarray(labels), miner=make()) for name, make in STRATEGIES.items()
    }


def histogram(embeddings, labels, miner=None):
    """The centers of the bins, and the density of the distances of negatives."""
    found = analysis.pair_histogram(embeddings, labels, bins=BINS, miner=miner)
    density = found.negative / max(found.negative.sum(), 1) / np.diff(found.edges)
    return (found.edges[1:] + found.edges[:-1]) / 2, density


def draw(path, rows):
    """The negatives over time, and what each strategy draws, by distance."""

    def panels(*axes):
        for axis, panel in zip(axes, ("time", "strategy"), strict=True):
            histograms = runner.where(rows, panel=panel)
            for color, name in zip(figures.COLORS, dict.fromkeys(row["name"] for row in histograms), strict=False):
                bins = runner.where(histograms, name=name)
                axis.plot(*([row[key] for row in bins] for key in ("distance", "density")), color=color, label=name)
            axis.set(xlabel="distance of a negative pair", ylabel="density", ylim=(0, None))
        axes[0].set_title("test characters, all negatives")
        axes[1].set_title("a batch, drawn negatives")

    figures.save(path, panels, columns=2)
