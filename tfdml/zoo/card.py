"""The card of a model: `model.json`, and its page `README.md`."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from tfdml._core.checks import INT64, require, require_seed, require_whole
from tfdml._core.terminal import visible
from tfdml.datasets import Preprocessing
from tfdml.evaluation.record import Mean, plain
from tfdml.zoo.front_matter import front_matter
from tfdml.zoo.sets import SETS

FILE = "model.json"
RUN_RECIPE = "tfdml train"  # of a card that a training run wrote
FORMAT = 2
TOWERS = ("query", "gallery")
SHOWN_METRICS = ("recall@1", "map@r")  # in lists, and in every card
_COMPARED = {"cosine": "cosine similarity", "dot": "dot product", "euclidean": "Euclidean distance"}
_TEXTS = ("name", "summary", "recipe", "command", "selection", "limitations", "data", "protocol", "license", "hardware")
_TYPES = {
    **dict.fromkeys((*_TEXTS, "versions", "metric"), str),
    **dict.fromkeys(("training", "metrics", "preprocessing", "sizes"), dict),
    **dict.fromkeys(("towers", "input"), list),
}


class Timing(NamedTuple):
    """Time of a network per image, the median of several batches of `batch_size` images, and the computer."""

    milliseconds: float
    batch_size: int
    hardware: str


@dataclass(frozen=True, kw_only=True)
class Card:
    """The card of a model of the zoo, the content of `model.json`; it prints as text.

    Attributes:
        name, summary, recipe, command, seed, training, selection, limitations, license: as in `tfdml.zoo.save`.
        data: protocol id of the measured set; `evaluate` finds the set by it.
        protocol: protocol id of the metrics: the protocol of the set, with the similarity in it.
        metric: "cosine", "dot" or "euclidean".
        metrics: a record `value, low, high` by name: the mean over queries, and its 95% interval over classes.
        queries, items, classes: number of queries in the means, of items of the gallery, and of classes.
        towers: `("query", "gallery")` for two towers, else empty.
        input: height, width and channels of an image of the query tower.
        dimension, parameters: size of the embedding, and number of weights.
        preprocessing: how image files are read, the `load` of a set.
        sizes: bytes by file.
        hardware, versions: the computer that measured the metrics, and its packages.
        timing: `Timing` of the network of the queries.
    """

    name: str
    summary: str
    recipe: str
    command: str
    seed: int
    training: Mapping[str, Any]
    selection: str
    limitations: str
    data: str
    protocol: str
    metric: str
    metrics: Mapping[str, Mean]
    queries: int
    items: int
    classes: int
    towers: tuple[str, ...]
    input: tuple[int, ...]
    dimension: int
    parameters: int
    preprocessing: Preprocessing
    license: str
    sizes: Mapping[str, int]
    hardware: str
    versions: str
    timing: Timing

    def __str__(self) -> str:
        size = f"{self.dimension:,} numbers per image, {self.parameters:,} weights, {self.megabytes:.1f} MB"
        lines = [f"{self.name}: {self.summary}", f"protocol      {self.protocol}", f"size          {size}"]
        lines += [f"time          {_timing_text(self.timing)}"]
        lines += [f"{name:14}{mean.text()}" for name, mean in self.metrics.items()]
        return "\n".join(map(visible, lines))

    __repr__ = __str__

    @property
    def megabytes(self) -> float:
        """Size of all files that `sizes` lists, in 10⁶ bytes."""
        return sum(self.sizes.values()) / 1e6

    def as_dict(self) -> dict[str, Any]:
        """All attributes as dicts, lists, numbers and text, as in `model.json`."""
        values = {field.name: plain(getattr(self, field.name)) for field in fields(self)}
        return {"format": FORMAT, **values, "preprocessing": self.preprocessing.get_config()}


def read_card(folder: Path) -> Card:
    """The card of an entry; a ValueError if there is none, or it is damaged or of another format."""
    try:
        values = json.loads((folder / FILE).read_text(encoding="utf-8"))
        version = values.pop("format")
        require(version == FORMAT, f"{FILE} of format {version!r}", f"format {FORMAT}. Update tfdml")
        _require_types(values)
        return Card(**{**values, **_objects(values)})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"Received {str(folder)!r}, whose {FILE} cannot be read ({type(error).__name__}: {error}), expected an "
            "entry that tfdml.zoo.save wrote. Save it again, or remove the folder and download it again."
        ) from error


def _require_types(values):
    """Raise a ValueError unless values have the types and ranges of `Card.as_dict`."""
    for name, json_type in _TYPES.items():
        _require_valid(isinstance(values[name], json_type), name, json_type.__name__)
    for name in ("queries", "items", "classes", "dimension", "parameters"):
        require_whole(name, values[name], 0, INT64.max)
    require_seed(values["seed"])
    _require_valid(values["metric"] in _COMPARED, "metric", f"one of {', '.join(_COMPARED)}")
    _require_valid(values["towers"] in ([], list(TOWERS)), "towers", f"[] or {list(TOWERS)}")
    _require_valid(len(values["input"]) == 3 and all(map(_is_count, values["input"])), "input", "three whole numbers")
    _require_valid(all(map(_is_count, values["sizes"].values())), "sizes", "a number of bytes per file")


def _require_valid(is_valid, name, expected):
    require(is_valid, f"{name!r} of another type or value", expected)


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT64.max


def _objects(values):
    return {
        "metrics": _metrics(values["metrics"]),
        "towers": tuple(values["towers"]),
        "input": tuple(values["input"]),
        "preprocessing": Preprocessing.from_config(values["preprocessing"]),
        "timing": _timing(Timing(**values["timing"])),
    }


def _metrics(metrics):
    measured = {name: _measured(**numbers) for name, numbers in metrics.items()}
    is_fraction = all(_is_number(number) and number <= 1 for mean in measured.values() for number in _numbers(mean))
    is_valid = is_fraction and all(name in measured for name in SHOWN_METRICS)
    _require_valid(is_valid, "metrics", f"numbers from 0 to 1, {' and '.join(SHOWN_METRICS)} among them")
    return measured


def _measured(value, low, high):
    """A mean with its interval, or without one where both bounds are null."""
    return Mean(value, math.nan, math.nan) if low is None and high is None else Mean(value, low, high)


def _numbers(mean):
    """The value and the bounds, NaN without an interval."""
    return mean[:1] if math.isnan(mean.low) and math.isnan(mean.high) else mean


def _timing(timing):
    is_valid = _is_number(timing.milliseconds) and _is_count(timing.batch_size) and isinstance(timing.hardware, str)
    _require_valid(is_valid, "timing", "numbers, and the name of the hardware")
    return timing


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= INT64.max


def write_card(folder: Path, card: Card) -> None:
    """Write `model.json` and `README.md`; raise a ValueError for a card that `read_card` would refuse."""
    values = card.as_dict()
    _require_types(values)
    text = json.dumps(values, indent=1, allow_nan=False)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")
    write_page(folder, card)


def write_page(folder: Path, card: Card) -> None:
    """Write `README.md`."""
    (folder / "README.md").write_text(page(card), encoding="utf-8")


def page(card: Card) -> str:
    """The card as a page, Markdown, after the metadata that Hugging Face reads."""
    rows = [[name, mean.text()] for name, mean in card.metrics.items()]
    training = [[name, value] for name, value in card.training.items()]
    settings = f"\n\n{table(['setting', 'value'], training)}" if training else ""
    sections = {
        "Load": _load_text(card),
        "Numbers": f"{_numbers_text(card)}\n\n{table(['metric', '% [95% interval]'], rows, num_numeric=1)}",
        "Training": f"`{card.command}` ({card.recipe}), seed {card.seed}.{settings}",
        "Selection": card.selection,
        "Limitations": card.limitations,
        "Files": table(["file", "bytes"], [[name, f"{size:,}"] for name, size in card.sizes.items()], num_numeric=1),
        "License": card.license,
    }
    body = "\n".join(f"## {title}\n\n{text}\n" for title, text in sections.items() if text)
    values = {name: mean.value for name, mean in card.metrics.items()}
    metadata = front_matter(card.name, card.license, card.protocol, values)
    return f"{metadata}\n# {card.name}\n\n{card.summary}\n\n{body}"


def _load_text(card):
    name = f'"{card.name}")  # or the path of this folder' if card.recipe == RUN_RECIPE else f'"{card.name}")'
    shape, what = " x ".join(map(str, card.input)), f"{card.dimension} numbers each"
    use = "queries, gallery = model.towers\n" if card.towers else "embeddings = model.predict(images)\n"
    folders = "`query` and `gallery` are folders" if card.towers else "This folder is the folder"
    return (
        f"```python\nimport tfdml\n\nmodel = tfdml.zoo.load({name}\n{use}```\n\n"
        f"Images are uint8, {shape}; embeddings have {what}, compared by {_COMPARED[card.metric]}. The network has "
        f"{card.parameters:,} weights. {folders} of a model for TensorFlow Serving, version 1."
    )


def _numbers_text(card):
    call = f"tfdml zoo evaluate {card.name}" if card.data in SETS else f'tfdml.zoo.evaluate("{card.name}", data=...)'
    again = "" if card.recipe == RUN_RECIPE else f"`{call}` measures them again. "
    return (
        f"Protocol `{card.protocol}`: {card.queries:,} queries of {card.classes:,} classes, {card.items:,} items, "
        f"95% intervals over classes. {again}Measured with "
        f"{card.versions} on {card.hardware}. Time: {_timing_text(card.timing)}."
    )


def _timing_text(timing):
    return f"{timing.milliseconds:.2f} ms per image in batches of {timing.batch_size} on {timing.hardware}"


def table(head, body, *, num_numeric=0):
    """A Markdown table, whose last `num_numeric` columns are numbers."""
    rules = ["---"] * (len(head) - num_numeric) + ["---:"] * num_numeric
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, rules, *body])
