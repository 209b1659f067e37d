"""Measurement on the test classes, and the record of it."""

import datetime
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import keras
import numpy as np

from tfdml import models
from tfdml._core.atomic import atomic_write
from tfdml._core.checks import require, require_whole
from tfdml._core.json_files import read_json
from tfdml.datasets import require_disjoint
from tfdml.evaluation.protocol.folds import derived_seed, train_seeded
from tfdml.evaluation.protocol.trials import write_json
from tfdml.evaluation.report.measurement import evaluate, measured, values_per_query
from tfdml.evaluation.report.queries_and_gallery import embedded_set
from tfdml.evaluation.report.records import Evaluation, Measured, plain
from tfdml.search.scores import l2_normalize
from tfdml.typing import Data


@dataclass(frozen=True, eq=False, kw_only=True)
class TestResult:
    """Numbers on the test classes; it prints as a table. `CrossValidation.open_test` makes it.

    Attributes:
        opening: 1 for the first look at the test classes, 2 for the second, ...
        earlier: the times of the openings before, as text.
        protocol: the protocol of the test set.
        trial: number of the trial whose settings were trained with.
        settings: these settings.
        folds: number of folds.
        runs: number of models per fold.
        models: dicts of the metrics of each model, run by run and fold by fold.
        separated: `Measured` by name of metric: the mean over the models.
        concatenated: `Measured` by name of metric: the embeddings of a run side by side, the mean over the runs.
        deviations: for "separated" and "concatenated", the standard deviation of each metric over the runs; None for
            one run.
        evaluation: `Evaluation` of the concatenated embeddings of the first run, for its page.
    """

    __test__ = False  # not a test of pytest

    opening: int
    earlier: tuple[str, ...]
    protocol: str
    trial: int
    settings: Mapping[str, Any]
    folds: int
    runs: int
    models: tuple[Mapping[str, float], ...]
    separated: Mapping[str, Measured]
    concatenated: Mapping[str, Measured]
    deviations: Mapping[str, Mapping[str, float | None]]
    evaluation: Evaluation = field(repr=False)

    def __str__(self) -> str:
        rows = [(name, _cell(self, "separated", name), _cell(self, "concatenated", name)) for name in self.separated]
        return "\n".join(
            [
                f"protocol      {self.protocol}",
                f"test classes  opening {self.opening}",
                f"models        {self.folds} folds, {self.runs} per fold",
                "",
                f"{'%':14}{'separated':28}concatenated",
                *(f"{name:14}{separated:28}{concatenated}" for name, separated, concatenated in rows),
                "",
                "with 95% intervals over classes" + (", and ± standard deviations over runs" if self.runs > 1 else ""),
                *([_warning(self.opening, self.earlier)] if self.earlier else []),
            ]
        )

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        """All attributes as dicts, lists, numbers and text, as in the file of the opening."""
        values = {
            column.name: plain(getattr(self, column.name)) for column in fields(self) if column.name != "evaluation"
        }
        return {**values, "evaluation": self.evaluation.as_dict()}


def open_test(search: Any, test: Data, runs: int, k: Any) -> TestResult:
    """See `CrossValidation.open_test`."""
    require_whole("runs", runs, 1)
    require_disjoint(search.data, test)
    folds = range(len(search.folds))
    files = [[_model_file(search, run, fold) for fold in folds] for run in range(1, runs + 1)]
    opening, earlier = _record_opening(search, test)
    embeddings = [
        [models.embed(keras.saving.load_model(file), test) for file in files_of_run] for files_of_run in files
    ]
    concatenated = [np.concatenate([l2_normalize(x) for x in run], axis=1) for run in embeddings]
    values_of_models = [[_values(x, test, k) for x in run] for run in embeddings]
    values_fold_lists = {
        "separated": [_mean(values) for values in values_of_models],
        "concatenated": [_values(x, test, k) for x in concatenated],
    }
    evaluation = evaluate(concatenated[0], test, k=k, seed=search.seed)
    result = TestResult(
        opening=opening["opening"],
        earlier=earlier,
        protocol=evaluation.protocol,
        trial=opening["trial"],
        settings=opening["settings"],
        folds=len(folds),
        runs=runs,
        models=tuple(_means(values) for run in values_of_models for values in run),
        **{kind: _measured(_mean(values), test.labels, search.seed) for kind, values in values_fold_lists.items()},
        deviations={kind: _deviations(values) for kind, values in values_fold_lists.items()},
        evaluation=evaluation,
    )
    write_json(_file(search.folder, result.opening), {**opening, **result.as_dict()})
    return result


def _means(values):
    """The mean of each metric over queries, NaN left out."""
    return {name: float(np.nanmean(value)) for name, value in values.items()}


def _model_file(search, run, fold):
    """The file of the model of a run and fold with the chosen settings, which is trained where there is none."""
    path = search.folder / f"models-of-trial-{search.best.number:04}" / f"run-{run}-fold-{fold}.keras"
    if not path.exists():
        model = train_seeded(search.train, search.settings, search.folds[fold][0], derived_seed(search.seed, run, fold))
        with atomic_write(path) as new:
            model.save(new)
    return path


def _record_opening(search, test):
    """Record an opening before it happens; its record, and the times of earlier openings."""
    earlier = tuple(map(_time, sorted(search.folder.glob("opening-*.json"))))
    opening = {
        "opening": len(earlier) + 1,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "protocol": test.protocol,
        "trial": search.best.number,
        "settings": search.settings,
    }
    write_json(_file(search.folder, opening["opening"]), opening)
    if earlier:
        warnings.warn(_warning(opening["opening"], earlier), stacklevel=4)
    return opening, earlier


def _time(path):
    """The time of an earlier opening, as text."""
    time = read_json(path).get("time")
    require(isinstance(time, str), f"{str(path)!r} with time={time!r}", "the record of an opening, with its time")
    return time


def _file(folder, number):
    return folder / f"opening-{number:04}.json"


def _warning(opening, earlier):
    return (
        f"This is opening {opening} of the test classes, after {', '.join(earlier)}. Whatever was chosen since the "
        "first one is biased toward them: report the first opening, or say which one this is."
    )


def _values(embeddings, test, k):
    """Metrics per query of a test set."""
    queries = embedded_set(embeddings, test, "embeddings")
    return values_per_query(queries, queries, k)


def _mean(values):
    """The mean over several dicts of arrays, by name."""
    return {name: np.mean([value[name] for value in values], axis=0) for name in values[0]}


def _measured(values, labels, seed):
    return {name: measured(value, labels, seed) for name, value in values.items()}


def _deviations(runs):
    """The standard deviation of each metric over runs, each a dict of values per query; None for one run."""
    if len(runs) == 1:
        return dict.fromkeys(runs[0])
    return {name: float(np.std([np.nanmean(run[name]) for run in runs], ddof=1)) for name in runs[0]}


def _cell(result, kind, name):
    value, low, high = (100 * number for number in getattr(result, kind)[name])
    deviation = result.deviations[kind][name]
    return f"{value:.1f}{'' if deviation is None else f' ± {100 * deviation:.1f}'} [{low:.1f}, {high:.1f}]"
