"""The file of the settings of a training run, and the limits of their values."""

import difflib
import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import require, require_one_of, require_seed, require_whole
from tfdml.training.settings import NAMES, SETTINGS, TrainingSettings
from tfdml.typing import FilePath

FORMAT = "tfdml.training/1"
FILE = "settings.toml"
_HEAD = "# Settings of a training run: tfdml train SET --out RUN --config THIS_FILE repeats it.\n"
_NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {
    "validation": (lambda value: 0 < value < 1, "a fraction above 0 and below 1"),
    "test": (lambda value: 0 <= value < 1, "a fraction of at least 0 and below 1"),
    "learning_rate": (lambda value: 0 < value < math.inf, "a finite number above 0"),
}


def new_settings(values: Mapping[str, Any]) -> TrainingSettings:
    """The settings with these values; raises the errors of `require_options`."""
    require_options(values)
    return TrainingSettings(**values)


def require_options(options: Mapping[str, Any]) -> None:
    """Raise a ValueError unless all names are settings and all values are of their type and range."""
    for name, value in options.items():
        near = "".join(f"{match!r}, or " for match in difflib.get_close_matches(str(name), NAMES, n=1))
        require(name in NAMES, f"the setting {name!r}", f"{near}one of {', '.join(NAMES)}")
        _require_value(name, value)
    fraction = options.get("validation", 0.0) + options.get("test", 0.0)
    require(
        fraction < 1,
        f"validation and test fractions that add up to {fraction:g}",
        "less than 1, so that images to train on remain",
    )


def _require_value(name, value):
    kind, least = SETTINGS[name].type, SETTINGS[name].metadata["least"]
    if name == "seed":
        require_seed(value)
    elif get_args(kind):
        require_one_of(get_args(kind), **{name: value})
    elif kind is int:
        require_whole(name, value, least)
    elif kind is float:
        is_within, expected = _NUMBERS[name]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        require(is_number and is_within(value), f"{name}={value!r}", expected)
    else:
        require(isinstance(value, kind) and value != "", f"{name}={value!r}", f"a {kind.__name__}")


def read_settings(path: FilePath) -> dict[str, Any]:
    """The settings in a file that a training run wrote, or in one of the same form with some of them.

    Example:

        >>> with open("settings.toml", "w") as file:
        ...     print('format = "tfdml.training/1"', "dim = 64", 'loss = "triplet"', sep=chr(10), file=file)
        >>> tfdml.training.read_settings("settings.toml")
        {'dim': 64, 'loss': 'triplet'}

    Args:
        path: `settings.toml` of a run.
    """
    record = read_record(path)
    return {name: value for name, value in record.items() if name in NAMES}


def read_record(path: FilePath) -> dict[str, Any]:
    """The settings in a file, and the `fingerprint` of the set beside them."""
    try:
        record = tomllib.loads(Path(path).read_bytes().decode())
        version = record.pop("format", None)
        require(
            version == FORMAT, f"format={version!r}", f"format = {FORMAT!r}: settings that this version of tfdml wrote"
        )
        require_options({name: value for name, value in record.items() if name != "fingerprint"})
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r}: {error}") from error
    return record


def is_training_run(folder: FilePath) -> bool:
    """Whether a folder was written by `tfdml train`, as `format` in its `settings.toml` says."""
    file = Path(folder) / FILE
    if not file.is_file():
        return False
    run_format = str(tomllib.loads(file.read_text(encoding="utf-8")).get("format"))
    is_run = run_format.partition("/")[0] == FORMAT.partition("/")[0]
    require(not is_run or run_format == FORMAT, f"a run of format {run_format!r}", f"{FORMAT!r}. Train again")
    return is_run


def require_no_run(data: FilePath) -> None:
    """Raise a ValueError for the folder of a run in the place of a set."""
    expected = "a set of images. To go on with the run, name its set, and pass it as --out RUN --resume"
    require(not is_training_run(data), f"the run of tfdml train {str(data)!r}", expected)


def write_settings(path: Path, settings: TrainingSettings, reasons: Mapping[str, str], fingerprint: str) -> None:
    """Write settings, each with its reason by name as a comment, and the fingerprint of the set, in one step."""
    texts = {name: f"{name} = {json.dumps(value)}" for name, value in asdict(settings).items()}
    width = max(map(len, texts.values()))
    rows = [f"{text:{width}}  # {reasons[name]}" if reasons.get(name) else text for name, text in texts.items()]
    lines = [_HEAD, f"format = {json.dumps(FORMAT)}", f"fingerprint = {json.dumps(fingerprint)}", "", *rows]
    with atomic_write(path) as new:  # text and numbers are written in TOML as in JSON
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
