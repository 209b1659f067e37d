"""One training run of the leaderboard.

The network, the number of images, the steps, the optimizer and the size of the embedding are the same for all losses of
a start. They are of a size that one core trains in some seconds. Random weights: images of 32 x 32 gray pixels, two
convolutions, unit vectors of 64 dimensions, 1,000 batches of 4 examples of each of 32 classes. A trained start: one
dense layer over the features of a network that stays as it is, and half of the steps.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import keras
import numpy as np
from keras import layers

import tfdml
from studies import characters, compiled, pages, runner
from studies.leaderboard import outputs, starts
from studies.leaderboard.methods import GRIDS, METHODS, OF_WHOLE_NETWORKS

RATES = {"random": (1e-2, 3e-2), "trained": (3e-3, 1e-2), "whole": (2e-3, 5e-3)}
STEPS = {"random": 1000, "trained": 500}
BOARDS = tuple((data, start) for start in starts.STARTS for data in starts.SETS)
ROWS = pages.ROOT / "runs" / "leaderboard" / "rows"


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        data: "glyphs" or "photo patches".
        start: "random", "trained", or "whole", a trained network all of whose layers are trained.
        loss: a key of `METHODS`.
        settings: settings of the loss, as `text_of` writes them.
        learning_rate: highest learning rate of Adam.
        seed: seed of the network and the batches.
        part: the part that is measured, "validation" in trials and "test" in the runs of the chosen trial.
        multiplier: learning rate of the layers of the loss, such as proxies, as a multiple of that of the network.
        classes_per_batch: number of classes in a batch, with 4 examples each where the method does not say otherwise.
        steps: number of training steps.
        classes: the largest number of classes used of each part.
    """

    data: str = "glyphs"
    start: str = "random"
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
    base, seeds = (Run(steps=20, classes=40), (1, 2)) if quick else (Run(), (1, 2, 3, 4, 5))
    return runner.Options(
        base, train, folder, seeds=seeds, quick=quick, workers=1 if quick else workers, train_seeds=train_seeds
    )


