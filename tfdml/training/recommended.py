"""Settings that follow from the set and the machine, each with its reason."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tfdml.training.settings import SETTINGS, Facts

_PASSES, _PASSES_WITHOUT_CLASSES = 40, 6  # over the training images; studies/unlabeled.py
_LEAST_STEPS = 60  # without classes
_EPOCHS = 10
MINUTES = {"cpu": 6.0, "gpu": 30.0}  # of training that a user may be expected to wait for


class Recommended(NamedTuple):
    """A value and why."""

    value: Any
    reason: str


def recommended(names: Iterable[str], facts: Facts, overrides: Mapping[str, Any]) -> dict[str, Recommended]:
    """Settings for these facts, in the order of their fields; `overrides` has the values that are decided."""
    chosen: dict[str, Recommended] = {}
    for name in names:
        rule = (overrides[name], "as given") if name in overrides else SETTINGS[name].metadata["recommended"]
        chosen[name] = Recommended(*(rule(facts, {**overrides, **values_of(chosen)}) if callable(rule) else rule))
    return chosen


def values_of(chosen: Mapping[str, Recommended]) -> dict[str, Any]:
    """The values alone."""
    return {name: setting.value for name, setting in chosen.items()}


def recommended_steps(
    facts: Facts,
    overrides: Mapping[str, Any],
    *,
    batch_size: int,
    step_seconds: float | None,
    max_minutes: float,
    evaluation_seconds: float = 0.0,
) -> dict[str, Recommended]:
    """The number of batches and of epochs; evaluations take half of the time at most.

    There is an evaluation before training and one after every epoch. `step_seconds` is None where `steps` is given.
    """
    seconds = 60 * max_minutes - evaluation_seconds
    most = int(seconds / 2 / evaluation_seconds) if evaluation_seconds else _EPOCHS
    epochs = overrides.get("epochs", min(_EPOCHS, max(most, 1)))
    if step_seconds is None:
        steps = Recommended(overrides["steps"], "as given")
    else:
        passes, least = (_PASSES_WITHOUT_CLASSES, _LEAST_STEPS) if overrides.get("unlabeled") else (_PASSES, 1)
        by_set = max(math.ceil(passes * facts.images / batch_size), least)
        steps = _steps(facts, batch_size, by_set, step_seconds, seconds - epochs * evaluation_seconds, max_minutes)
    if "epochs" in overrides:
        return {"steps": steps, "epochs": Recommended(epochs, "as given")}
    reason = "evaluations; the best epoch is kept"
    return {"steps": steps, "epochs": Recommended(min(epochs, steps.value), reason)}


def _steps(facts, batch_size, by_set, step_seconds, seconds, max_minutes):
    by_time = max(int(seconds / step_seconds), 1)
    step = f"{step_seconds:.2g} s a batch"
    if by_set <= by_time:
        return Recommended(by_set, f"{by_set * batch_size / facts.images:.0f} passes over the training images, {step}")
    passes = by_time * batch_size / facts.images
    return Recommended(by_time, f"{max_minutes:g} minutes at {step}: {passes:.1f} passes over the training images")
