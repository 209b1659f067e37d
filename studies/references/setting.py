"""One training run of the comparison of references.

The network, the batches, the number of steps, the optimizer and the size of the embedding are the same for all losses.
They are of a size that one core trains in some seconds: images of 32 x 32 gray pixels, two convolutions, unit vectors
of 64 dimensions, 1,000 batches of 4 examples of each of 32 classes.
"""

import functools
import time
from dataclasses import asdict, dataclass, replace

import keras
import numpy as np
from keras import layers

import tfdml
from studies import characters, runner
from studies.references import outputs
from studies.references.methods import METHODS

RATES = (1e-2, 3e-2)
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        data: "glyphs" or "photo patches".
        loss: a key of `METHODS`.
        settings: settings of the loss, as `text_of` writes them.
        learning_rate: highest learning rate of Adam.
        seed: seed of the network and the batches.
        part: the part that is measured, "validation" in trials and "test" in the runs of the chosen trial.
        multiplier: learning rate of the layers of the loss, such as proxies, as a multiple of that of the network.
        classes_per_batch: number of classes in a batch, with 4 examples each.
        steps: number of training steps.
        classes: the largest number of classes used of each part.
    """

    data: str = "glyphs"
    loss: str = "contrastive"
    settings: str = ""
    learning_rate: float = 1e-2
    seed: int = 0
    part: str = "validation"
    multiplier: float = 3.0
    classes_per_batch: int = 32
    steps: int = 1000
    classes: int = 10_000


def options(folder, *, quick=False, workers=2):
    """The run of which all others are variations. The seeds of the test are not the seed of the trials."""
    if quick:
        return runner.Options(Run(steps=10, classes=40), train, folder, RATES, seeds=(1,), quick=True, workers=1)
    return runner.Options(Run(), train, folder, RATES, seeds=(1, 2, 3, 4, 5), workers=workers)


def text_of(settings):
    """Settings of a loss as text."""
    return ", ".join(f"{name} {value:g}" for name, value in settings.items())


def trials(run):
    """The four trials of the data and the loss of a run."""
    return [
        replace(run, learning_rate=rate, settings=text_of(settings))
        for rate, settings in METHODS[run.loss].trials(RATES)
    ]


def loss_of(run, classes):
    """The loss of a run."""
    method = METHODS[run.loss]
    known = {text_of(settings): settings for _, settings in method.trials(RATES)}
    return method.make(classes, **known[run.settings])


def train(run):
    """Train one run and return its results on the part that it measures."""
    begin = time.process_time()
    keras.backend.clear_session()
    keras.utils.set_random_seed(run.seed)
    training, measured = (first_classes(part(run.data, name), run.classes) for name in ("train", run.part))
    model = fitted(run, training)
    return {
        "run": asdict(run),
        "scores": characters.retrieval(model, measured.images, measured.labels, k=(1,), metric="cosine"),
        "core_seconds": round(time.process_time() - begin, 1),
        "protocol": measured.protocol,
        **tfdml.environment("pillow", "matplotlib", "scikit-image"),
    }


def fitted(run, training):
    """The trained model of a run."""
    loss, model = loss_of(run, int(training.labels.max()) + 1), network(METHODS[run.loss].outputs)
    warmup = run.steps // 10
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, run.steps - warmup, warmup_target=run.learning_rate, warmup_steps=warmup
    )
    model.compile(
        keras.optimizers.Adam(rate),
        loss=loss,
        learning_rate_multipliers={layer.name: run.multiplier for layer in loss.layers},
        steps_per_execution=max(1, min(run.steps // 10, 50)),
        jit_compile=False,
    )
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=run.classes_per_batch, examples_per_class=4, seed=run.seed)
    trees = [layer for layer in loss.layers if isinstance(layer, tfdml.layers.ClassTree)]
    epochs = 10 if trees else 1
    refresh = [tfdml.callbacks.RefreshCenters(training, centers=tree) for tree in trees]
    model.fit(
        sampler.batches(training),
        steps_per_epoch=run.steps // epochs,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=refresh,
    )
    return model


def network(embedding):
    """Two convolutions of standardized images, and what a function makes of their feature maps."""
    images = keras.Input((32, 32, 1), dtype="uint8")
    x = keras.ops.cast(images, "float32")
    x = layers.LayerNormalization(axis=(1, 2, 3), center=False, scale=False)(x)
    first = outputs.first_convolution(x)
    return tfdml.models.EmbeddingModel(images, embedding([first, outputs.second_convolution(first)]))


def part(data, name):
    """A part of a set, "train", "validation" or "test": images of 32 x 32 gray pixels."""
    return SETS[data]()[name]


@functools.cache
def _glyphs():
    return dict(zip(PARTS, tfdml.datasets.glyphs(validation=True), strict=True))


@functools.cache
def _photo_patches():
    return dict(zip(PARTS, map(small_and_gray, tfdml.datasets.photo_patches(splits=PARTS)), strict=True))


def small_and_gray(patches):
    """Photo patches in gray, of half the width and height: means of 2 x 2 pixels and three colors."""
    count, height, width, colors = patches.images.shape
    squares = patches.images.reshape(count, height // 2, 2, width // 2, 2 * colors)
    gray = np.round(squares.mean(axis=(2, 4), dtype="float32")).astype("uint8")[..., None]
    return replace(patches, images=gray, protocol=f"{patches.protocol}/gray-32x32")


def first_classes(part, classes):
    """The first classes of a part, under another protocol if there are more."""
    if part.labels.max() < classes:
        return part
    return replace(part.select_classes(np.arange(classes)), protocol=f"{part.protocol}/first-{classes}")


SETS = {"glyphs": _glyphs, "photo patches": _photo_patches}


def rows_of(results):
    """One row per run: its settings, then its numbers."""
    about = ("core_seconds", "protocol", "hardware", "versions")
    return [{**result["run"], **result["scores"], **{key: result[key] for key in about}} for result in results]


def interval(values):
    """The mean, and half of the width of its interval over seeds: 0 for one value, of a quick run."""
    low, high = tfdml.metrics.seed_interval(values) if len(values) > 1 else (values[0], values[0])
    return float(np.mean(values)), (high - low) / 2
