"""Search over settings on class-disjoint folds of the training classes."""

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdml import metrics, models
from tfdml._core.checks import require, require_whole
from tfdml._core.json_files import read_json
from tfdml._core.optional import optional_import
from tfdml.evaluation.protocol.final_test import TestResult, open_test
from tfdml.evaluation.protocol.folds import class_folds, derived_seed, train_seeded
from tfdml.evaluation.protocol.trials import Trial, read_trials, write_json, write_trial
from tfdml.typing import Data, FilePath

METRICS = ("recall@1", "precision@1", "r_precision", "map@r", "mrr")
_SHOWN = 10  # trials in the table


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossValidation:
    """A finished search; it prints as a table. `cross_validate` makes it.

    Attributes:
        folder: where trials, models and openings are kept.
        trials: all trials, in their order.
        metric: what was maximized.
        folds: of each fold, `(training, validation)`, as `class_folds`.
        seed: seed of the folds, of the search and of training.
        train, data: as given to `cross_validate`.
    """

    folder: Path
    trials: tuple[Trial, ...]
    metric: str
    folds: tuple[tuple[Any, Any], ...]
    seed: int
    train: Callable[[dict[str, Any], Any, int], keras.Model] = field(repr=False)
    data: Data = field(repr=False)

    @property
    def ranked(self) -> list[Trial]:
        """The trials, the best one first; equal ones in their order."""
        return sorted(self.trials, key=lambda trial: -(trial.value or 0.0))

    @property
    def best(self) -> Trial:
        """The trial with the highest mean over the folds; the first one of equal trials."""
        return self.ranked[0]

    @property
    def settings(self) -> dict[str, Any]:
        """The chosen settings: the settings of the best trial."""
        return dict(self.best.settings)

    def open_test(self, test: Data, *, runs: int = 1, k: Any = None) -> TestResult:
        """Train with the chosen settings, and measure on the test classes, which counts as an opening.

        1. For each run and fold, a model is trained on the training part of the fold, with its own seed. Models are
           kept in `folder`, and found there by the next call.
        2. The opening is recorded in `folder`, with its number.
        3. The test set is embedded by every model. Separated: the mean of the metrics of the single models.
           Concatenated: the metrics of their embeddings side by side, each of norm 1, so that a cosine is the mean of
           theirs.

        Open the test once, when nothing remains to be chosen. Every opening after the first one is recorded and shown
        as the second, third, ..., since what is chosen after a look at test numbers is no longer measured by them.

        Args:
            test: labeled set with classes that are not in the training set.
            runs: number of models per fold, 1 or more; several show the spread over training seeds.
            k: ranks of recall@k; None for 1, 2, 4 and 8, as far as a query has candidates.

        Returns:
            `TestResult`.

        Raises:
            ValueError: a class in common with the training set, `runs` below 1, or a test set that cannot be evaluated.

        Warns:
            UserWarning: the test classes had been opened before.

        Source: Musgrave, Belongie, Lim, A Metric Learning Reality Check, ECCV 2020.
        """
        return open_test(self, test, runs, k)

    def __str__(self) -> str:
        lines = [_line(trial) for trial in self.ranked[:_SHOWN]]
        left = len(self.trials) - len(lines)
        head = f"{'trial':>5}{self.metric:>13}  settings; mean over {len(self.folds)} folds in %"
        return "\n".join([head, *lines, *([f"and {left} more trials"] if left else [])])

    __repr__ = __str__


def cross_validate(
    train: Callable[[dict[str, Any], Any, int], keras.Model],
    data: Data,
    space: Callable[[Any], dict[str, Any]],
    folder: FilePath,
    *,
    folds: int = 4,
    trials: int = 50,
    metric: str = "map@r",
    seed: int = 0,
) -> CrossValidation:
    """Search for settings by the mean of a metric over class-disjoint folds of the training classes.

        def space(trial):
            return {"margin": trial.suggest_float("margin", 0.01, 1.0, log=True)}

        def train(settings, training, seed):
            ...
            return model

        search = tfdml.evaluation.cross_validate(train, training_set, space, "runs/search")
        print(search)
        print(search.open_test(test_set))

    Each trial trains one model per fold, which takes `trials * folds` trainings in all. Every fold is written to
    `folder` when it is finished: after a kill, the same call resumes with the next fold. Draws depend on the seed and
    the trials before, so that an interrupted search proposes what an uninterrupted one would. A call with more `trials`
    adds to them.

    Args:
        train: function of settings, a labeled set and a seed that trains and returns a model. The seed is that of the
            trial's fold, the same for all trials; Keras, NumPy and Python are seeded with it. Pass it to the sampler.
        data: labeled set with the training classes.
        space: function of an Optuna trial that returns settings, a dict that JSON can hold.
        folder: where trials are kept, a folder per search.
        folds: number of folds, 2 or more.
        trials: number of trials in all.
        metric: what to maximize: recall@1, precision@1, r_precision, map@r or mrr.
        seed: seed of the folds, of the search and of training.

    Returns:
        `CrossValidation`, with the `settings` of the best trial.

    Raises:
        ImportError: Optuna is not installed.
        ValueError: an option out of range, a set that cannot be divided, or a folder of another search.
        TypeError: settings that JSON cannot hold.

    Source: the protocol follows Musgrave, Belongie, Lim, A Metric Learning Reality Check, ECCV 2020. Here, classes are
    dealt to folds at random, and the search is Optuna's tree-structured Parzen estimator.
    """
    require(metric in METRICS, f"metric={metric!r}", f"one of {', '.join(METRICS)}")
    require_whole("trials", trials, 1)
    class_splits, folder = class_folds(data, folds, seed=seed), Path(folder).expanduser()
    study = _study(read_trials(folder))
    _require_same_search(folder, data, class_splits, metric, seed)
    for number in range(len(study.trials), trials):
        trial, suggestion = _begin_trial(study, number, space, folder, seed)
        for fold in range(len(trial.folds), folds):
            trial = _with_fold(trial, train, class_splits[fold], derived_seed(seed, 0, fold))
            trial = replace(trial, value=_value(trial, metric) if len(trial.folds) == folds else None)
            write_trial(folder, trial)
        study.tell(suggestion, trial.value)
    finished = tuple(trial for trial in read_trials(folder) if trial.value is not None)
    return CrossValidation(
        folder=folder, trials=finished, metric=metric, folds=class_splits, seed=seed, train=train, data=data
    )


