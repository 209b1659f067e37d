"""Recall@1 over the batch, the dimension, the number of classes, wrong labels and classes of different size.

Photo patches from the trained start. Each method has the settings and the rate that its trials on the board chose; one
thing varies at a time. Runs over batches see equal images, so that larger batches make fewer steps.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import keras
import numpy as np

import tfdml
from studies import characters, compiled, figures, pages, runner
from studies.figures import plt
from studies.leaderboard import setting, starts
from studies.leaderboard.methods import PER_CLASS

DATA, START, PARTS = "photo patches", "trained", ("train", "test")
FIGURE = "![Recall@1 of eight methods over five things that vary](images/leaderboard-scaling.png)"
LOSSES = (
    "contrastive",
    "semi-hard triplet",
    "margin",
    "multi-similarity",
    "NT-Xent",
    "circle",
    "normalized softmax",
    "ProxyNCA++",
)
AXES = {
    "batch": (32, 64, 128, 256, 512),
    "dim": (8, 16, 32, 64, 128),
    "training_classes": (109, 218, 436, 872, 1744),
    "noise": (0.0, 0.1, 0.2, 0.3, 0.5),
    "removed": (0.0, 0.25, 0.5, 0.75, 1.0),
}
LABELS = {
    "batch": "images in a batch",
    "dim": "dimensions",
    "training_classes": "training classes",
    "noise": "share of wrong labels",
    "removed": "gamma: classes lose a share in [0, gamma]",
}
LOGARITHMIC = ("batch", "dim", "training_classes")
SEEDS = (1, 2, 3)
ABOUT = ("protocol", "hardware", "versions")


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        loss: one of `LOSSES`.
        settings: settings of the loss, as `setting.text_of` writes them.
        learning_rate: highest learning rate of Adam.
        batch: number of images in a batch.
        dim: size of the embedding.
        training_classes: number of training classes, the first ones.
        noise: share of the training labels that are drawn again, from all classes.
        removed: gamma; the share of examples that a class loses is uniform in [0, gamma].
        seed: seed of the network, the batches, the wrong labels and the examples that are removed.
        images: number of training images, over all steps.
        classes: the largest number of classes used of each part.
    """

    loss: str
    settings: str
    learning_rate: float
    batch: int = 128
    dim: int = 64
    training_classes: int = 1744
    noise: float = 0.0
    removed: float = 0.0
    seed: int = 1
    images: int = 64_000
    classes: int = 10_000


def rows(options):
    """One row per run and axis."""
    options = replace(options, train=None, train_seeds=train_seeds, seeds=SEEDS[:1] if options.quick else SEEDS)
    size = {"images": 640, "classes": 40} if options.quick else {}
    runs = [
        (axis, replace(run, **size, **{axis: value}))
        for loss in runner.some(LOSSES, options)
        for run in [_chosen(loss)]
        for axis in AXES
        for value in runner.some(AXES[axis], options)
    ]
    seeds = [(axis, replace(run, seed=seed)) for axis, run in runs for seed in options.seeds]
    found = runner.finished([run for _, run in seeds], options)
    return [
        {"axis": axis, **result["run"], **result["scores"], **{key: result[key] for key in ABOUT}}
        for (axis, _), result in zip(seeds, found, strict=True)
    ]


def _chosen(loss):
    """The run of a method with the settings and the rate that the board chose on validation classes."""
    for path in sorted((pages.RESULTS / "leaderboard").glob("*.csv")):
        rows = runner.read_rows(path)
        if "part" in rows[0] and "loss" in rows[0]:
            tested = [row for row in rows if (row["loss"], row["part"]) == (loss, "test")]
            for row in runner.where(tested, data=DATA, start=START):
                return Run(loss, row["settings"], row["learning_rate"])
    raise ValueError(f"Received {loss}, which is not on the board of {DATA}, {START}. Train it first.")


def train_seeds(runs: Sequence[Run]):
    """Train runs that differ in their seeds alone: Recall@1 and MAP@R of the test classes."""
    compiled.forget()
    parts = starts.data_of(DATA, START, None if runs[0].classes == Run.classes else runs[0].classes)
    training, test = (parts[name] for name in PARTS)
    return [
        {
            "run": asdict(run),
            "scores": characters.retrieval(_fitted(run, training), test.images, test.labels, k=(1,), metric="cosine"),
            "protocol": test.protocol,
            **tfdml.environment(),
        }
        for run in runs
    ]


