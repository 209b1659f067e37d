"""Options of `tfdml train`."""

import argparse
import runpy
from pathlib import Path
from typing import Any, get_args

from tfdml.cli.options.common import color, declare_set, positive_number

_SETTINGS = runpy.run_path(str(Path(__file__).parents[2] / "training" / "options.py"))["SETTINGS"]  # without Keras
_FORMS: dict[type, dict[str, Any]] = {
    bool: {"action": argparse.BooleanOptionalAction},
    int: {"type": int, "metavar": "N"},
    float: {"type": float, "metavar": "X"},
    str: {"type": str, "metavar": "NAME"},
}

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
    for name, (kind, text, *_) in _SETTINGS.items():
        form = _FORMS.get(kind, {"choices": get_args(kind)})
        settings.add_argument(f"--{name.replace('_', '-')}", help=text, **form)
