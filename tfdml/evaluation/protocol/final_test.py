"""The final test: models of the best settings, measured on the test classes, and the record of each opening."""

import datetime
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from tfdml._core.atomic import atomic_write, only_writer
from tfdml._core.checks import labeled_part, require, require_whole
from tfdml._core.stored import read_json
from tfdml.embedding.in_memory import embed
from tfdml.evaluation.measure import evaluate, values_per_query
from tfdml.evaluation.protocol.folds import derived_seed, train_seeded
from tfdml.evaluation.record import Evaluation, Mean, plain, write_json
from tfdml.evaluation.statistics import means_of
from tfdml.search.scores import l2_normalize
from tfdml.typing import Data


@dataclass(frozen=True, eq=False, kw_only=True)
class TestResult:
    """Metrics on the test classes, the result of `CrossValidation.open_test`; it prints as a table.

    Attributes:
        opening: number of this measurement on the test classes, from 1.
        earlier: times of the earlier openings, as text.
        protocol: the protocol of the test set.
        trial, settings: number and settings of the best trial, used to train the models.
        folds, runs: numbers of folds, and of models per fold.
        models: dicts of the metrics of each model, run by run and fold by fold.
        separated: `Mean` by name of metric: the mean over the models.
        concatenated: `Mean` by name of metric: of the concatenated embeddings of a run, the mean over the runs.
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
    separated: Mapping[str, Mean]
    concatenated: Mapping[str, Mean]
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
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        return plain({**values, "evaluation": self.evaluation.as_dict()})


class _Run(NamedTuple):
    """The models of one run on the test set: embeddings of all, `(queries, folds * dim)`; metrics per query."""

    embeddings: np.ndarray
    models: list[dict[str, np.ndarray]]
    concatenated: dict[str, np.ndarray]


def open_test(search: Any, test: Data, runs: int, k: int | Sequence[int] | None) -> TestResult:
    """See `CrossValidation.open_test`; `search` is a `CrossValidation`."""
    require_whole("runs", runs, 1)
    from tfdml import datasets

    test = labeled_part(test, "the test")
    datasets.require_disjoint(search.data, test)
    folds = range(len(search.folds))
    model_files = [[_model_file(search, run, fold) for fold in folds] for run in range(1, runs + 1)]
    with only_writer(search.path / "opening", "path"):
        opening, earlier = _record_opening(search, test)
    measured_runs = [_measured_run(files, test, k) for files in model_files]
    separated = [_mean(run.models) for run in measured_runs]
    concatenated = [run.concatenated for run in measured_runs]
    evaluation = evaluate(measured_runs[0].embeddings, test, k=k, seed=search.seed)
    result = TestResult(
        opening=opening["opening"],
        earlier=earlier,
        protocol=evaluation.protocol,
        trial=opening["trial"],
        settings=opening["settings"],
        folds=len(folds),
        runs=runs,
        models=tuple(
            {name: float(np.nanmean(x)) for name, x in values.items()} for run in measured_runs for values in run.models
        ),
        separated=means_of(_mean(separated), test.labels),
        concatenated=means_of(_mean(concatenated), test.labels),
        deviations={"separated": _deviations(separated), "concatenated": _deviations(concatenated)},
        evaluation=evaluation,
    )
    write_json(_file(search.path, result.opening), {**opening, **result.as_dict()})
    return result


def _measured_run(files, test, k):
    import keras

    embeddings = [embed(keras.saving.load_model(file), test) for file in files]
    concatenated = np.concatenate([l2_normalize(x) for x in embeddings], axis=1)
    values = [values_per_query(x, test.labels, k) for x in (*embeddings, concatenated)]
    return _Run(concatenated, values[:-1], values[-1])


def _mean(runs):
    return {name: np.mean([values[name] for values in runs], axis=0) for name in runs[0]}


def _deviations(runs):
    if len(runs) == 1:
        return dict.fromkeys(runs[0])
    return {name: float(np.std([np.nanmean(values[name]) for values in runs], ddof=1)) for name in runs[0]}


def _model_file(search, run, fold):
    """The file of the model of a run and fold with the best settings; without a file, it trains the model."""
    path = search.path / f"models-of-trial-{search.best.number:04}" / f"run-{run}-fold-{fold}.keras"
    if not path.exists():
        model = train_seeded(search.train, search.settings, search.folds[fold][0], derived_seed(search.seed, run, fold))
        with atomic_write(path) as new:
            model.save(new)
    return path


def _record_opening(search, test):
    """Write the record of an opening before it happens; return the record and the times of earlier openings."""
    earlier = tuple(map(_time, sorted(search.path.glob("opening-*.json"))))
    opening = {
        "opening": len(earlier) + 1,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "protocol": test.protocol,
        "trial": search.best.number,
        "settings": search.settings,
    }
    write_json(_file(search.path, opening["opening"]), opening)
    if earlier:
        warnings.warn(_warning(opening["opening"], earlier), stacklevel=4)
    return opening, earlier


def _time(path):
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


def _cell(result, kind, name):
    mean, deviation = getattr(result, kind)[name], result.deviations[kind][name]
    return mean.text() if deviation is None else f"{mean.text()} ± {100 * deviation:.1f}"
