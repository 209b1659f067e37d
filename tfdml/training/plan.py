"""The plan of a run, made once: its settings with their reasons, and the parts of its set."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfdml._core.checks import require
from tfdml.datasets import LabeledSet
from tfdml.training import network
from tfdml.training.data_splits import DataSplits, class_sizes, split_set
from tfdml.training.options import TrainingOptions
from tfdml.training.recommended import MINUTES, SPLIT, TRAINING, Facts, recommended, recommended_steps
from tfdml.training.settings import FILE, NAMES, TrainingSettings, read_record


class Plan(NamedTuple):
    """All settings of a run, the reasons of each (none if it is resumed), all usable images, and their parts."""

    settings: TrainingSettings
    reasons: dict[str, str]
    images: LabeledSet
    splits: DataSplits


def new_plan(images: LabeledSet, overrides: TrainingOptions, max_minutes: float | None) -> Plan:
    """The plan of a new run, whose settings follow from the set and the machine where `overrides` has none."""
    device = network.device()
    minutes = MINUTES[device] if max_minutes is None else max_minutes
    require(minutes > 0, f"max_minutes={max_minutes}", "a number above 0")
    chosen = recommended(SPLIT, _facts(images, device), overrides)
    splits = split_set(images, **_values(chosen))
    facts = _facts(splits.train, device)
    chosen |= recommended(TRAINING, facts, overrides)
    trial = TrainingSettings(**_values(chosen), steps=10, epochs=1)
    load = network.preprocessing_of(trial, images)
    splits = splits.read_by(load)
    _require_batch(trial, splits.train, device)
    seconds = {"step_seconds": None} if "steps" in overrides else network.step_seconds(trial, splits)
    chosen |= recommended_steps(facts, overrides, batch_size=trial.batch_size, max_minutes=minutes, **seconds)
    reasons = {name: setting.reason for name, setting in chosen.items()}
    return Plan(TrainingSettings(**_values(chosen)), reasons, replace(images, load=load), splits)


def _facts(images, device):
    return Facts(len(images), int(np.count_nonzero(class_sizes(images) >= 2)), device)


def _values(chosen):
    return {name: setting.value for name, setting in chosen.items()}


def _require_batch(settings, train_part, device):
    """Raise an error unless a batch has enough classes, and fits into memory; the memory of a GPU is not known."""
    classes = len(np.unique(train_part.labels))
    received = f"classes_per_batch={settings.classes_per_batch} and {classes} classes to train on"
    require(settings.classes_per_batch <= classes, received, f"at most {classes}")
    if device == "cpu":
        model = network.new_model(settings, len(train_part.class_names))
        network.require_memory(settings, model, network.free_memory())


def resumed_plan(folder: Path, images: LabeledSet) -> Plan:
    """The plan of the run in a folder."""
    record = read_record(folder / FILE)
    missing = [name for name in NAMES if name not in record]
    require(not missing, f"{FILE} without {', '.join(missing)}", "the settings that the run wrote")
    settings = TrainingSettings(**{name: record[name] for name in NAMES})
    images = replace(images, load=network.preprocessing_of(settings, images))
    is_same = record.get("fingerprint") == images.fingerprint(portable=True)
    expected = (
        "the set of the run: the same files by name, folder and size, with the same labels, boxes and background, here "
        "or copied elsewhere. Begin a new run for another set"
    )
    require(is_same, "resume=True and a set that has changed", expected)
    return Plan(settings, {}, images, split_set(images, **{name: record[name] for name in SPLIT}))
