"""How the settings of recipes/glyphs.py were chosen: by MAP@R of the validation classes, never of the test classes.

    python -m studies.glyphs --choose   # half an hour on one core; resumes where it was stopped

Each trial trains on the training classes without the validation classes, for a third of the steps of the recipe.
First, trials differ from `Trial()` in one setting. Then one trial combines the best value of each setting. If other
trials are within one point of the best one, they and the best one are repeated with a second seed. The highest mean
is chosen.
"""

import functools
import time
from dataclasses import asdict, dataclass, replace

import keras
from keras import layers

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
        augmentation: strength of the augmentation; 0 turns it off.
        steps: number of training steps.
        seed: seed of the network, the augmentation and the batches.
    """

    learning_rate: float = 3e-3
    loss: str = "multi-similarity"
    batch: str = "32x4"
    augmentation: float = 1.0
    steps: int = 307
    seed: int = 0


CANDIDATES = {
    "learning_rate": [1e-3, 1e-2],
    "loss": ["mined multi-similarity", "NT-Xent", "contrastive"],
    "batch": ["16x8", "64x2"],
    "augmentation": [0.0, 0.5, 2.0],
}


def choose(folder, base=Trial(), candidates=CANDIDATES):
    """Train what is missing, and return the results of all trials, as `train` returns them."""
    options = runner.Options(base, train, folder, workers=1)
    trials = first_round(base, candidates)
    trials = list(dict.fromkeys([*trials, combination(base, _scores(trials, options))]))
    return runner.finished(trials + second_seeds(_scores(trials, options)), options)


def first_round(base, candidates):
    """The base, and the trials that differ from it in one setting."""
    return [base, *(replace(base, **{name: value}) for name, values in candidates.items() for value in values)]


def combination(base, scores):
    """The base with the best value of each setting.

    Args:
        base: a trial.
        scores: dict of trials that differ from `base` in at most one setting to their scores.
    """
    better = sorted((trial for trial in scores if scores[trial] > scores[base]), key=scores.get)
    return replace(base, **dict(item for trial in better for item in asdict(trial).items() - asdict(base).items()))


def second_seeds(scores, close=0.01):
    """The trials that are close to the best one, and the best one, with the next seed; none if the best is alone."""
    finalists = [trial for trial in scores if scores[trial] >= max(scores.values()) - close]
    return [replace(trial, seed=trial.seed + 1) for trial in finalists] if len(finalists) > 1 else []


def _scores(trials, options):
    """Each trial and its MAP@R."""
    found = runner.finished(trials, options)
    return {trial: result["validation"]["map@r"] for trial, result in zip(trials, found, strict=True)}


def train(trial):
    """Train with the settings of one trial and return the results on the validation classes."""
    begin = time.time()
    keras.backend.clear_session()
    keras.utils.set_random_seed(trial.seed)
    train, validation, _ = tfdml.datasets.glyphs(validation=True)
    classes, examples = map(int, trial.batch.split("x"))
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=classes, examples_per_class=examples, seed=trial.seed)
    model = recipe.build_model(
        trial.steps,
        loss=LOSSES[trial.loss](),
        learning_rate=trial.learning_rate,
        augmentation=_augmentation(trial.augmentation),
    )
    model.fit(sampler.batches(train), steps_per_epoch=trial.steps, shuffle=False, verbose=0)
    found = tfdml.callbacks.RetrievalEvaluation(validation).evaluate(model)
    return {
        "run": asdict(trial),
        "validation": {key: found[key] for key in ("recall@1", "map@r")},
        "seconds": round(time.time() - begin, 1),
        "protocol": validation.protocol,
        **tfdml.environment("pillow", "matplotlib"),
    }


def _augmentation(strength):
    """Layers that shift by up to 6% of the image, rotate by up to 7 degrees and add noise, at strength 1."""
    return [
        layers.RandomTranslation(0.06 * strength, 0.06 * strength, fill_mode="nearest"),
        layers.RandomRotation(0.02 * strength, fill_mode="nearest"),
        layers.GaussianNoise(0.1 * strength),
    ]


def rows_of(results):
    """One row per trial: its settings, then its numbers."""
    about = ("seconds", "protocol", "versions", "hardware")
    return [{**result["run"], **result["validation"], **{key: result[key] for key in about}} for result in results]


def best(rows):
    """The trial with the highest mean MAP@R, of those with two seeds if there are any.

    Args:
        rows: rows as `rows_of` returns them, or as they are read from the CSV file.
    """
    trials = _trials(rows)
    return max(trials, key=lambda trial: (len(trials[trial]), runner.mean_of(trials[trial], "map@r")))


def table(rows):
    """What each trial changes, and its numbers as means over its seeds, as a Markdown table."""
    body = [
        [_changes(trial), len(group), *(f"{runner.mean_of(group, key):.1f}" for key in ("recall@1", "map@r"))]
        for trial, group in _trials(rows).items()
    ]
    return runner.markdown(["", "seeds", "Recall@1", "MAP@R"], body, texts=(0,))


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


def filled(text):
    """The text of the page with its table."""
    return pages.replaced(text, MARK, table(runner.read_rows(ROWS)))
