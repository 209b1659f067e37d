"""Training without labels, from the weights of ImageNet: photo patches and things whose classes no network has seen.

    python -m studies.unlabeled --choose      # one seed of each candidate, measured on the validation parts alone
    python -m studies.unlabeled               # all runs, then the test parts
    python -m studies.unlabeled --quick       # smoke test: few images, a small network, two steps, in runs/quick

A run is `tfdml train --unlabeled` on the training photographs without their labels. The labels of the validation and
the test photographs measure its network beside the pretrained one as it is, at the same number of pixels. Results are
kept under `runs/unlabeled`, a file per run; delete them to train again. Views are measured by MRR, in the rows of the
choice, which are older, by Recall@1. Its rows from a second processor, without core seconds, and of seeds 1 and 2 were
written by calls of `train`.
"""

import contextlib
import dataclasses
import functools
import importlib
import shutil
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
from keras import ops
from keras.optimizers import Adam

import tfdml
from recipes import things
from studies import pages, runner

network = importlib.import_module("tfdml.training.network")  # candidates replace what it has
ROWS, CHOICE = pages.RESULTS / "unlabeled.csv", pages.RESULTS / "unlabeled_choice.csv"
PAGE = pages.ROOT / "docs" / "train.md"
TRAINED, FROZEN = "trained", "as it is"
SETS = {"photo patches": (64, 100), "things": (128, 60)}  # pixels, and steps of 32 images
SPLITS = ("validation", "test")
AVERAGE = {"use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 10}
KEYS = ("recall@1", "map@r")
MOMENTUM = 0.97  # of the teacher: it is a few tens of steps behind


@dataclass(frozen=True)
class Run:
    """Settings of a run; `images` is the most images of the training part, drawn with the seed, and 0 for all."""

    data: str = "things"
    size: int = 128
    steps: int = 60
    images: int = 0
    backbone: str = "EfficientNetLite0"
    seed: int = 0
    candidate: str = "tfdml train"


@dataclass(frozen=True)
class Setting:
    """Runs, and the files that they leave."""

    output: Path
    rows: Path = ROWS
    splits: tuple[str, ...] = SPLITS
    runs: tuple[Run, ...] = tuple(
        Run(data, size, steps, images=2500 if data == "photo patches" else 0, seed=seed)
        for seed in range(5)
        for data, (size, steps) in SETS.items()
    )


def queue():
    """The embeddings of the last 512 views as further negatives."""
    return tfdml.layers.Memory(512, warm_up=20)


def taught(settings, train, queue=0, new_model=network.new_model):
    """A network that learns from the other views as a teacher sees them, which follows it by a moving average (MoCo).

    Embeddings of the teacher for the last `queue` views are further negatives.
    """
    teacher = network.frozen_network(settings)
    memory = tfdml.layers.Memory(queue or settings.batch_size, warm_up=0)

    def side_by_side(labels, rows):
        student, target = ops.split(rows, 2, axis=1)
        pairs = (memory if queue else tfdml.pairs.all_pairs)(labels, target)
        return pairs._replace(anchors=student, references=pairs.reference_embeddings)

    with mock.patch.dict(network.LOSSES, {"nt-xent": lambda _: tfdml.losses.NTXentLoss(pairing=side_by_side)}):
        model = new_model(settings, train)
    memory.build((settings.batch_size,), (settings.batch_size, model.output_shape[1]))
    compute_loss, weights = model.compute_loss, list(zip(teacher.weights, model.weights, strict=True))

    def compute_loss_of_both(x, y, y_pred, sample_weight=None, training=True):
        for slow, fast in weights:
            slow.assign(MOMENTUM * slow + (1 - MOMENTUM) * fast)
        target = ops.stop_gradient(teacher(x))
        loss = compute_loss(x, y, ops.concatenate([y_pred, target], axis=1), sample_weight, training)
        memory.update(y, target)
        return loss

    model.compute_loss = compute_loss_of_both
    return model


def guarded(settings, train, nearest=10, new_model=network.new_model):
    """A network whose loss leaves out the negatives that are among the nearest of an image before training."""
    features = np.asarray(tfdml.models.embed(network.frozen_network(settings), train))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    near, rows = features @ features.T, np.zeros(train.labels.max() + 1, int)
    near = near >= np.sort(near, axis=1)[:, -1 - nearest, None]
    rows[train.labels] = np.arange(len(train))

    def drop_near(pairs):
        anchors, references = (ops.take(rows, labels) for labels in (pairs.anchor_labels, pairs.reference_labels))
        return pairs.drop(negative=ops.take(ops.take(near, anchors, axis=0), references, axis=1))

    with mock.patch.dict(network.LOSSES, {"nt-xent": lambda _: tfdml.losses.NTXentLoss(miner=drop_near)}):
        return new_model(settings, train)


def debiased(pairs, *, temperature=0.07, prior=0.01):
    """NT-Xent less the false negatives to expect: Chuang et al., Debiased Contrastive Learning, NeurIPS 2020, eq. 8."""
    exp, count = ops.exp(tfdml.pairs.cosine(pairs) / temperature), ops.sum(pairs.negative, axis=1, keepdims=True)
    number = ops.sum(pairs.positive, axis=1, keepdims=True)
    false = prior * count * ops.sum(pairs.positive * exp, axis=1, keepdims=True) / number
    negative = (ops.sum(pairs.negative * exp, axis=1, keepdims=True) - false) / (1 - prior)
    negative = ops.maximum(negative, count * np.exp(-1 / temperature))
    return ops.sum(pairs.positive * ops.log(1 + negative / exp) / number, axis=1)


CANDIDATES = {  # what differs from `tfdml train --unlabeled`: options, and names of its modules that stand for another
    "tfdml train": ({}, {}),
    "a layer of 128 numbers": ({"dim": 128}, {}),
    "views on no other images": ({}, {"network.on_other_images": lambda batch, **_: (batch[0][..., :3], batch[1])}),
    "smaller views": ({}, {"network._VIEW_AREA": (0.1, 1.0)}),
    "a queue of 512": ({}, {"network.LOSSES": {"nt-xent": lambda _: tfdml.losses.NTXentLoss(pairing=queue())}}),
    "average of weights": ({}, {"network.keras.optimizers.Adam": functools.partial(Adam, **AVERAGE)}),
    "a teacher": ({}, {"network.new_model": taught}),
    "a queue of a teacher": ({}, {"network.new_model": functools.partial(taught, queue=512)}),
    "no near negatives": ({}, {"network.new_model": guarded}),
    "debiased": ({}, {"network.LOSSES": {"nt-xent": lambda _: tfdml.losses.PairLoss(debiased)}}),
    "four views": ({"examples_per_class": 4, "classes_per_batch": 8}, {}),
}


def quick(output):
    """A setting for smoke tests, all of whose files are in `output`."""
    runs = (Run("things", 32, 2, images=80, backbone="residual"),)
    return Setting(output, output / ROWS.name, runs=runs)


@functools.cache
def data(name, split):
    """The photographs of a split."""
    if name == "things":
        return things.things((split,))[0]
    return tfdml.datasets.photo_patches(splits=[split])[0]


def without_labels(run):
    """The training photographs of a run, without labels."""
    part = data(run.data, "train")
    count = min(run.images or len(part), len(part))
    rows = np.random.default_rng(run.seed).permutation(len(part))[:count]
    none = np.full(count, -1)
    return tfdml.datasets.LabeledSet(images=part.examples()[rows], labels=none, class_names=())


def train(run, at):
    """Train a run; its proof by views, and its scores and those of the network as it is on labeled photographs."""
    folder = at.output / "runs" / runner.name_of(run)
    shutil.rmtree(folder, ignore_errors=True)  # of a command that was stopped
    images, begin = without_labels(run), time.process_time()
    options = {"size": run.size, "steps": run.steps, "epochs": 2, "seed": run.seed, "backbone": run.backbone}
    options |= {"classes_per_batch": 8} if run.backbone == "residual" else {}
    others, names = CANDIDATES[run.candidate]
    with contextlib.ExitStack() as stack:
        for name, other in names.items():
            stack.enter_context(mock.patch(f"tfdml.training.{name}", other))
        result = tfdml.training.train(images, folder, unlabeled=True, **(options | others))
    seconds = time.process_time() - begin
    views = {name.partition(" ")[0]: means["mrr"].value for name, means in result.evaluation.means.items()}
    difference = result.evaluation.pairs[0].comparison
    low, high = (difference.low, difference.high) if difference.names[0].startswith(TRAINED) else (
        -difference.high, -difference.low
    )  # fmt: skip
    proof = {"views": difference.queries, "views trained": views["trained"], "views frozen": views["frozen"]}
    proof |= {"views low": low, "views high": high, "best epoch": result.best_epoch, "core_seconds": seconds}
    networks = {TRAINED: result.model, FROZEN: as_it_is(run)}
    return {
        **proof,
        "scores": {split: scores(run, split, networks) for split in at.splits},
        **tfdml.environment("pillow"),
    }


def as_it_is(run):
    """The features of the network before training."""
    if run.backbone == "residual":
        return tfdml.models.from_backbone("MobileNetV2", input_shape=(run.size, run.size, 3), dim=None, weights=None)
    return tfdml.models.from_backbone(run.backbone, input_shape=(run.size, run.size, 3), dim=None)


def scores(run, split, networks):
    """Scores of networks on labeled photographs by name, and the interval of the difference of their MAP@R."""
    part = data(run.data, split)
    part = dataclasses.replace(part, load=tfdml.datasets.Preprocessing(size=run.size, resize=round(8 / 7 * run.size)))
    embeddings = {name: np.asarray(tfdml.models.embed(network, part)) for name, network in networks.items()}
    compared = tfdml.evaluation.compare(embeddings, part.labels, metrics=("map@r", "recall@1"))
    means = {name: {key: mean.value for key, mean in values.items()} for name, values in compared.means.items()}
    difference = compared.pairs[0].comparison
    return {**means, "low": difference.low, "high": difference.high, "p": difference.p, "protocol": part.protocol}


def finished(at):
    """The results of all runs, each trained once and kept."""
    kept = runner.Options(Run(), functools.partial(train, at=at), at.output / "results", workers=1)
    return runner.finished(at.runs, kept)


def rows_of(runs, results):
    """One row per run and split."""
    keys = ("views", "views trained", "views frozen", "views low", "views high", "best epoch", "core_seconds")
    return [
        {
            **dataclasses.asdict(run),
            "split": split,
            **{f"{name} {key}": found[name][key] for name in (FROZEN, TRAINED) for key in KEYS},
            **{f"difference {key}": found[key] for key in ("low", "high", "p")},
            **{key: result[key] for key in keys},
            **{"protocol": found["protocol"], "hardware": result["hardware"], "versions": result["versions"]},
        }
        for run, result in zip(runs, results, strict=True)
        for split, found in result["scores"].items()
    ]


def table(rows):
    """Mean and standard deviation over seeds on the test photographs, and the lowest bound of all intervals."""
    head = ["photographs", "network", "MAP@R", "Recall@1", "of views", "lowest bound", "core minutes"]
    body = []
    for name in SETS:
        seeds = runner.where(rows, data=name, split="test")
        for kind, views in ((FROZEN, "views frozen"), (TRAINED, "views trained")):
            cells = [runner.share(seeds, f"{kind} {key}") for key in ("map@r", "recall@1")]
            low = f"{100 * min(row['difference low'] for row in seeds):+.1f}" if kind == TRAINED else ""
            minutes = statistics.mean(row["core_seconds"] for row in seeds) / 60
            effort = f"{minutes:.1f}" if kind == TRAINED else ""
            body.append([name, kind, *cells, runner.share(seeds, views), low, effort])
    return runner.markdown(head, body, texts=(0, 1))


def main(arguments=None):
    """Train what is missing, and write the rows."""
    folder = {"type": Path, "help": "folder of results and networks; runs/unlabeled by default"}
    options = runner.options_of(__doc__, arguments, output=folder, choose=False)
    folder = options.output or pages.ROOT / "runs" / ("quick/unlabeled" if options.quick else "unlabeled")
    at = quick(folder) if options.quick else Setting(folder)
    if options.choose:
        runs = tuple(replace(run, candidate=name) for name in CANDIDATES for run in at.runs if run.seed == 0)
        at = replace(
            at, rows=at.rows.with_stem(CHOICE.stem), splits=("validation",), runs=runs, output=folder / "choice"
        )
    runner.write_rows(at.rows, rows_of(at.runs, finished(at)))


if __name__ == "__main__":
    main()
