"""Options of `tfdml train`."""

import argparse
from typing import Any

from tfdml.cli.options.common import color, declare_set, positive_number

_WHOLE: dict[str, Any] = {"type": int, "metavar": "N"}
_NUMBER: dict[str, Any] = {"type": float, "metavar": "X"}
_NAME: dict[str, Any] = {"type": str, "metavar": "NAME"}
_LOSSES = ("multi-similarity", "triplet", "contrastive", "supcon", "nt-xent", "proxy-anchor", "arcface")
_TUNINGS = ("head", "lora", "all")
_POOLINGS = ("avg", "max", "avg+max", "gem", "token", "token+avg")

SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "split_by": ({"choices": ("class", "image")}, "what the parts do not share: classes, or images only"),
    "validation": (_NUMBER, "share of the classes or images to choose the best epoch on"),
    "test": (_NUMBER, "share of the classes or images to measure once at the end; 0 for none"),
    "seed": (_WHOLE, "of the split, the weights and the batches"),
    "backbone": (_NAME, "network of tfdml.models.from_backbone, or residual for a small one with random weights"),
    "weights": (_NAME, "imagenet, a file of weights, or none for random ones"),
    "pooling": ({"choices": _POOLINGS}, "of feature maps or tokens"),
    "dim": (_WHOLE, "size of the embedding"),
    "size": (_WHOLE, "height and width of the input in pixels"),
    "fit": ({"choices": ("pad", "crop", "stretch")}, "how an image becomes a square"),
    "mirror": ({"action": argparse.BooleanOptionalAction}, "mirror images at random in training"),
    "tuning": (
        {"choices": ("head", "lora", "all")},
        "what is trained: the head, low-rank updates and the head, all",
    ),
    "lora_rank": (_WHOLE, "rank of the updates, for --tuning lora"),
    "loss": ({"choices": _LOSSES}, "loss"),
    "learning_rate": (_NUMBER, "highest learning rate"),
    "classes_per_batch": (_WHOLE, "classes of a batch"),
    "examples_per_class": (_WHOLE, "images of each class of a batch"),
    "micro_batch_size": (_WHOLE, "images that the network takes at a time; 0 for the whole batch"),
    "steps": (_WHOLE, "batches of the run"),
    "epochs": (_WHOLE, "parts of the run, each followed by an evaluation"),
}
"""How argparse reads each of `tfdml.training.TrainingSettings`, and the text of `--help`."""

EXAMPLE = "tfdml train photos --out run"


def declare(parser: argparse.ArgumentParser) -> None:
    """Train a model on a set, and leave a folder to serve."""
    declare_set(parser)
    text = "color behind transparent pixels, such as 255 or 255,255,255, in training and in every use of the model"
    parser.add_argument("--background", type=color, metavar="COLOR", help=text)
    parser.add_argument("--out", required=True, metavar="RUN", help="new folder; with --resume, the folder of the run")
    parser.add_argument("--config", metavar="FILE", help="settings.toml of another run, to repeat it")
    parser.add_argument("--resume", action="store_true", help="go on with the run in RUN, after its last whole epoch")
    parser.add_argument("--quick", action="store_true", help="smoke test: a few small batches")
    text = "limit for the training, from which the number of steps follows (default: 6 on a CPU, 30 on a GPU)"
    parser.add_argument("--max-minutes", type=positive_number, metavar="N", help=text)
    settings = parser.add_argument_group("settings", "Each follows from the set and the machine unless it is given.")
    for name, (form, text) in SETTINGS.items():
        settings.add_argument(f"--{name.replace('_', '-')}", help=text, **form)
