"""A network for photo patches on two cores: chosen on validation photographs, trained with several seeds, tested once.

    python -m studies.photo_patches --choose       # the trials of the choice, on validation photographs
    python -m studies.photo_patches --train        # the seeds, on validation photographs
    python -m studies.photo_patches                # the seeds, then the test photographs and the stereo pair
    python -m studies.photo_patches --quick        # smoke test of all this: 16 places, 2 steps, in runs/quick

Results and networks are kept under `runs/photo_patches`; delete them to train again.
"""

import functools
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import keras
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import tfdml
from benchmarks import photo_patches as baselines
from recipes import patches
from studies import pages, runner

CHOICE, ROWS, PAIR = [pages.RESULTS / f"photo_patches{name}.csv" for name in ("_choice", "", "_stereo")]
PICTURE = pages.IMAGES / "photo-patches.png"
PAGE = pages.ROOT / "docs" / "photo-patches.md"
SOURCE = "studies/photo_patches"
UNTRAINED = {"raw pixels": baselines.pixels, "centered pixels": baselines.centered, "SIFT": baselines.sift}
TRAINED, CORRELATION = "trained network", "cross-correlation in color"
WINDOWS = (32, 64)  # of the stereo pair, in pixels
COLUMNS = {"recall@1": "Recall@1", "recall@8": "@8", "map@r": "MAP@R", "fpr95": "FPR95"}
STEREO = {f"stereo@{window}": f"window {window}" for window in WINDOWS}
RIGHT, WRONG = "#2a9d4a", "#d1495b"
GRID = {"left": 0.02, "right": 0.98, "bottom": 0.01, "top": 0.94, "wspace": 0.08, "hspace": 0.08}


@dataclass(frozen=True)
class Run:
    """Settings of a training run; the defaults are the choice."""

    stem: tuple[int, ...] = (32, 64)
    widths: tuple[int, ...] = (64, 128, 256)
    blocks: int = 1
    gray: bool = True
    classes_per_batch: int = 16
    steps: int = 640
    learning_rate: float = 2e-3
    seed: int = 0


TRIAL = Run(classes_per_batch=64, steps=80)
TRIALS = (
    TRIAL,
    replace(TRIAL, classes_per_batch=32, steps=160),
    replace(TRIAL, classes_per_batch=16, steps=320),
    replace(TRIAL, classes_per_batch=32, steps=160, gray=False),
    Run(),
)


@dataclass(frozen=True)
class Setting:
    """Runs, their data, and the files that they leave; `places` limits the classes of each part."""

    output: Path
    choice: Path = CHOICE
    rows: Path = ROWS
    pair: Path = PAIR
    picture: Path = PICTURE
    trials: tuple[Run, ...] = TRIALS
    runs: tuple[Run, ...] = tuple(Run(seed=seed) for seed in range(3))
    windows: tuple[int, ...] = WINDOWS
    places: int | None = None
    workers: int = 2


def quick(output, workers):
    """A setting for smoke tests, all of whose files are in `output`."""
    small = Run(stem=(8, 8), widths=(8, 8), classes_per_batch=8, steps=2)
    files = [output / path.name for path in (CHOICE, ROWS, PAIR, PICTURE)]
    seeds = (small, replace(small, seed=1))
    return Setting(output, *files, trials=seeds[:1], runs=seeds, windows=WINDOWS[:1], places=16, workers=workers)


def network(run):
    """A residual network whose stem divides the resolution by four, for 64 x 64 pixels."""
    images = keras.Input((64, 64, 3), dtype="uint8")
    x = keras.ops.cast(images, "float32")
    x = keras.ops.mean(x, axis=-1, keepdims=True) if run.gray else x
    x = tfdml.models.residual_cnn(x, stem=run.stem, widths=run.widths, blocks=run.blocks)
    return tfdml.models.EmbeddingModel(images, x)


def batches(run, part):
    """Batches of four views of each place, all in the same orientation."""
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=run.classes_per_batch, examples_per_class=4, seed=run.seed)
    drawn = sampler.batches(part).enumerate()
    turned = functools.partial(tfdml.datasets.rotated_classes, examples_per_class=4)
    return drawn.map(lambda step, batch: (turned(batch[0], (run.seed, step)), batch[1]))


