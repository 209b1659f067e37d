"""How the settings of recipes/glyphs.py were chosen: by MAP@R of the validation classes, never of the test classes.

    python -m studies.glyphs --choose   # half an hour on one core; resumes where it was stopped

Each trial trains on the training classes without the validation classes, for a third of the steps of the recipe.
In the first round a trial differs from `Trial()` in one setting. The finalists are `Trial()` and the combination of the
best value of each setting; both are trained with two seeds.
"""

import functools
import time
from dataclasses import asdict, dataclass, replace

import keras

import tfdml
from recipes import glyphs as recipe
from studies import pages, runner

ROWS = pages.RESULTS / "glyphs_choice.csv"
PAGE = pages.ROOT / "docs" / "glyphs.md"
MARK = "<!-- table of studies/glyphs_choice -->"
LOSSES = {
    "multi-similarity": tfdml.losses.MultiSimilarityLoss,
    "mined multi-similarity": functools.partial(tfdml.losses.MultiSimilarityLoss, miner=tfdml.miners.ValidTriplets()),
    "NT-Xent": tfdml.losses.NTXentLoss,
    "contrastive": tfdml.losses.ContrastiveLoss,
}


@dataclass(frozen=True)
class Trial:
    """The settings of one training run; the default values are those of the first round's center.

    Attributes:
        learning_rate: highest learning rate of Adam.
        loss: a key of `LOSSES`, each with its default options.
        batch: classes per batch x examples per class.
        augmentation: factor of the augmentation's strength; 0 turns it off.
        widths: channels of the stages of the network.
        steps: number of training steps.
        classes: the largest number of classes used of each part.
        seed: seed of the network, the augmentation and the batches.
    """

    learning_rate: float = 3e-3
    loss: str = "multi-similarity"
    batch: str = "32x4"
    augmentation: float = 1.0
    widths: str = "32-64-128"
    steps: int = 307
    classes: int = 10_000
    seed: int = 0


CANDIDATES = {
    "learning_rate": [1e-3, 1e-2, 3e-2],
    "loss": ["mined multi-similarity", "NT-Xent", "contrastive"],
    "batch": ["16x8", "64x2"],
    "augmentation": [0.0, 2.0],
    "widths": ["24-48-160"],
}


def choose(folder, base=Trial(), candidates=CANDIDATES):
    """Train what is missing, and return the results of all trials, as `train` returns them."""
    options = runner.Options(base, train, folder, workers=1)
    first = runner.finished(first_round(base, candidates), options)
    return first + runner.finished(second_round(base, first), options)


def first_round(base, candidates):
    """The base, and the trials that differ from it in one setting."""
    return [base, *(replace(base, **{name: value}) for name, values in candidates.items() for value in values)]


def second_round(base, results):
    """The trials of the finalists that are not in the first round.

    Args:
        base: the center of the first round.
        results: results of the first round.
    """
    scores = {Trial(**result["run"]): result["validation"]["map@r"] for result in results}
    finalists = [base, combination(base, scores)]
    repeated = [replace(trial, seed=seed) for trial in finalists for seed in (base.seed, base.seed + 1)]
    return [trial for trial in dict.fromkeys(repeated) if trial not in scores]


def combination(base, scores):
    """The base with the best value of each setting.

    Args:
        base: a trial.
        scores: dict of trials that differ from `base` in at most one setting to their scores.
    """
    better = sorted((trial for trial in scores if scores[trial] > scores[base]), key=scores.get)
    return replace(base, **dict(item for trial in better for item in asdict(trial).items() - asdict(base).items()))


def train(trial):
    """Train with the settings of one trial and return the results on the validation classes."""
    begin = time.time()
    keras.backend.clear_session()
    keras.utils.set_random_seed(trial.seed)
    (images, labels), validation, protocol = _parts(trial.classes)
    classes, examples = map(int, trial.batch.split("x"))
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=classes, examples_per_class=examples, seed=trial.seed)
    model = recipe.build_model(
        trial.steps,
        widths=[int(width) for width in trial.widths.split("-")],
        augmentation=trial.augmentation,
        learning_rate=trial.learning_rate,
        loss=LOSSES[trial.loss](),
    )
    model.fit(sampler.batches(images, labels), steps_per_epoch=trial.steps, shuffle=False, verbose=0)
    found = tfdml.callbacks.RetrievalEvaluation(validation).evaluate(model)
    return {
        "run": asdict(trial),
        "validation": {key: found[key] for key in ("recall@1", "map@r")},
        "seconds": round(time.time() - begin, 1),
        "protocol": protocol,
        **tfdml.environment("pillow", "matplotlib"),
    }


@functools.cache
def _parts(classes):
    train, validation, _ = tfdml.datasets.glyphs(validation=True)
    return *(recipe.first_classes(part, classes) for part in (train, validation)), validation.protocol


def rows_of(results):
    """One row per trial: its settings, then its numbers."""
    about = ("seconds", "protocol", "versions", "hardware")
    return [{**result["run"], **result["validation"], **{key: result[key] for key in about}} for result in results]


def best(rows):
    """The finalist with the highest mean MAP@R; finalists are the trials of two seeds.

    Args:
        rows: rows as `rows_of` returns them, or as they are read from the CSV file.
    """
    finalists = {trial: group for trial, group in _trials(rows).items() if len(group) == 2}
    return max(finalists, key=lambda trial: runner.mean_of(finalists[trial], "map@r"))


def table(rows):
    """What each trial changes, and its numbers as means over its seeds, as a Markdown table."""
    body = [
        [_changes(trial), len(group), *(f"{runner.mean_of(group, key):.1f}" for key in ("recall@1", "map@r"))]
        for trial, group in _trials(rows).items()
    ]
    return runner.markdown(["", "seeds", "Recall@1", "MAP@R"], body, rules=["---", *["---:"] * 3])


def _trials(rows):
    """Each trial with seed 0, and its rows of all seeds."""
    trials = {}
    for row in rows:
        trials.setdefault(replace(_trial(row), seed=0), []).append(row)
    return trials


def _trial(row):
    """The trial of a row; in rows of a CSV file all numbers are floats."""
    return Trial(**{name: type(value)(row[name]) for name, value in asdict(Trial()).items()})


def _changes(trial):
    """What a trial changes, as text."""
    base = asdict(Trial())
    changed = {name: value for name, value in asdict(trial).items() if value != base[name]}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in changed.items()) or "nothing changed"