def on_board(run, data, start):
    """A run of random weights on another set, or from a trained start with its number of steps."""
    return replace(run, data=data, start=start, steps=run.steps * STEPS[start] // STEPS["random"])


def text_of(settings):
    """Settings of a loss as text."""
    return ", ".join(f"{name} {value:g}" for name, value in settings.items())


def trials(run):
    """The four trials of the set, the start and the loss of a run."""
    return [
        replace(run, learning_rate=rate, settings=text_of(settings))
        for rate, settings in method_of(run).trials(RATES[run.start])
    ]


def method_of(run):
    """The method of a run."""
    return {**METHODS, **OF_WHOLE_NETWORKS, **GRIDS}[run.loss]


def loss_of(run, labels):
    """The loss of a run on training examples of these labels."""
    method = method_of(run)
    known = {text_of(settings): settings for _, settings in method.trials(RATES[run.start])}
    return method.make(labels, **known[run.settings])


def train(run):
    """Train one run and return its results on the part that it measures."""
    return train_seeds([run])[0]


def train_seeds(runs: Sequence[Run]):
    """Train runs that differ in their seeds alone, and return the results of each on the part that it measures."""
    begin, run = time.process_time(), runs[0]
    compiled.forget()
    training, measured = (characters.first_classes(part(run, name), run.classes) for name in ("train", run.part))
    models = fitted(runs, training)
    seconds = round((time.process_time() - begin) / len(runs), 1)
    return [
        {
            "run": asdict(run),
            "scores": scores(model, measured, with_clusters=run.part == "test"),
            "core_seconds": seconds,
            "backend": keras.backend.backend(),
            "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "protocol": measured.protocol,
            **tfdml.environment("pillow", "matplotlib", "scikit-image"),
        }
        for run, model in zip(runs, models, strict=True)
    ]


def scores(model, measured, *, with_clusters):
    """Recall@1 and MAP@R, and the NMI of k-means if asked for."""
    embeddings = embedded(model, measured)
    found = characters.scores(embeddings, measured.labels, k=(1,), metric="cosine")
    if with_clusters:
        is_varied = found["map@r"] > 0
        found["nmi"] = tfdml.metrics.clustering(embeddings, measured.labels)["nmi"] if is_varied else 0.0
    return found


def embedded(model, part):
    """Embeddings of the images or features of a part."""
    is_head = part.images.ndim == 2  # whose outputs take less time than the compilation of `predict`
    return np.asarray(model(part.images)) if is_head else characters.embedded(model, part.images)


def fitted(runs, training):
    """The trained models of runs that differ in their seeds alone."""
    models, callbacks = zip(*(_compiled(run, training) for run in runs), strict=True)
    batches = np.stack([_rows(run, training.labels) for run in runs])
    epochs = 10 if callbacks[0] else 1
    compiled.fit(models, training.images, training.labels, batches, epochs=epochs, callbacks=callbacks)
    return models


def _compiled(run, training):
    """The compiled model of a run, and the callbacks of its loss."""
    keras.utils.set_random_seed(run.seed)
    loss, model = loss_of(run, training.labels), network(run, training)
    compile_model(model, loss, run)
    trees = [layer for layer in loss.layers if isinstance(layer, tfdml.layers.ClassTree)]
    return model, [tfdml.callbacks.RefreshCenters(training, centers=tree) for tree in trees]


def compile_model(model, loss, run):
    """Compile a model with the optimizer of a run: Adam, whose rate warms up and falls as a cosine."""
    warmup = max(1, run.steps // 10)
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


def _rows(run, labels):
    """The row numbers of the batches of a run, kept in `ROWS`."""
    method = method_of(run)
    key = (run.data, run.start, method.per_class, run.classes_per_batch, run.classes, run.seed, run.steps)
    path = ROWS / f"{'-'.join(map(str, key)).replace(' ', '-')}.npy"
    return compiled.drawn_rows(path, lambda: method.sampler(run), labels, run.steps)


def draw_all(losses, options):
    """Draw and keep the row numbers of the batches of all runs of some losses."""
    for data, start in BOARDS:
        run = on_board(options.base, data, start)
        labels = characters.first_classes(part(run, "train"), run.classes).labels
        for loss in losses:
            for seed in (0, *options.seeds):
                _rows(replace(run, loss=loss, seed=seed), labels)


def network(run, training):
    """The network of a run: what the method makes of feature maps."""
    embedding = method_of(run).outputs
    if run.start == "random":
        images = keras.Input((32, 32, 1), dtype="uint8")
        x = keras.ops.cast(images, "float32")
        x = layers.LayerNormalization(axis=(1, 2, 3), center=False, scale=False)(x)
        first = outputs.first_convolution(x)
        return tfdml.models.EmbeddingModel(images, embedding([first, outputs.second_convolution(first)]))
    features = keras.Input(training.images.shape[1:])
    x = layers.LayerNormalization(center=False, scale=False)(features)
    return tfdml.models.EmbeddingModel(features, embedding([x, x]))


def part(run, name):
    """A part of the set of a run, "train", "validation" or "test": images, or features for a trained start."""
    return starts.data_of(run.data, run.start, None if run.classes == Run.classes else run.classes)[name]


def rows_of(results):
    """One row per run: its settings, then its numbers; what a run of an earlier version did not keep is empty."""
    return [
        {
            **result["run"],
            **{key: result["scores"].get(key, "") for key in ("recall@1", "map@r", "nmi")},
            **{key: result.get(key, "") for key in ("core_seconds", "backend", "finished")},
            **{key: result[key] for key in ("protocol", "hardware", "versions")},
        }
        for result in results
    ]


def result_of(row, run):
    """The result of a run, from a row of `rows_of` as texts."""
    scores = {key: float(row[key]) for key in ("recall@1", "map@r", "nmi") if row.get(key)}
    times = {"core_seconds": float(row["core_seconds"])} if "core_seconds" in row else {}
    texts = {key: row[key] for key in ("backend", "finished", "protocol", "hardware", "versions") if key in row}
    return {"run": asdict(run), "scores": scores, **times, **texts}
