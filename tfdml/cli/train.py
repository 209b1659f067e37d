"""`tfdml train`."""

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from tfdml import datasets, training
from tfdml._core.terminal import visible
from tfdml.cli import inputs
from tfdml.cli.options import declare_set, positive_number
from tfdml.cli.printing import EXIT_OK, print_result
from tfdml.training.settings import NAMES, TYPES
from tfdml.training.train import require_outside

_TEXTS = {
    "split_by": "what the parts do not share: classes, or images only",
    "validation": "share of the classes or images to choose the best epoch on",
    "test": "share of the classes or images to measure once at the end; 0 for none",
    "seed": "of the split, the weights and the batches",
    "backbone": "network of tfdml.models.from_backbone, or residual for a small one with random weights",
    "weights": "imagenet, a file of weights, or none for random ones",
    "pooling": "of feature maps or tokens",
    "dim": "size of the embedding",
    "size": "height and width of the input in pixels",
    "fit": "how an image becomes a square",
    "mirror": "mirror images at random in training",
    "tuning": "what is trained: the head, low-rank updates and the head, or all",
    "lora_rank": "rank of the updates, for --tuning lora",
    "loss": "loss",
    "learning_rate": "highest learning rate",
    "classes_per_batch": "classes of a batch",
    "examples_per_class": "images of each class of a batch",
    "micro_batch_size": "images that the network takes at a time; 0 for the whole batch",
    "steps": "batches of the run",
    "epochs": "parts of the run, each followed by an evaluation",
}


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    declare_set(parser)
    parser.add_argument("--out", required=True, metavar="RUN", help="new folder; with --resume, the folder of the run")
    parser.add_argument("--config", metavar="FILE", help="settings.toml of another run, to repeat it")
    parser.add_argument("--resume", action="store_true", help="go on with the run in RUN, after its last whole epoch")
    parser.add_argument("--quick", action="store_true", help="smoke test: a few small batches")
    text = "limit for the training, from which the number of steps follows (default: 6 on a CPU, 30 on a GPU)"
    parser.add_argument("--max-minutes", type=positive_number, metavar="N", help=text)
    settings = parser.add_argument_group("settings", "Each follows from the set and the machine unless it is given.")
    for name in NAMES:
        settings.add_argument(f"--{name.replace('_', '-')}", help=_TEXTS[name], **_form(TYPES[name]))


def run(options: argparse.Namespace) -> int:
    """Train a model on a set, and leave a folder to serve."""
    if Path(options.set).is_dir():
        with inputs.as_usage_error(f"--out {options.out}"):
            require_outside(options.out, options.set)
    result = training.train(
        inputs.open_set(options, datasets.Preprocessing(size=64, boxes=options.box_columns is not None)),
        options.out,
        config=options.config,
        resume=options.resume,
        quick=options.quick,
        max_minutes=options.max_minutes,
        command=shlex.join(["tfdml", *sys.argv[1:]]),
        say=_say_line,
        **{name: getattr(options, name) for name in NAMES if getattr(options, name) is not None},
    )
    files = {"report": str(result.folder / "report.html"), "serve": shlex.join(["tfdml", "serve", options.out])}
    print_result(options, _record(result) | files, [f"{name}: {text}" for name, text in files.items()])
    return EXIT_OK


def _record(result):
    """A finished run as JSON has it."""
    evaluations = {"trained": result.evaluation, "frozen": result.frozen}
    metrics = {
        name: {metric: mean._asdict() for metric, mean in evaluation.metrics.items()}
        for name, evaluation in evaluations.items()
    }
    epochs = {"epochs": result.epochs, "best_epoch": result.best_epoch}
    return {"folder": str(result.folder), "settings": asdict(result.settings), **epochs, "metrics": metrics}


def _say_line(text):
    """Print a line of progress on stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def _form(setting_type):
    """How argparse reads a setting of this type."""
    if setting_type is bool:
        return {"action": argparse.BooleanOptionalAction}
    if get_args(setting_type):
        return {"choices": get_args(setting_type)}
    return {"type": setting_type, "metavar": {int: "N", float: "X", str: "NAME"}[setting_type]}
