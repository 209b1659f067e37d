"""Search over settings on class-disjoint folds of the training classes."""

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfdml import metrics
from tfdml._core.atomic import only_writer
from tfdml._core.checks import require, require_one_of, require_whole
from tfdml._core.optional import optional_import
from tfdml._core.stored import read_json
from tfdml.embedding.in_memory import embed
from tfdml.evaluation.protocol.final_test import TestResult, open_test
from tfdml.evaluation.protocol.folds import Train, class_folds, derived_seed, train_seeded
from tfdml.evaluation.protocol.trials import Trial, read_trials, write_trial
from tfdml.evaluation.record import write_json
from tfdml.typing import Data, FilePath

METRICS = ("recall@1", "precision@1", "r_precision", "map@r", "mrr")
MeasureFolds = Callable[[Train, Any, Sequence[tuple[Data, Data]], Sequence[int]], Iterable[dict[str, Any]]]
_NUM_SHOWN = 10  # trials in the table


@dataclass(frozen=True, eq=False, kw_only=True)
class CrossValidation:
    """A finished search, the result of `cross_validate`; it prints as a table.

    Attributes:
        path: folder of trials, models and openings.
        trials: all trials, in their order.
        metric: name of the metric that was maximized.
        folds: `(training, validation)` of each fold, as `class_folds` returns them.
        seed: seed of the folds, of the search and of training.
        train, data: the arguments of `cross_validate`.
    """

    path: Path
    trials: tuple[Trial, ...]
    metric: str
    folds: tuple[tuple[Data, Data], ...]
    seed: int
    train: Train = field(repr=False)
    data: Data = field(repr=False)

    @property
    def ranked(self) -> list[Trial]:
        """The trials, best first; equal ones in their order."""
        return sorted(self.trials, key=lambda trial: -(trial.value or 0.0))

    @property
    def best(self) -> Trial:
        """The trial with the highest mean over the folds, the first of equal ones."""
        return self.ranked[0]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the best trial."""
        return dict(self.best.settings)

    def open_test(self, test: Data, *, runs: int = 1, k: int | Sequence[int] | None = None) -> TestResult:
        """Train with the best settings, and measure on the test classes; this counts as an opening.

        1. Train a model for each run and fold, on the training classes of the fold, with a seed of its own. It saves
           models in `path`; the next call loads them.
        2. Record the opening in `path`, with its number.
        3. Embed the test set by every model. Separated: the mean of the metrics of the single models. Concatenated: the
           metrics of the concatenated embeddings, each scaled to norm 1, so that a cosine is the mean of the cosines.

        Call this once, after all choices are final. It records later calls, with a warning, because choices made after
        seeing test results bias them.

        Args:
            test: labeled set with classes that are not in the training set.
            runs: number of models per fold, 1 or more; several show the spread over training seeds.
            k: ranks of recall@k; None for 1, 2, 4 and 8, up to the number of candidates of a query.

        Raises:
            ValueError: a class in common with the training set, or a test set that cannot be evaluated.

        Source: Musgrave, Belongie, Lim, A Metric Learning Reality Check, ECCV 2020.
        """
        return open_test(self, test, runs, k)

    def __str__(self) -> str:
        lines = [_line(trial) for trial in self.ranked[:_NUM_SHOWN]]
        num_hidden = len(self.trials) - len(lines)
        head = f"{'trial':>5}{self.metric:>13}  settings; mean over {len(self.folds)} folds in %"
        return "\n".join([head, *lines, *([f"and {num_hidden} more trials"] if num_hidden else [])])

    __repr__ = __str__


def cross_validate(
    train: Train,
    data: Data,
    space: Callable[[Any], dict[str, Any]],
    path: FilePath,
    *,
    folds: int = 4,
    trials: int = 50,
    metric: str = "map@r",
    seed: int = 0,
    measure: MeasureFolds | None = None,
) -> CrossValidation:
    """Search for settings by the mean of a metric over class-disjoint folds of the training classes.

    Each trial trains one model per fold, `trials * folds` models in all. Every finished fold is written to `path`:
    after an interruption, the same call resumes with the next fold. Draws depend on the seed and the trials before, so
    an interrupted search suggests the same settings as an uninterrupted one. A call with more `trials` adds trials.

    Example: a setting that turns the first feature, where the classes differ, on or off.

        >>> def train(settings, data, seed):
        ...     inputs = keras.Input((2,))
        ...     model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))
        ...     _ = model.layers[1].weight.assign([[settings["first"], 0.0], [0.0, 1.0]])
        ...     return model  # here it would be trained
        >>> x = np.array([[4.0 * k, 1.0 + d] for k in range(4) for d in (0.0, 0.2)])
        >>> data = tfdml.datasets.LabeledSet(images=x, labels=np.repeat(range(4), 2), class_names=tuple("abcd"))
        >>> space = lambda trial: {"first": trial.suggest_categorical("first", [0.0, 1.0])}
        >>> search = tfdml.evaluation.cross_validate(train, data, space, "search", folds=2, trials=4)
        >>> search.settings, search.best.value
        ({'first': 1.0}, 1.0)

    Args:
        train: function of settings, a labeled set and a seed that trains and returns a model. The seed depends on the
            fold alone, so it is the same for all trials; it seeds Keras, NumPy and Python. Pass it to the sampler.
        data: labeled set with the training classes.
        space: function of an `optuna.Trial` that returns settings, a dict that JSON can hold.
        path: folder of the trials, one per search.
        folds: number of folds, 2 or more.
        trials: number of trials in all.
        metric: name of the metric to maximize: recall@1, precision@1, r_precision, map@r or mrr.
        seed: seed of the folds, of the search and of training.
        measure: function of `train`, settings, folds and their seeds that returns the metrics of the folds in their
            order; None: `measured_folds`, one after the other. `tfdml.distributed.cross_validate` trains them together.

    Raises:
        BlockingIOError: another process searches in `path`; the message names it.
        ValueError: a set that cannot be divided, or the folder of another search.

    Source: the protocol follows Musgrave, Belongie, Lim, A Metric Learning Reality Check, ECCV 2020. Here, folds have
    random classes, and the search is Optuna's tree-structured Parzen estimator.
    """
    require_one_of(METRICS, metric=metric)
    require_whole("trials", trials, 1)
    class_splits, path = class_folds(data, folds, seed=seed), Path(path).expanduser()
    with only_writer(path, "path"):
        study = _study(read_trials(path))
        _require_same_search(path, data, class_splits, metric, seed)
        for number in range(len(study.trials), trials):
            suggestion = _next_suggestion(study, derived_seed(seed, number))
            trial = _begin_trial(number, suggestion, space, path)
            seeds = [derived_seed(seed, 0, fold) for fold in range(folds)]
            done = len(trial.folds)
            for numbers in (measure or measured_folds)(train, trial.settings, class_splits[done:], seeds[done:]):
                trial = replace(trial, folds=(*trial.folds, numbers))
                trial = replace(trial, value=_value(trial, metric) if len(trial.folds) == folds else None)
                write_trial(path, trial)
            study.tell(suggestion, trial.value)
        finished = tuple(trial for trial in read_trials(path) if trial.value is not None)
    return CrossValidation(
        path=path, trials=finished, metric=metric, folds=class_splits, seed=seed, train=train, data=data
    )


def _next_suggestion(study, seed):
    import optuna

    study.sampler = optuna.samplers.TPESampler(seed=seed)
    return study.ask()


def _begin_trial(number, suggestion, space, path):
    """A new trial with the settings of a suggestion, or the unfinished trial of this number."""
    settings = json.loads(json.dumps(space(suggestion), allow_nan=False))
    for trial in read_trials(path):
        if trial.number == number:
            require(
                trial.settings == settings,
                f"a space that suggests {settings} in trial {number}, which was begun with {dict(trial.settings)}",
                "the same space as in the calls before. Choose another folder for another space",
            )
            return trial
    trial = Trial(number=number, settings=settings, folds=(), value=None, suggested=_as_json(suggestion))
    write_trial(path, trial)
    return trial


def _as_json(suggestion):
    import optuna

    to_json = optuna.distributions.distribution_to_json
    distributions = {name: to_json(distribution) for name, distribution in suggestion.distributions.items()}
    return {"params": suggestion.params, "distributions": distributions}


def _study(trials):
    optuna = optional_import("optuna", feature="cross_validate", extra="sweep")
    study = optuna.create_study(direction="maximize")
    for trial in [trial for trial in trials if trial.value is not None]:
        try:
            study.add_trial(_optuna_trial(trial))
        except Exception as error:  # The type of the error depends on the damage.
            raise ValueError(
                f"Received trial-{trial.number:04}.json, whose suggestions Optuna cannot read ({error}). Remove the "
                "file, and the files of later trials, to repeat them."
            ) from error
    return study


def _optuna_trial(trial):
    import optuna

    from_json = optuna.distributions.json_to_distribution
    distributions = {name: from_json(text) for name, text in trial.suggested["distributions"].items()}
    return optuna.trial.create_trial(params=trial.suggested["params"], distributions=distributions, value=trial.value)


def measured_folds(
    train: Train, settings: Any, folds: Sequence[tuple[Data, Data]], seeds: Sequence[int]
) -> Iterable[dict[str, Any]]:
    """The metrics of folds, one after the other."""
    return (measured_fold(train, settings, fold, seed) for fold, seed in zip(folds, seeds, strict=True))


def measured_fold(train: Train, settings: Any, fold: tuple[Data, Data], seed: int) -> dict[str, Any]:
    """Train on the training classes of a fold, and measure on its validation classes."""
    training, validation = fold
    model = train_seeded(train, settings, training, seed)
    embeddings = embed(model, validation)
    try:
        return metrics.retrieval(embeddings, validation.labels, k=1, full_map=False)
    except ValueError as error:  # embeddings that cannot be ranked
        return {"problem": str(error)}


def _value(trial, metric):
    return float(np.mean([fold.get(metric, 0.0) for fold in trial.folds]))


def _require_same_search(path, data, class_splits, metric, seed):
    """Describe the search in a new folder; raise a ValueError for the folder of another search."""
    search = {
        "metric": metric,
        "seed": seed,
        "protocol": data.protocol,
        "examples": len(data),
        "labels": zlib.crc32(np.ascontiguousarray(data.labels, np.int64).tobytes()),
        "folds": [list(validation.class_names) for _, validation in class_splits],
    }
    file = path / "search.json"
    if not file.exists():
        return write_json(file, search)
    earlier = read_json(file)
    changed = [name for name in search if search[name] != earlier.get(name)]
    require(not changed, f"path={str(path)!r} of a search with other {', '.join(changed)}", "a new folder, or the same")


def _line(trial):
    texts = {name: f"{x:.3g}" if isinstance(x, float) else str(x) for name, x in trial.settings.items()}
    settings = ", ".join(f"{name}={text}" for name, text in texts.items())
    return f"{trial.number:5}{100 * (trial.value or 0.0):13.1f}  {settings}{trial.problem and ', with a problem'}"