def trained(run, part):
    """The trained network, and the seconds of processor time that its training took."""
    keras.utils.set_random_seed(run.seed)
    model, warmup = network(run), -(-run.steps // 10)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, run.steps - warmup, warmup_target=run.learning_rate, warmup_steps=warmup
    )
    model.compile(keras.optimizers.Adam(rate), loss=tfdml.losses.RAWLoss(), jit_compile=False)
    begin = time.process_time()
    model.fit(batches(run, part), steps_per_epoch=run.steps, shuffle=False, verbose=2)
    return model, time.process_time() - begin


def parts(*names, places):
    """Parts of the photo patches: all of them, or the first places of each."""
    found = tfdml.datasets.photo_patches(splits=names)
    return found if places is None else [first_places(part, places) for part in found]


def first_places(part, places):
    """The first places of a part, under another protocol."""
    return replace(part.select_classes(np.arange(places)), protocol=f"{part.protocol}/first-{places}-places")


def embedded(model, images):
    """Embeddings of images of any size, brought to 64 x 64 pixels."""
    pixels = tf.cast(tf.round(tf.image.resize(images, (64, 64))), tf.uint8)
    return model.predict(pixels, batch_size=512, verbose=0)


def scores(embeddings, labels):
    """Retrieval, and the false positive rate of pairs."""
    found = tfdml.metrics.retrieval(embeddings, labels, k=(1, 8)) | {"fpr95": baselines.fpr95(embeddings, labels)}
    return {key: found[key] for key in COLUMNS}


def stereo_errors(embed, windows):
    """The share of wrong disparities with windows of each size."""
    pair = patches.motorcycle_stereo()
    errors = {f"stereo@{window}": patches.stereo_error(pair, embed, window=window) for window in windows}
    return errors | {"protocol": pair.protocol}


def train(run, at, trained=trained, embedded=embedded):
    """Train a run, keep its network, and return its scores on the validation photographs."""
    training, validation = parts("train", "validation", places=at.places)
    model, seconds = trained(run, training)
    model.save(at.output / f"{runner.name_of(run)}.keras")
    return {
        "run": asdict(run),
        "validation": scores(embedded(model, validation.images), validation.labels),
        "core_seconds": seconds,
        "weights": model.count_params(),
        "protocol": validation.protocol,
        **tfdml.environment("scikit-image"),
    }


def test(run, at):
    """The scores of a kept network on the test photographs."""
    (part,) = parts("test", places=at.places)
    return scores(embedded(loaded(run, at), part.images), part.labels) | {"protocol": part.protocol}


def stereo(run, at):
    """The errors of a kept network on the stereo pair."""
    return stereo_errors(functools.partial(embedded, loaded(run, at)), at.windows)


def loaded(run, at):
    """The kept network of a run."""
    return keras.saving.load_model(at.output / f"{runner.name_of(run)}.keras", compile=False)


def finished(function, runs, at):
    """The results of a function of runs, each computed once and kept."""
    kept = at.output / function.__name__
    return runner.finished(runs, runner.Options(TRIAL, functools.partial(function, at=at), kept, workers=at.workers))


def choose(at):
    """Write the rows of the trials."""
    runner.write_rows(at.choice, choice_rows(finished(train, at.trials, at)))


def test_seeds(at):
    """Train the seeds, then write the rows and the picture of the test."""
    results, tested = finished(train, at.runs, at), finished(test, at.runs, at)
    (part,) = parts("test", places=at.places)
    found = {name: embed(part.images) for name, embed in UNTRAINED.items()}
    others = {name: scores(embeddings, part.labels) for name, embeddings in found.items()}
    runner.write_rows(at.rows, rows_of(results, tested, others))
    draw(at.picture, part, {"SIFT": found["SIFT"], "the network": embedded(loaded(at.runs[0], at), part.images)})


def match_seeds(at):
    """Write the rows of the stereo pair."""
    results, errors = finished(train, at.runs, at), finished(stereo, at.runs, at)
    runner.write_rows(at.pair, rows_of(results, errors, {CORRELATION: stereo_errors(baselines.centered, at.windows)}))


def choice_rows(results):
    """One row per trial: its settings, its scores on the validation photographs, its time."""
    about = ("core_seconds", "weights", "protocol", "hardware", "versions")
    return [{**found["run"], **found["validation"], **{key: found[key] for key in about}} for found in results]


