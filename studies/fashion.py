"""Fashion-MNIST, a set that others know: ten losses on unseen classes, and as classifiers beside published ones.

    python -m studies.fashion --data /usr/share/datasets/fashion-mnist   # an hour of two cores; resumes
    python -m studies.fashion --quick                                    # a smoke test on drawn images

The package `dataset-fashion-mnist` of Debian has the files. Unseen classes: five classes are trained, and the images of
t10k of the other five are the test, for both halves of the classes. Trials train three of the five classes and are
measured on the t10k images of the other two. Classifiers: all ten classes are trained, without the last 100 images of
each, on which the trials are measured; an image of t10k has the class of its nearest training image.
"""

import functools
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import keras
import numpy as np
from keras import layers

import tfdml
from studies import pages, runner
from studies.leaderboard.family import trials_and_tests
from studies.leaderboard.methods import METHODS

NAMES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
# The classes of the training; the others are the test.
HALVES = {
    "first": (0, 1, 2, 3, 4),
    "last": (5, 6, 7, 8, 9),
}
ALL = "all"
COMPARED = (
    "contrastive",
    "triplet",
    "semi-hard triplet",
    "margin",
    "multi-similarity",
    "RAW",
    "NT-Xent",
    "proxy anchor",
    "normalized softmax",
    "ArcFace",
)
RATES = (0.003, 0.01)
SEEDS = (1, 2, 3, 4, 5)
IMAGES = 120  # in a batch
ROWS, PAGE = pages.RESULTS / "fashion.csv", pages.ROOT / "docs" / "fashion-mnist.md"
FOLDER = pages.ROOT / "runs" / "fashion"
SCORES = {
    "recall@1": "Recall@1",
    "map@r": "MAP@R",
    "one_shot": "5-way, 1 shot",
    "five_shots": "5-way, 5 shots",
    "eer": "equal error rate",
}


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        half: a key of `HALVES`, or `ALL`.
        loss: one of `COMPARED`.
        settings: the settings of the loss, as `name value` texts.
        learning_rate: highest learning rate of Adam.
        seed: seed of the network and the batches; 0 for trials.
        part: "validation" or "test".
        steps: number of training steps.
    """

    half: str
    loss: str
    settings: tuple[tuple[str, float], ...]
    learning_rate: float
    seed: int = 0
    part: str = "validation"
    steps: int = 300


def train(run, read):
    """Train one run and return its scores on the part that it measures."""
    begin = time.process_time()
    keras.backend.clear_session()
    keras.utils.set_random_seed(run.seed)
    trained, measured = parts(run, *read())
    model = network()
    loss = METHODS[run.loss].make(trained.labels, **dict(run.settings))
    rate = keras.optimizers.schedules.CosineDecay(run.learning_rate, run.steps)
    model.compile(keras.optimizers.Adam(rate), loss=loss, jit_compile=False)
    classes = len(trained.class_names)
    sampler = tfdml.samplers.GroupSampler(
        classes_per_batch=classes, examples_per_class=IMAGES // classes, seed=run.seed
    )
    model.fit(sampler.batches(trained), steps_per_epoch=run.steps, shuffle=False, verbose=0)
    x = tfdml.models.embed(model, measured.images)
    scores = classified(model, trained, x, measured.labels) if run.half == ALL else unseen(x, measured.labels)
    return {
        "run": asdict(run),
        "scores": scores,
        "core_seconds": round(time.process_time() - begin, 1),
        "protocol": f"fashion-mnist/{'ten-classes/1-nn' if run.half == ALL else 'five-and-five/exact-cosine'}/v1",
        **tfdml.environment(),
    }


def parts(run, train, test):
    """The trained and the measured part of a run."""
    if run.half == ALL:
        held_back = np.concatenate([np.flatnonzero(train.labels == label)[-100:] for label in range(len(NAMES))])
        rest = train.take(np.setdiff1d(np.arange(len(train)), held_back))
        return rest, test if run.part == "test" else train.take(np.sort(held_back))
    half = list(HALVES[run.half])
    if run.part == "validation":
        return train.select_classes(half[:3]), test.select_classes(half[3:])
    others = [label for label in range(len(NAMES)) if label not in half]
    return train.select_classes(half), test.select_classes(others)


def network():
    """Two convolutions and unit vectors of 64 dimensions."""
    images = keras.Input((28, 28, 1), dtype="uint8")
    x = layers.Rescaling(1 / 255)(images)
    x = layers.Conv2D(32, 5, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2D(64, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Dense(64)(layers.Flatten()(x))
    return tfdml.models.EmbeddingModel(images, layers.UnitNormalization()(x))


def unseen(embeddings, labels):
    """Retrieval, few-shot and verification scores of unseen classes."""
    found = tfdml.metrics.retrieval(embeddings, labels, k=(1,), metric="cosine", full_map=False)
    ways = len(np.unique(labels))
    first, second = pairs(labels)
    scores = tfdml.metrics.pair_scores(embeddings[first], embeddings[second])
    decided = tfdml.metrics.verification(scores, labels[first] == labels[second])
    return {
        "recall@1": found["recall@1"],
        "map@r": found["map@r"],
        "one_shot": tfdml.metrics.few_shot(embeddings, labels, ways=ways, shots=1)["accuracy"],
        "five_shots": tfdml.metrics.few_shot(embeddings, labels, ways=ways, shots=5)["accuracy"],
        "eer": decided["eer"],
    }


def classified(model, trained, embeddings, labels):
    """The share of images whose nearest training image has their class, and MAP@R against the training images."""
    against = {"gallery": tfdml.models.embed(model, trained.images), "gallery_labels": trained.labels}
    found = tfdml.metrics.retrieval(embeddings, labels, **against, k=(1,), metric="cosine", full_map=False)
    return {"recall@1": found["recall@1"], "map@r": found["map@r"]}


def pairs(labels, number=3000):
    """Rows of the first and of the second images of pairs: as many of one class as of two."""
    first, second = np.random.default_rng(0).integers(len(labels), size=(2, 20 * number))
    same = labels[first] == labels[second]
    kept = np.concatenate([np.flatnonzero(each)[:number] for each in (same & (first != second), ~same)])
    return first[kept], second[kept]


def trials(half, loss, base):
    """The four trials of a method on a half."""
    return [
        replace(base, half=half, loss=loss, learning_rate=rate, settings=tuple(settings.items()))
        for rate, settings in METHODS[loss].trials(RATES)
    ]


def rows(options, losses=COMPARED, halves=(*HALVES, ALL)):
    """One row per trial, and one per seed of the trial with the highest MAP@R of the validation part."""
    groups = [trials(half, loss, options.base) for half in halves for loss in losses]
    return [row_of(result) for result in runner.finished(trials_and_tests(groups, options), options)]


def row_of(result):
    """The row of a result: settings as text, and empty cells for scores that its protocol has not."""
    run = result["run"] | {"settings": ", ".join(f"{name} {value:g}" for name, value in result["run"]["settings"])}
    scores = {key: result["scores"].get(key, "") for key in SCORES}
    about = {key: result[key] for key in ("core_seconds", "protocol", "hardware", "versions")}
    return run | scores | about


def tables(found):
    """Scores by method, the mean of both halves."""
    tested = runner.where(found, part="test")
    over_halves = {loss: means(tested, loss) for loss in COMPARED}
    body = [
        [loss, *(pages.plus_minus(scores[key]) for key in SCORES)]
        for loss, scores in sorted(over_halves.items(), key=lambda item: -np.mean(item[1]["map@r"]))
    ]
    return {"unseen classes": runner.markdown(["", *SCORES.values()], body)}


def means(tested, loss):
    """Score to its means over halves, one for each seed."""
    of_loss = runner.where(tested, loss=loss)
    return {
        key: [
            np.mean([row[key] for half in HALVES for row in runner.where(of_loss, half=half, seed=seed)])
            for seed in SEEDS
        ]
        for key in SCORES
    }


@functools.cache
def read(root):
    """The training set and t10k."""
    return tfdml.datasets.idx(root, class_names=NAMES)


def drawn():
    """Two small sets of noise around an image of each class, for a smoke test."""
    rng = np.random.default_rng(0)
    means = rng.uniform(0, 255, (len(NAMES), 28, 28, 1))
    labels = np.repeat(np.arange(len(NAMES)), 130)
    images = (means[labels] / 2 + rng.uniform(0, 127, (len(labels), 28, 28, 1))).astype("uint8")
    data = tfdml.datasets.LabeledSet(images=images, labels=labels, class_names=NAMES)
    return data, data


def main(arguments=None):
    """Train what is missing; ten steps on drawn images with `--quick`, which writes nothing."""
    data = {"type": Path, "help": "the folder of the four files"}
    given = runner.options_of(__doc__, arguments, data=data, workers=2)
    base = Run("", "", (), 0.0)
    if given.quick:
        made = functools.partial(train, read=drawn)
        small = runner.Options(replace(base, steps=10), made, FOLDER / "quick", seeds=(1,), workers=1)
        return print(len(rows(small, losses=("contrastive",), halves=("first", ALL))), "rows")
    if given.data is None:
        raise SystemExit("--data is missing: the folder of the four files of Fashion-MNIST.")
    made = functools.partial(train, read=functools.partial(read, given.data))
    return runner.write_rows(ROWS, rows(runner.Options(base, made, FOLDER, seeds=SEEDS, workers=given.workers)))


if __name__ == "__main__":
    main()
