"""Figures 3b and 7 of "Sampling matters": how far apart negatives are, and which of them each strategy draws.

Margin loss with distance-weighted sampling. The negatives of the test characters at five times of the training, and
what the strategies draw from a batch of 640 training images at its end.

    python -m recipes.mining.distances            # a minute on two cores
    python -m recipes.mining.distances --quick    # a taste of it
"""

from dataclasses import replace

import keras
import numpy as np

import tfdml
from recipes import figures, studies
from recipes.mining import study
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
    """A row for every bin of every histogram."""
    run = replace(options.base, learning_rate=1e-2)
    model, batches, (_, (images, labels)) = study.prepared(run)
    histograms = {}

    def look(epoch):
        if epoch in SHOWN:
            embeddings = model.predict(images, batch_size=512, verbose=0)
            histograms["time", f"{epoch * run.steps // EPOCHS} steps"] = histogram(embeddings, labels)

    look(0)
    watch = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: look(epoch + 1))
    epochs = {"steps_per_epoch": max(run.steps // EPOCHS, 1), "epochs": EPOCHS, "callbacks": [watch]}
    model.fit(batches, **epochs, shuffle=False, verbose=0)
    (images, labels), *_ = study.data(run.classes)
    batch = tfdml.samplers.GroupSampler(classes_per_batch=min(128, run.classes), examples_per_class=5, seed=1)
    images, labels = next(iter(batch.batches(images, labels)))
    embeddings = model.predict(images, batch_size=512, verbose=0)
    for name, make in STRATEGIES.items():
        histograms["strategy", name] = histogram(embeddings, np.asarray(labels), miner=make())
    about = {"protocol": "glyphs/class-disjoint/exact-cosine/v1", **tfdml.environment()}
    return [
        {"panel": panel, "name": name, "distance": float(distance), "density": float(density), **about}
        for (panel, name), found in histograms.items()
        for distance, density in zip(*found, strict=True)
    ]


def histogram(embeddings, labels, miner=None):
    """The middles of bins, and the density of the distances of negatives."""
    found = analysis.pair_histogram(embeddings, labels, bins=BINS, miner=miner)
    density = found.negative / max(found.negative.sum(), 1) / np.diff(found.edges)
    return (found.edges[1:] + found.edges[:-1]) / 2, density


def draw(path, rows):
    """The negatives by time, and what each strategy draws, over distance."""

    def axes(*panels):
        for axis, panel in zip(panels, ("time", "strategy"), strict=True):
            own = studies.where(rows, panel=panel)
            for color, name in zip(figures.COLORS, dict.fromkeys(row["name"] for row in own), strict=False):
                of_name = studies.where(own, name=name)
                axis.plot(*([row[key] for row in of_name] for key in ("distance", "density")), color=color, label=name)
            axis.set(xlabel="distance of a negative pair", ylabel="density", ylim=(0, None))
        panels[0].set_title("test characters, all negatives")
        panels[1].set_title("a batch, drawn negatives")

    figures.save(path, axes, columns=2)


if __name__ == "__main__":
    found = study.options(__doc__.splitlines()[0])
    of_bins = rows(found)
    studies.write_rows(found.output / "distances.csv", of_bins)
    draw(found.output / "distances.png", of_bins)