def rows_of(results, tested, others):
    """The rows of a test: each method without training, each seed, their mean and standard deviation."""
    about = {key: results[0][key] for key in ("hardware", "versions")} | {"protocol": tested[0]["protocol"]}
    rows = [{"method": name, "seed": "none", **found, "core_seconds": 0.0} for name, found in others.items()]
    seeds = [
        {"method": TRAINED, "seed": result["run"]["seed"], **found, "core_seconds": result["core_seconds"]}
        for result, found in zip(results, tested, strict=True)
    ]
    return [row | about for row in [*rows, *seeds, *_summaries(seeds)]]


def _summaries(seeds):
    """The mean and the standard deviation of the numbers of all seeds."""
    keys = [key for key, value in seeds[0].items() if isinstance(value, float)]
    for name, summary in (("mean", statistics.mean), ("standard deviation", statistics.stdev)):
        yield {"method": TRAINED, "seed": name, **{key: summary(row[key] for row in seeds) for key in keys}}


def tables():
    """The tables of the pages, by the names of their marks."""
    return {
        "table": _methods(runner.read_rows(ROWS), [*UNTRAINED, TRAINED], COLUMNS),
        "stereo": _methods(runner.read_rows(PAIR), [CORRELATION, TRAINED], STEREO),
    }


def _methods(rows, methods, columns):
    """Columns of the methods, with the mean and the standard deviation over seeds."""
    seeds = {method: [row for row in runner.where(rows, method=method) if not _summary(row)] for method in methods}
    body = [[method, *cells(found, columns=columns)] for method, found in seeds.items()]
    return runner.markdown(["", *columns.values()], body, texts=(0,))


def _summary(row):
    return row["seed"] in ("mean", "standard deviation")


def cells(rows, prefix="", columns=COLUMNS):
    """Scores in percent, with the standard deviation of several seeds."""
    one = runner.share if len(rows) > 1 else lambda rows, key: f"{runner.mean_of(rows, key):.1f}"
    return [one(rows, f"{prefix}{key}") for key in columns]


def filled(text):
    """A page with the tables for which it has a mark."""
    marked = {name: table for name, table in tables().items() if f"<!-- {name} of {SOURCE} -->" in text}
    return pages.filled(text, marked, SOURCE)


def draw(path, part, found, near=6):
    """Draw two queries of each photograph and their nearest images, green if they show the same place, else red.

    Args:
        path: the picture.
        part: a part of the photo patches.
        found: dict of the name of a method to the embeddings of the part.
        near: number of neighbors.
    """
    rng = np.random.default_rng(0)
    rows = [np.flatnonzero(part.photographs == photograph) for photograph in np.unique(part.photographs)]
    queries = np.concatenate([rng.choice(row, 2, replace=False) for row in rows])
    figure = plt.figure(figsize=(10, 0.68 * len(queries) + 0.3))
    for (name, embeddings), block in zip(found.items(), figure.subfigures(1, len(found)), strict=True):
        nearest, _ = tfdml.search.Exact(embeddings).search(embeddings[queries], near + 1)
        axes = block.subplots(len(queries), near + 1, gridspec_kw=GRID)
        block.suptitle(f"Query, and its nearest images by {name}", fontsize=9)
        for query, neighbors, line in zip(queries, nearest, axes, strict=True):
            _draw_line(line, part, query, neighbors[neighbors != query])
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _draw_line(axes, part, query, neighbors):
    for axis, row in zip(axes, [query, *neighbors], strict=False):
        axis.imshow(part.images[row])
        axis.set(xticks=[], yticks=[])
        color = "black" if row == query else RIGHT if part.labels[row] == part.labels[query] else WRONG
        plt.setp(axis.spines.values(), color=color, linewidth=2)


def main(arguments=None):
    """Run the command line."""
    folder = {"type": Path, "help": "folder of results and networks; runs/photo_patches by default"}
    options = runner.options_of(__doc__, arguments, choose=False, train=False, workers=2, output=folder)
    folder = pages.ROOT / "runs" / ("quick/photo_patches" if options.quick else "photo_patches")
    at = (quick if options.quick else Setting)(options.output or folder, workers=options.workers)
    if options.choose or options.quick:
        choose(at)
    if options.train:
        finished(train, at.runs, at)
    if not (options.choose or options.train):
        test_seeds(at)
        match_seeds(at)


if __name__ == "__main__":
    main()
