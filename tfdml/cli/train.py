"""`tfdml train`."""

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from tfdml import datasets, training
from tfdml._core.terminal import visible
from tfdml.cli import inputs
from tfdml.cli.printing import EXIT_OK, print_result
from tfdml.evaluation.report.records import plain
from tfdml.training.settings import NAMES
from tfdml.training.train import require_outside


def run(options: argparse.Namespace) -> int:
    """Train a model on a set, and leave a folder to serve."""
    if Path(options.set).is_dir():
        with inputs.as_usage_error(f"--out {options.out}"):
            require_outside(options.out, options.set)
    boxes = options.box_columns is not None
    result = training.train(
        inputs.open_set(options, datasets.Preprocessing(size=64, boxes=boxes, background=options.background)),
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
    metrics = {name: plain(evaluation.metrics) for name, evaluation in evaluations.items()}
    epochs = {"epochs": result.epochs, "best_epoch": result.best_epoch}
    return {"folder": str(result.folder), "settings": asdict(result.settings), **epochs, "metrics": metrics}


def _say_line(text):
    """Print a line of progress on stderr."""
    print(visible(text), file=sys.stderr, flush=True)
