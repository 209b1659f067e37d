"""One training run of re-identification: glyphs, with type designs as cameras, as in recipes/reidentification.py."""

import functools
import json
import time
from dataclasses import asdict, dataclass

import keras

import tfdml
from recipes import reidentification as recipe
from studies import characters, pages, runner

RATES = {"softmax": (1e-3, 3e-3, 1e-2), "batch hard": (3e-4, 1e-3, 3e-3)}  # batch hard collapses at 1e-2
PARTS = ("train", "validation", "test")
NEIGHBORS = [{"k": k, "alpha": alpha} for k in (1, 2, 4, 8) for alpha in (0.0, 3.0)]
GRID = {
    "query expansion": [{"expand": each} for each in NEIGHBORS],
    "database augmentation": [{"augment": each} for each in NEIGHBORS],
    "both": [{"augment": each, "expand": each} for each in NEIGHBORS],
    "whitening": [{"whiten": {"dim": dim, "shrinkage": s}} for dim in (64, 128) for s in (0.03, 0.1, 0.3, 1.0)],
    "k-reciprocal": [{"rerank": {"k1": k1, "k2": k2}} for k1 in (8, 12, 20) for k2 in (2, 4)],
}

OFFLINE = "triplet, mined offline"  # OHM of the slides: batches are triplets of the hardest pairs of the training set
TARGETED = f"{OFFLINE}, half of them active"  # the same with `target=0.5` of `MinedPairs`
EUCLIDEAN = {"distance": "euclidean"}


def _random(run, **options):
    return tfdml.losses.TripletLoss(negatives=tfdml.miners.RandomNegatives(seed=run.seed), **EUCLIDEAN, **options)


def _of_rows(run, **options):
    return tfdml.losses.TripletLoss(pairing=tfdml.pairs.triplet_rows, **EUCLIDEAN, **options)


LOSSES = {
    "triplet": _random,
    OFFLINE: _of_rows,
    "batch hard": lambda run, **options: tfdml.losses.BatchHardTripletLoss(**options),
    "batch hard, nonzero": lambda run, **options: tfdml.losses.BatchHardTripletLoss(normalize="active", **options),
    "batch all": lambda run, **options: tfdml.losses.TripletLoss(**EUCLIDEAN, **options),
    "batch all, nonzero": lambda run, **options: tfdml.losses.TripletLoss(normalize="active", **EUCLIDEAN, **options),
    "lifted, all positives": lambda run, **options: tfdml.losses.GeneralizedLiftedLoss(**options),
    "lifted, one positive": lambda run, **options: tfdml.losses.LiftedStructureLoss(squared=False, **options),
    TARGETED: _of_rows,
}
# Elsewhere, all terms are above 0, or the margin is soft already.
SOFT = ("triplet", OFFLINE, "batch hard", "batch all", TARGETED)


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        loss: "softmax", or a key of `LOSSES`.
        margin: margin of the loss as text, or "soft".
        learning_rate: highest learning rate of Adam.
        seed: seed of the network and the batches.
        part: the part that is measured, "validation" in trials and "test" in the runs of what they chose.
        refinements: "none", "grid" for all of `GRID`, or "chosen" for those of the recipe.
        metric: distance of the search.
        steps: number of training steps.
        classes: the largest number of classes used of each part.
    """

    loss: str = "batch hard"
    margin: str = "soft"
    learning_rate: float = 3e-3
    seed: int = 0
    part: str = "test"
    refinements: str = "none"
    metric: str = "cosine"
    steps: int = 400
    classes: int = 10_000


def options(folder, *, quick=False, workers=2):
    """The run of which all others are variations. The seeds of the test are not the seed of the trials."""
    if quick:
        return runner.Options(Run(steps=10, classes=30), train, folder, seeds=(1,), quick=True, workers=1)
    return runner.Options(Run(), train, folder, seeds=(1, 2, 3, 4, 5), workers=workers)


def train(run):
    """Train one run and return its results on the part that it measures, by refinement."""
    begin = time.process_time()
    keras.backend.clear_session()
    training, measured = (characters.first_classes(_glyphs()[name], run.classes) for name in ("train", run.part))
    fit = {"rate": run.learning_rate, "steps": run.steps, "seed": run.seed, "mined": mined_for(run, training.labels)}
    model = recipe.trained(run.loss, training, loss=None if run.loss == "softmax" else loss_of(run), **fit)
    sides = recipe.scene(measured)
    x, q, g = (tfdml.models.embed(model, part.images) for part in (training, *sides))
    scores = [
        {"refinement": name, "settings": json.dumps(settings)}
        | recipe.measured(settings, x, sides[0], q, sides[1], g, run.metric)
        for name, settings in measurements(run)
    ]
    return {
        "run": asdict(run),
        "scores": scores,
        "core_seconds": round(time.process_time() - begin, 1),
        "protocol": sides[0].protocol,
        **tfdml.environment("pillow", "matplotlib", "scipy"),
    }


def loss_of(run):
    """The loss of a run."""
    return LOSSES[run.loss](run, **({"soft": True} if run.margin == "soft" else {"margin": float(run.margin)}))


def mined_for(run, labels):
    """The pairs from which the triplets of a run are drawn; None for triplets of the batch."""
    if run.loss not in (OFFLINE, TARGETED):
        return None
    margin = 0.2 if run.margin == "soft" else float(run.margin)
    target = 0.5 if run.loss == TARGETED else None
    return tfdml.samplers.MinedPairs(labels, metric="euclidean", seed=run.seed, target=target, margin=margin)


def measurements(run):
    """Names and settings of the refinements that a run measures."""
    if run.refinements == "chosen":
        return list(recipe.CHOSEN[run.loss].items())
    grid = GRID if run.refinements == "grid" else {}
    return [("plain", {}), *((name, settings) for name, trials in grid.items() for settings in trials)]


@functools.cache
def _glyphs():
    return dict(zip(PARTS, tfdml.datasets.glyphs(validation=True), strict=True))


def rows_of(results):
    """One row per run and refinement: the settings of the run, then its numbers."""
    about = ("core_seconds", "protocol", "hardware", "versions")
    return [
        {**result["run"], **score, **{key: result[key] for key in about}}
        for result in results
        for score in result["scores"]
    ]


def share(rows, key):
    """The mean over rows and half of its 95% interval, in percent, as text."""
    return pages.plus_minus([row[key] for row in rows])