def _begin_trial(study, number, space, folder, seed):
    """The trial of a number, new or continued, and the suggestion of Optuna, which depends on earlier trials."""
    import optuna

    study.sampler = optuna.samplers.TPESampler(seed=derived_seed(seed, number))
    suggestion = study.ask()
    settings = json.loads(json.dumps(space(suggestion), allow_nan=False))
    earlier = [trial for trial in read_trials(folder) if trial.number == number]
    if earlier:
        require(
            earlier[0].settings == settings,
            f"a space that suggests {settings} in trial {number}, which was begun with {dict(earlier[0].settings)}",
            "the same space as in the calls before. Choose another folder for another space",
        )
        return earlier[0], suggestion
    forms = {name: optuna.distributions.distribution_to_json(form) for name, form in suggestion.distributions.items()}
    suggested = {"params": suggestion.params, "distributions": forms}
    trial = Trial(number=number, settings=settings, folds=(), value=None, suggested=suggested)
    write_trial(folder, trial)
    return trial, suggestion


def _study(trials):
    """An Optuna study that knows the finished trials."""
    optuna = optional_import("optuna", feature="cross_validate", extra="sweep")
    study = optuna.create_study(direction="maximize")
    for trial in [trial for trial in trials if trial.value is not None]:
        try:
            study.add_trial(_suggested(trial))
        except Exception as error:  # Each damage fails in its own way.
            raise ValueError(
                f"Received trial-{trial.number:04}.json, whose suggestions Optuna cannot read ({error}). Remove the "
                "file, and the files of later trials, to repeat them."
            ) from error
    return study


def _suggested(trial):
    """A finished trial as Optuna knows it."""
    import optuna

    forms = trial.suggested["distributions"].items()
    distributions = {name: optuna.distributions.json_to_distribution(form) for name, form in forms}
    return optuna.trial.create_trial(params=trial.suggested["params"], distributions=distributions, value=trial.value)


def _with_fold(trial, train, fold, seed):
    """The trial with the metrics of its next fold."""
    training, validation = fold
    model = train_seeded(train, trial.settings, training, seed)
    return replace(trial, folds=(*trial.folds, _measured(models.embed(model, validation), validation.labels)))


def _measured(embeddings, labels):
    """Metrics, or the problem of embeddings that cannot be ranked."""
    try:
        return metrics.retrieval(embeddings, labels, k=1, full_map=False)
    except ValueError as error:
        return {"problem": str(error)}


def _value(trial, metric):
    return float(np.mean([fold.get(metric, 0.0) for fold in trial.folds]))


def _require_same_search(folder, data, class_splits, metric, seed):
    """Write what the search is about to a new folder; raise a ValueError if the folder is about another one."""
    search = {
        "metric": metric,
        "seed": seed,
        "protocol": data.protocol,
        "examples": len(data),
        "labels": zlib.crc32(np.ascontiguousarray(data.labels, np.int64).tobytes()),
        "folds": [list(validation.class_names) for _, validation in class_splits],
    }
    path = folder / "search.json"
    if not path.exists():
        return write_json(path, search)
    earlier = read_json(path)
    other = [name for name in search if search[name] != earlier.get(name)]
    require(not other, f"folder={str(folder)!r} of a search with other {', '.join(other)}", "a new folder, or the same")


def _line(trial):
    """A trial as a line of the table."""
    settings = ", ".join(f"{name}={_short(value)}" for name, value in trial.settings.items())
    return f"{trial.number:5}{100 * (trial.value or 0.0):13.1f}  {settings}{trial.problem and ', with a problem'}"


def _short(value):
    return f"{value:.3g}" if isinstance(value, float) else str(value)
