"""The trials of a search, kept as one JSON file each."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import require
from tfdml._core.json_files import read_json

_SUGGESTED = {"params", "distributions"}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial of a search.

    Attributes:
        number: from 0.
        settings: what was trained with.
        folds: of each fold that is finished, the metrics on its validation classes; with `problem`, a text, and no
            metrics where the embeddings were not finite or all the same.
        value: the mean of the metric of the search over all folds, a fold with a problem counted as 0; None for a trial
            with folds to come.
        suggested: what Optuna needs to know of the trial: its parameters, and their distributions as JSON.
    """

    number: int
    settings: Mapping[str, Any]
    folds: tuple[Mapping[str, Any], ...]
    value: float | None
    suggested: Mapping[str, Any]

    @property
    def problem(self) -> str:
        """The first problem of a fold; empty where there was none."""
        return next((fold["problem"] for fold in self.folds if "problem" in fold), "")


def read_trials(folder: Path) -> list[Trial]:
    """All trials of a folder, by number."""
    return [_read_trial(path) for path in sorted(folder.glob("trial-*.json"))]


def _read_trial(path):
    values = read_json(path)
    names = {field.name for field in fields(Trial)}
    is_whole = values.keys() == names and _has_types(values)
    require(is_whole, f"{str(path)!r} without the entries of a trial", f"{', '.join(sorted(names))}. Remove the file")
    return Trial(**{**values, "folds": tuple(values["folds"])})


def _has_types(values):
    """Whether the entries of a trial have the types of `Trial`."""
    folds, suggested, value = values["folds"], values["suggested"], values["value"]
    if not (isinstance(folds, list) and isinstance(suggested, dict) and suggested.keys() == _SUGGESTED):
        return False
    is_numbered = type(values["number"]) is int and values["number"] >= 0 and (value is None or _is_finite(value))
    are_dicts = all(isinstance(each, dict) for each in [values["settings"], *suggested.values(), *folds])
    return is_numbered and are_dicts and all(map(_is_fold, folds))


def _is_fold(fold):
    """Whether a fold has metrics, or a problem."""
    numbers = [value for name, value in fold.items() if name != "problem"]
    return isinstance(fold.get("problem", ""), str) and all(map(_is_finite, numbers))


def _is_finite(value):
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def write_trial(folder: Path, trial: Trial) -> None:
    """Keep a trial; its earlier version is replaced."""
    write_json(folder / f"trial-{trial.number:04}.json", asdict(trial))


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Write JSON, in one step."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8")
