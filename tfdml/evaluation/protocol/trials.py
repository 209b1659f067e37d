"""The trials of a search, one JSON file each."""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tfdml._core.checks import require
from tfdml._core.stored import read_json
from tfdml.evaluation.record import write_json

_SUGGESTED = {"params", "distributions"}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial of a search.

    Attributes:
        number: from 0.
        settings: settings of the training.
        folds: metrics on the validation classes of each finished fold; only `problem`, a text, where embeddings were
            not finite or all the same.
        value: the mean of the metric over all folds, a fold with a problem counted as 0; None for an unfinished trial.
        suggested: the trial in the form of Optuna: its parameters, and their distributions as JSON.
    """

    number: int
    settings: Mapping[str, Any]
    folds: tuple[Mapping[str, Any], ...]
    value: float | None
    suggested: Mapping[str, Any]

    @property
    def problem(self) -> str:
        """The first problem of a fold; empty if there is none."""
        return next((fold["problem"] for fold in self.folds if "problem" in fold), "")


def read_trials(folder: Path) -> list[Trial]:
    """All trials of a folder, by number."""
    return [_read_trial(path) for path in sorted(folder.glob("trial-*.json"))]


def _read_trial(path):
    values = read_json(path)
    names = {field.name for field in fields(Trial)}
    is_valid = values.keys() == names and _has_types(values)
    require(is_valid, f"{str(path)!r} without the entries of a trial", f"{', '.join(sorted(names))}. Remove the file")
    return Trial(**{**values, "folds": tuple(values["folds"])})


def _has_types(values):
    """Whether the entries of a trial have the types of `Trial`."""
    folds, suggested, value = values["folds"], values["suggested"], values["value"]
    if not (isinstance(folds, list) and isinstance(suggested, dict) and suggested.keys() == _SUGGESTED):
        return False
    has_numbers = type(values["number"]) is int and values["number"] >= 0 and (value is None or _is_finite(value))
    has_dicts = all(isinstance(value, dict) for value in [values["settings"], *suggested.values(), *folds])
    return has_numbers and has_dicts and all(map(_is_fold, folds))


def _is_fold(fold):
    numbers = [value for name, value in fold.items() if name != "problem"]
    return isinstance(fold.get("problem", ""), str) and all(map(_is_finite, numbers))


def _is_finite(value):
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def write_trial(folder: Path, trial: Trial) -> None:
    """Write a trial; it replaces an earlier version."""
    write_json(folder / f"trial-{trial.number:04}.json", asdict(trial))
