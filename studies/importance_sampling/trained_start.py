"""Table 1 from a trained network: does the batch design stop mattering once pairs have weights?

The papers start from a trained network. Here a residual network is trained on every other training character, stays as
it is, and a linear layer of 64 outputs over its last feature map is trained on the other 338 characters, 32 images
each: balanced contrastive loss, 64 images a step, 2,000 steps, group batches, with and without weights. Each method has
its own learning rate, the best of four on the validation classes.
"""

import functools
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import keras
import numpy as np

import tfdml
from studies import characters, compiled, pages, runner
from studies.importance_sampling.batch_designs import table
from studies.importance_sampling.setting import PER_CLASS, sampler_of
from studies.leaderboard import setting, starts

GROUPS = ("2x32", "4x16", "8x8", "16x4", "32x2")
LAMBDAS = (64.0, 256.0)
RATES = (3e-4, 1e-3, 3e-3, 1e-2)
ROWS = pages.ROOT / "runs" / "importance_sampling" / "rows"


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        design: "4x16" for (4, 16)-group batches, "0.5-random-2016" for 2,016 p-random pairs.
        delta: exponent of the importance weights; 0 turns importance sampling off.
        negatives: lambda of the balanced contrastive loss.
        learning_rate: initial learning rate of Adam, which falls by a tenth every 100 steps.
        seed: seed of the linear layer and of the batches.
        steps: number of training steps.
        classes: the largest number of classes used of each part.
    """

    design: str = "4x16"
    delta: float = 1.0
    negatives: float = 256.0
    learning_rate: float = 1e-3
    seed: int = 0
    steps: int = 2000
    classes: int = 10_000


def rows(options):
    """One row per run: each design and lambda, without and with weights."""
    base = Run(steps=20, classes=40) if options.quick else Run()
    return rows_of_designs(replace(options, base=base, train=train, train_seeds=train_seeds, rates=RATES))


def rows_of_designs(options, designs=GROUPS, lambdas=LAMBDAS):
    """One row per run: the base run with each design and lambda, without and with weights, five seeds.

    A quick study has one seed and one of the rates.
    """
    seeds, rates = ((0,), options.rates[:1]) if options.quick else ((0, 1, 2, 3, 4), options.rates)
    options = replace(options, seeds=seeds, rates=rates)
    cells = [
        replace(options.base, design=design, negatives=negatives, delta=delta)
        for negatives in lambdas
        for delta in (0.0, 1.0)
        for design in runner.some(designs, options)
    ]
    return runner.results(cells, options)


def train(run):
    """Train one run and return its results: Recall@k and MAP@R of the validation and the test classes."""
    return train_seeds([run])[0]


def train_seeds(runs: Sequence[Run]):
    """Train runs that differ in their seeds alone, and return the results of each."""
    compiled.forget()
    return results_of(runs, parts(runs[0]), functools.partial(by_design, linear))


def results_of(runs, parts, compiled_model, rows=None, **measures):
    """Train the networks of runs that differ in their seeds alone on the first of three parts, and measure the others.

    Args:
        runs: runs that differ in their seeds alone.
        parts: training, validation and test part.
        compiled_model: function of a run and the training part that returns a compiled model.
        rows: function of a run and the training labels that returns its batches; None for those of its design.
        measures: k and metric of `characters.scores`, if not 1, 2 and 8 by Euclidean distances.
    """
    begin, (training, *held_out) = time.time(), parts
    measures = {"k": (1, 2, 8), "metric": "euclidean", **measures}
    models = [compiled_model(run, training) for run in runs]
    batches = np.stack([(rows or _rows)(run, training.labels) for run in runs])
    compiled.fit(models, training.images, training.labels, batches)
    return [
        {
            "run": asdict(run),
            **{
                name: characters.scores(setting.embedded(model, part), part.labels, **measures)
                for name, part in zip(("validation", "test"), held_out, strict=True)
            },
            "seconds": round((time.time() - begin) / len(runs), 1),
            "protocol": held_out[1].protocol.replace("cosine", measures["metric"]),
            **tfdml.environment(),
        }
        for run, model in zip(runs, models, strict=True)
    ]


def parts(run):
    """Features of the training, validation and test characters: of the first ones in a quick run."""
    classes = None if run.classes == Run.classes else run.classes
    held_out = starts.data_of("glyphs", "trained", classes)
    return starts.views_of_glyphs(PER_CLASS, classes), held_out["validation"], held_out["test"]


def linear(run, training, dim=64, *, normalize=False):
    """A linear layer over features."""
    features = keras.Input(training.images.shape[1:])
    x = keras.layers.LayerNormalization(center=False, scale=False)(features)
    x = keras.layers.Dense(dim)(x)
    return tfdml.models.EmbeddingModel(features, keras.layers.UnitNormalization()(x) if normalize else x)


def by_design(network, run, training):
    """The network of a run, a function of the run and the training part, compiled with the loss of its design."""
    keras.utils.set_random_seed(run.seed)
    model = network(run, training)
    sampler = sampler_of(run)
    loss = tfdml.losses.BalancedContrastiveLoss(
        class_counts=dict(enumerate(np.bincount(training.labels).tolist())),
        negatives_per_positive=run.negatives,
        pairing=sampler.pairing,
        importance=sampler.importance(training.labels, delta=run.delta) if run.delta else None,
    )
    rate = keras.optimizers.schedules.ExponentialDecay(run.learning_rate, 100, 0.9, staircase=True)
    model.compile(keras.optimizers.Adam(rate), loss=loss, steps_per_execution=min(run.steps, 50), jit_compile=False)
    return model


def _rows(run, labels):
    path = ROWS / f"{run.design}-{run.classes}-{run.seed}-{run.steps}.npy"
    return compiled.drawn_rows(path, lambda: sampler_of(run), labels, run.steps)


def tables(rows):
    """Recall@1 of each design, and the spread over designs."""
    return {"trained": table(rows)}
