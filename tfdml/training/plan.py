"""The plan of a run, made once: its settings with their reasons, and the parts of its set."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import counted, names_of_labels, require
from tfdml._core.stored import read_json
from tfdml.datasets import LabeledSet
from tfdml.datasets.caches.set_cache import states_of_files
from tfdml.datasets.readers.label_tables import read_labels, read_pairs
from tfdml.datasets.readers.pair_lists import PairList
from tfdml.models import EmbeddingModel
from tfdml.training import network
from tfdml.training.data_splits import parts_of, split_rows
from tfdml.training.recommended import MINUTES, recommended, recommended_steps, values_of
from tfdml.training.settings import NAMES, SPLIT, TRAINING, Facts, TrainingSettings
from tfdml.training.settings_file import FILE, new_settings, read_record, write_settings
from tfdml.training.unlabeled import ids_of, is_by_views, parts_of_unlabeled, split_labels, split_views

_FILES = "state/files.json"  # to name those of the set that change


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """All settings of a run with their reasons (none if it is resumed), and the usable images, read for the network.

    `rows` and `parts` are the training, validation and test part by name; a small set has no test part. Images without
    a label are in the index, and in no part, unless the run is unlabeled. Where views measure the network, `gallery` is
    a part, too: the images that they are to find. `model` is the network before training; its steps may be compiled;
    None if the run is resumed.
    """

    settings: TrainingSettings
    reasons: Mapping[str, str]
    images: LabeledSet
    rows: Mapping[str, np.ndarray]
    parts: Mapping[str, LabeledSet]
    model: EmbeddingModel | None = None

    @property
    def train(self) -> LabeledSet:
        """The images to train on."""
        return self.parts["training"]

    @property
    def gallery(self) -> LabeledSet | None:
        """The training part, if other parts of the same classes are searched in it; None for parts of other classes.

        Views are searched in images of their own part and of others.
        """
        if self.settings.unlabeled:
            return self.parts.get("gallery")
        return self.train if self.settings.split_by == "image" else None

    @property
    def reported(self) -> str:
        """The name of the part that the report measures."""
        return next(name for name in ("pairs", "test", "validation") if name in self.rows)

    @cached_property
    def frozen(self) -> EmbeddingModel:
        """The network before training."""
        return network.frozen_network(self.settings)

    @cached_property
    def pairs(self) -> PairList | None:
        """The pairs that decide, as rows of the set; None without."""
        return read_pairs(self.settings.labels, self.images, has_all=False) if "pairs" in self.rows else None

    @property
    def are_views(self) -> bool:
        """Whether the measured parts are views, which are no images of the set."""
        return "gallery" in self.parts

    @property
    def metric(self) -> str:
        """The metric that chooses the best epoch: MAP@R, or for views, each of which is to find one image, MRR."""
        return "mrr" if self.are_views else "map@r"

    @property
    def measured_rows(self) -> np.ndarray:
        """Ascending rows of the images that a measurement embeds: validation, test, and the gallery."""
        if self.are_views:
            names = [name for name in self.rows if name in ("gallery", "pairs")]
        else:
            names = [name for name in self.rows if name != "training" or self.gallery is not None]
        return np.sort(np.concatenate([self.rows[name] for name in names]))

    def require_batch(self, device: str) -> EmbeddingModel:
        """Raise an error unless a batch has enough classes, and fits into memory; a GPU's memory is not known.

        Returns the network that was measured, not trained yet.
        """
        classes = len(np.unique(self.train.labels))
        received = f"classes_per_batch={self.settings.classes_per_batch} and {counted(classes, 'class')} to train on"
        require(self.settings.classes_per_batch <= classes, received, f"at most {classes}")
        model = network.new_model(self.settings, self.train)
        if device == "cpu":
            network.require_memory(self.settings, model, network.free_memory())
        return model

    def begin(self, folder: Path, log: Callable[[str], None]) -> None:
        """Say the plan, and write its settings into a new folder."""
        for name, images in self.parts.items():
            is_view = self.are_views and name in ("validation", "test")
            classes = f" of {counted(len(np.unique(images.labels)), 'class')}"
            ids = "" if self.settings.unlabeled and (self.are_views or name == "training") else classes
            kind = f"views of {counted(len(self.rows[name]), 'image')}" if is_view else "images"
            log(f"{name:12}{len(images):7,} {kind}{ids}")
        if self.pairs is not None:
            log(f"{'pairs':12}{len(self.pairs):7,} of {counted(len(self.rows['pairs']), 'image')}")
        log("Settings, each an option:")
        for name, reason in self.reasons.items():
            is_shown = {"lora_rank": self.settings.tuning == "lora"} | dict.fromkeys(
                ("unlabeled", "labels"), self.settings.unlabeled
            )
            if is_shown.get(name, True):
                log(f"  {name:20}{getattr(self.settings, name)!s:20}{reason}".rstrip())
        with atomic_write(folder, lambda _: ()) as new:  # a folder without settings could not be resumed
            new.mkdir()
            write_settings(new / FILE, self.settings, self.reasons, self.images.fingerprint(portable=True))
            (new / _FILES).parent.mkdir()
            (new / _FILES).write_text(json.dumps(_facts_of_files(self.images)), encoding="utf-8")


def new_plan(images: LabeledSet, overrides: Mapping[str, Any], max_minutes: float | None) -> Plan:
    """The plan of a new run. Settings follow from the set and the machine where `overrides` has none."""
    device = network.device()
    minutes = MINUTES[device] if max_minutes is None else max_minutes
    require(minutes > 0, f"max_minutes={max_minutes}", "a number above 0")
    values = {"unlabeled": False, "labels": "none", **overrides}
    by_views = is_by_views(values)
    facts = _facts(_classes(images, values, by_views), device)
    facts = facts._replace(by_views=by_views, has_pairs=by_views and values["labels"] != "none")
    chosen = recommended(SPLIT, facts, overrides)
    rows = _split(images, values_of(chosen))
    train = ids_of(images) if chosen["unlabeled"].value else images.labels
    facts = _facts(train[rows["training"]], device, least=1 if chosen["unlabeled"].value else 2)
    chosen |= recommended(TRAINING, facts, overrides)
    trial = new_settings({**values_of(chosen), "steps": 10, "epochs": 1})
    images = replace(images, load=network.preprocessing_of(trial, images.load))
    parts = _parts(images, rows, trial)
    plan = Plan(settings=trial, reasons={}, images=images, rows=rows, parts=parts)
    model = plan.require_batch(device)
    timed = (model, plan.train, parts["validation"], plan.gallery)
    seconds = {"step_seconds": None} if "steps" in overrides else network.step_seconds(trial, *timed)
    chosen |= recommended_steps(facts, overrides, batch_size=trial.batch_size, max_minutes=minutes, **seconds)
    reasons = {name: setting.reason for name, setting in chosen.items()}
    return replace(plan, settings=new_settings(values_of(chosen)), reasons=reasons, model=model)


def _facts(labels, device, least=2):
    return Facts(len(labels), int(np.count_nonzero(np.bincount(labels) >= least)), device)


def _classes(images, values, by_views):
    """The classes on which the split depends, of the images that have one."""
    if by_views:
        return np.arange(len(images))
    labels = read_labels(values["labels"], images, has_all=False)[0] if values["unlabeled"] else images.labels
    return labels[labels >= 0]


def _split(images, values):
    if not values["unlabeled"]:
        return split_rows(images, **{name: values[name] for name in ("split_by", "validation", "test", "seed")})
    if is_by_views(values):
        return split_views(images, values)
    return split_labels(images, values)


def _parts(images, rows, settings):
    if settings.unlabeled:
        return parts_of_unlabeled(images, rows, settings)
    return parts_of(images, rows, settings.split_by)


def resumed_plan(folder: Path, images: LabeledSet) -> Plan:
    """The plan of the run in a folder."""
    plan = plan_of(folder, images)
    expected = (
        "the set of the run: the same files by name, folder and size, with the same labels, boxes and "
        "background, here or copied elsewhere. Begin a new run for another set"
    )
    if plan is None:
        raise ValueError(
            f"Received resume=True and a set that has changed{_change(folder, images)}, expected {expected}."
        )
    return plan


def _facts_of_files(images):
    """Size, class and box of each row of a set of files, by the name of the file in their folder."""
    facts: dict[str, list[Any]] = {}
    lines = [] if images.paths is None else states_of_files(images.paths.tolist(), portable=True)
    for row, (line, name) in enumerate(zip(lines, names_of_labels(images), strict=bool(lines))):
        file, _, size = line.rpartition(" ")
        box = None if images.boxes is None else images.boxes[row].tolist()
        facts.setdefault(file, []).append([size, name, box])
    return facts


def _change(folder, images):
    """The first file of a set that is not as it was when the run began, and how; empty where that is not known."""
    file, now = folder / _FILES, _facts_of_files(images)
    before = read_json(file) if file.is_file() else now
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if not changed:
        return ""
    first = changed[0]
    how = "is new" if first not in before else "has another size, label or box"
    how = how if first in now else "is gone, or cannot be read"
    return f" in {counted(len(changed), 'file')} since the run began: {first!r} {how}"


def plan_of(folder: Path, images: LabeledSet) -> Plan | None:
    """The plan of the run in a folder if these are the usable images of its set; None for another set."""
    record = {"unlabeled": False, "labels": "none"} | read_record(folder / FILE)  # of a run before they were settings
    missing = [name for name in NAMES if name not in record]
    require(not missing, f"{FILE} without {', '.join(missing)}", "the settings that the run wrote")
    settings = new_settings({name: record[name] for name in NAMES})
    images = replace(images, load=network.preprocessing_of(settings, images.load))
    if record.get("fingerprint") != images.fingerprint(portable=True):
        return None
    rows = _split(images, record)
    parts = _parts(images, rows, settings)
    return Plan(settings=settings, reasons={}, images=images, rows=rows, parts=parts)
