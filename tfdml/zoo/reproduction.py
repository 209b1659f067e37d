"""Metrics of a model, and the metrics of a card measured again."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from tfdml._core.checks import require, require_metric
from tfdml._core.optional import environment
from tfdml._core.terminal import visible
from tfdml.evaluation.details.embedded_sets import queries_and_gallery
from tfdml.evaluation.measure import measured, num_candidates, protocol_of, ranked_names
from tfdml.evaluation.record import Evaluation, Mean, plain
from tfdml.typing import Data, FilePath
from tfdml.zoo.card import Card, Timing
from tfdml.zoo.entries import opened
from tfdml.zoo.paths import undamaged_folder_of
from tfdml.zoo.sets import SETS

TOLERANCE = 0.001
_TIMED_BATCHES, _TIMED_BATCH_SIZE = 5, 32


@dataclass(frozen=True)
class Reproduction:
    """Metrics of a card, and the same metrics measured again, by name; it prints as a table."""

    card: Card
    metrics: Mapping[str, Mean]

    @property
    def difference(self) -> float:
        """The largest absolute difference between a metric of the card and the same metric now; 0.001 is 0.1%."""
        return max(abs(self.card.metrics[name].value - now.value) for name, now in self.metrics.items())

    @property
    def agrees(self) -> bool:
        """Whether `difference` is at most 0.001, a tenth of a percentage point."""
        return self.difference <= TOLERANCE

    def __str__(self) -> str:
        head = visible(f"{self.card.name}, {self.card.protocol}")
        lines = [head, f"{'%':14}{'card':>7}  now [95% interval]"]
        for name, now in self.metrics.items():
            lines.append(f"{name:14}{100 * self.card.metrics[name].value:7.1f}  {now.text()}")
        verdict = "the card is reproduced" if self.agrees else "the card is NOT reproduced"
        return "\n".join([*lines, f"{verdict}: largest difference {100 * self.difference:.3f}"])

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        """Both metrics and their difference as dicts, lists, numbers and text."""
        head = {"name": self.card.name, "protocol": self.card.protocol, "agrees": self.agrees}
        numbers = {"card": plain(self.card.metrics), "now": plain(self.metrics)}
        return {**head, "difference": self.difference, **numbers}


def evaluate(
    name: str,
    *,
    root: FilePath | None = None,
    data: Data | None = None,
    gallery: Data | None = None,
    batch_size: int = 256,
) -> Reproduction:
    """Measure a model of the zoo again, to compare with its card.

    Processors sum in different orders, so embeddings differ in their last bits, and neighbors at almost equal distances
    may change ranks. Metrics agree if none differs by more than 0.001, a tenth of a percentage point.

    Example:

        >>> images = np.arange(256, dtype="uint8").reshape(4, 8, 8, 1)
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=np.repeat([0, 1], 2), class_names=("dim", "lit"))
        >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.AveragePooling2D(4), keras.layers.Flatten()])
        >>> facts = {"summary": "Two shades.", "recipe": "-", "command": "-", "seed": 0, "license": "MIT"}
        >>> _ = tfdml.zoo.save(model, "shades", data, **facts)
        >>> reproduction = tfdml.zoo.evaluate("shades", data=data)
        >>> reproduction.agrees, reproduction.metrics["recall@1"].value
        (True, 0.75)

    Args:
        name, root: as for `load`.
        data: the labeled set of the card, the queries if it has a gallery; None to find glyphs and photo patches by the
            protocol id of the card.
        gallery: the gallery, with `data`.

    Returns:
        The `metrics`, measured again, their largest `difference` from the `card`, and whether it `agrees`, as a table.
    """
    model, card = opened(undamaged_folder_of(name, root))
    has_data = data is not None or card.data in SETS
    require(has_data, f"{name!r}, measured on {card.data!r}, without data", "data=, the labeled set with this protocol")
    queries, items = (data, gallery) if data is not None else SETS[card.data]()
    protocol = protocol_of(queries, has_gallery=items is not None)
    expected = f"{card.data!r}, the protocol of the card"
    require(protocol == card.data, f"data with the protocol {protocol!r}", expected)
    metrics = measure(model, queries, items, card.metric, batch_size).metrics
    require(card.metrics.keys() <= metrics.keys(), f"a card with {', '.join(card.metrics)}", f"{', '.join(metrics)}")
    return Reproduction(card, {name: metrics[name] for name in card.metrics})


def measure(model: keras.Model, data: Data, gallery: Data | None, metric: str, batch_size: int = 256) -> Evaluation:
    """Retrieval metrics of a model, with intervals."""
    require_metric(metric)
    queries, items = queries_and_gallery(model, data, gallery, None, batch_size)
    names = ranked_names(None, num_candidates(queries, items))
    return measured(["model"], lambda _: (queries, items), names, metric=metric, shown=0)


def time_per_image(network: keras.Model) -> Timing:
    """Time of a network on this computer: the median over batches of black images, after one to warm up."""
    shape, dtype = network.inputs[0].shape[1:], network.inputs[0].dtype
    images = np.zeros((_TIMED_BATCH_SIZE, *shape), dtype)
    seconds = [_seconds(network, images) for _ in range(1 + _TIMED_BATCHES)][1:]
    milliseconds = round(1000 * float(np.median(seconds)) / _TIMED_BATCH_SIZE, 4)
    return Timing(milliseconds, _TIMED_BATCH_SIZE, environment()["hardware"])


def _seconds(network, images):
    begin = time.perf_counter()
    network.predict_on_batch(images)
    return time.perf_counter() - begin