def _fitted(run, training):
    """The trained model of a run."""
    features, labels = changed(training.images, training.labels, run)
    board = setting.Run(
        loss=run.loss,
        settings=run.settings,
        start=START,
        learning_rate=run.learning_rate,
        seed=run.seed,
        classes_per_batch=run.batch // PER_CLASS,
        steps=run.images // run.batch,
    )
    keras.utils.set_random_seed(run.seed)
    loss = setting.loss_of(board, labels)
    inputs = keras.Input(features.shape[1:])
    x = keras.layers.LayerNormalization(center=False, scale=False)(inputs)
    model = tfdml.models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(keras.layers.Dense(run.dim)(x)))
    setting.compile_model(model, loss, board)
    key = (run.batch, run.training_classes, run.noise, run.removed, run.seed, run.images, run.classes)
    path = setting.ROWS / f"scaling-{'-'.join(map(str, key))}.npy"
    sampler = tfdml.samplers.GroupSampler(
        classes_per_batch=board.classes_per_batch, examples_per_class=PER_CLASS, short_classes="repeat", seed=run.seed
    )
    rows = compiled.drawn_rows(path, lambda: sampler, labels, board.steps)
    compiled.fit([model], features, labels, rows[None])
    return model


def changed(features, labels, run):
    """The examples of a run: of its classes, without what its classes lose, with its wrong labels."""
    rng = np.random.default_rng(run.seed)
    kept = np.concatenate([_kept(rows, run.removed, rng) for rows in _rows_of_classes(labels, run.training_classes)])
    labels = labels[kept]
    is_wrong = rng.random(len(labels)) < run.noise
    return features[kept], np.where(is_wrong, rng.integers(labels.max() + 1, size=len(labels)), labels)


def _rows_of_classes(labels, number):
    return [np.flatnonzero(labels == label) for label in range(min(number, labels.max() + 1))]


def _kept(rows, removed, rng):
    """The rows that a class keeps: at least one."""
    lost = int(rng.uniform(0, removed) * len(rows)) if removed else 0
    return np.sort(rng.permutation(rows)[min(lost, len(rows) - 1) :])


def tables(rows):
    """Recall@1 at both ends of each axis, as a Markdown table."""
    body = [[loss, *(_ends(runner.where(rows, axis=axis, loss=loss), axis) for axis in AXES)] for loss in _losses(rows)]
    head = ["Recall@1", *LABELS.values()]
    return {"scaling": f"{FIGURE}\n\n{runner.markdown(head, body, texts=(0,))}"}


def _ends(rows, axis):
    """The mean Recall@1 at the smallest, the middle and the largest value, in percent."""
    values = sorted({row[axis] for row in rows})
    chosen = (values[0], values[len(values) // 2], values[-1])
    return ", ".join(f"{runner.mean_of(runner.where(rows, **{axis: value})):.1f}" for value in chosen)


def _losses(rows):
    return list(dict.fromkeys(row["loss"] for row in rows))


def draw(path, rows):
    """Recall@1 over each axis: a panel per axis, a line per method."""
    figure, panels = plt.subplots(1, len(AXES), figsize=(4 * len(AXES), 3.8), sharey=True)
    for axis, panel in zip(AXES, panels, strict=True):
        of_axis = runner.where(rows, axis=axis)
        for half, style in ((LOSSES[:4], "-"), (LOSSES[4:], "--")):
            groups = {loss: runner.where(of_axis, loss=loss) for loss in half}
            figures.curves(panel, {loss: found for loss, found in groups.items() if found}, x=axis, linestyle=style)
        panel.set(xlabel=LABELS[axis], xscale="log" if axis in LOGARITHMIC else "linear")
        panel.grid(axis="y", color="0.92")
        panel.spines[["top", "right"]].set_visible(False)
        if axis in LOGARITHMIC:
            panel.set_xticks(AXES[axis], AXES[axis])
            panel.minorticks_off()
    panels[0].set_ylabel("Recall@1, %")
    panels[-1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)
