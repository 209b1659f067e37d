"""The record of an evaluation; prints as a table, saves as JSON and HTML."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml.evaluation.report.comparison import interval_text
from tfdml.typing import Data, FilePath


class Measured(NamedTuple):
    """A mean over queries, and its 95% bootstrap interval over classes; its bounds are NaN with too few classes."""

    value: float
    low: float
    high: float

    @property
    def interval(self) -> str:
        """The interval in %, as text."""
        return interval_text(self.low, self.high)


class Curve(NamedTuple):
    """Points of a curve: two float arrays `(points,)`."""

    x: np.ndarray
    y: np.ndarray


class Similarities(NamedTuple):
    """Numbers of positive and of negative pairs `(bins,)` between `edges` of cosine similarity `(bins + 1,)`."""

    edges: np.ndarray
    positive: np.ndarray
    negative: np.ndarray


class PerQuery(NamedTuple):
    """The metrics of each query, for paired comparisons.

    `item_labels` are `(items,)`, the classes of the gallery, or of the queries for leave-one-out. `values` are
    `(queries,)` by the name of a metric, NaN for a query without a relevant item.
    """

    labels: np.ndarray
    item_labels: np.ndarray
    values: Mapping[str, np.ndarray]


class Example(NamedTuple):
    """An example of a set: its row, its file (the row as text for other sets), and the name of its class."""

    row: int
    name: str
    class_name: str


class Neighbor(NamedTuple):
    """An item of the gallery, its cosine similarity to the query, and whether it has the class of the query."""

    example: Example
    similarity: float
    relevant: bool


class HardQuery(NamedTuple):
    """A query, the rank of its first relevant item, and its nearest neighbors."""

    query: Example
    rank: int
    neighbors: tuple[Neighbor, ...]


class Confusion(NamedTuple):
    """Queries of a class whose first neighbor has the class `other`: their number, and the number of all queries."""

    class_name: str
    other: str
    errors: int
    queries: int


class NearDuplicate(NamedTuple):
    """A query and its nearest neighbor, one of the nearest pairs of the set."""

    query: Example
    neighbor: Neighbor


class LabelSuspect(NamedTuple):
    """A query whose first `agreeing` neighbors all have the class `suggested`, another class than the query."""

    query: Example
    suggested: str
    agreeing: int
    neighbors: tuple[Neighbor, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """Retrieval of a labeled set, the result of `tfdml.evaluate`; it prints as a table. See docs/evaluation.md.

    Attributes:
        protocol: the id to report with every number.
        metrics: `Measured` by name: `recall@k` for each k, `precision@1`, `r_precision`, `map@r`, `mrr`.
        queries, classes: numbers of queries in the means, and of their classes.
        skipped: number of queries without a relevant item.
        items: number of items in the gallery.
        recall: `Curve` of Recall@k over k, up to the size of the gallery.
        precision_recall: `Curve` of the interpolated precision over recall, the mean over `curve_queries` queries.
        curve_queries: number of queries of `precision_recall`, drawn at random where the set has more.
        similarities: `Similarities` of positive and negative pairs.
        hardest: the queries whose first relevant item ranks last, hardest first; if it ranks first for all queries, the
            queries least similar to it.
        confusions: the pairs of classes with the largest numbers of wrong first neighbors.
        near_duplicates: the nearest pairs of a query and an item, nearest first.
        label_suspects: queries whose first neighbors agree on another class, most neighbors first.
        suspects: number of all label suspects; `label_suspects` are the first ones.
        seed: seed of the bootstrap and of all random draws.
        environment: hardware and versions, as `tfdml.environment` returns them.
        per_query: `PerQuery`, the metrics of each query; not in the file of `save`.
        sets: the labeled sets of queries and of items, from which `html` loads pictures; None for labels alone.
    """

    protocol: str
    metrics: Mapping[str, Measured]
    queries: int
    skipped: int
    items: int
    classes: int
    recall: Curve
    precision_recall: Curve
    curve_queries: int
    similarities: Similarities
    hardest: tuple[HardQuery, ...]
    confusions: tuple[Confusion, ...]
    near_duplicates: tuple[NearDuplicate, ...]
    label_suspects: tuple[LabelSuspect, ...]
    suspects: int
    seed: int
    environment: Mapping[str, str]
    per_query: PerQuery = field(metadata={"saved": False})
    sets: tuple[Data | None, Data | None] = field(metadata={"saved": False})

    def __str__(self) -> str:
        lines = [f"{'%':14}{'value':>7}  95% interval over classes"]
        lines += [f"{name:14}{100 * mean.value:7.1f}  {mean.interval}" for name, mean in self.metrics.items()]
        return "\n".join([*(f"{name:14}{text}" for name, text in self.summary.items()), "", *lines])

    __repr__ = __str__

    @property
    def summary(self) -> dict[str, str]:
        """Protocol and sizes of the sets, as text."""
        return {
            "protocol": self.protocol,
            "queries": f"{self.queries:,} of {self.classes:,} classes",
            "skipped": f"{self.skipped:,} without a relevant item",
            "gallery": f"{self.items:,} items",
        }

    def as_dict(self) -> dict[str, Any]:
        """The attributes that `save` writes, as dicts, lists, numbers and text: all but `sets` and `per_query`."""
        names = [column.name for column in fields(self) if column.metadata.get("saved", True)]
        return {name: plain(getattr(self, name)) for name in names}

    def save(self, path: FilePath) -> Path:
        """Write all attributes but `sets` and `per_query` as JSON, in one step.

        Args:
            path: the file to write, which is returned; an older file is replaced.
        """
        write_json(path, self.as_dict())
        return Path(path).expanduser()

    def html(self, path: FilePath, baselines: "Mapping[str, Evaluation] | None" = None) -> Path:
        """Write one page with tables, curves and pictures, in one step. It needs no other file and no network.

        Only the examples on the page are loaded, with the `load` of the set. Examples that are not images of 1, 3 or 4
        channels, and embeddings without a set, are shown by name.

        Args:
            path: the file to write, which is returned; an older file is replaced.
            baselines: other evaluations of the same queries and gallery by name, such as `{"frozen network": frozen}`:
                the page shows their metrics and curves, and the paired differences with their intervals.

        Raises:
            ValueError: a baseline of another set, with other labels or with other metrics.
            tf.errors.InvalidArgumentError: an example that cannot be loaded, which it names.
        """
        from tfdml.evaluation.report.page import page

        text = page(self, baselines or {})
        with atomic_write(path) as new:
            new.write_text(text, encoding="utf-8")
        return Path(path).expanduser()


def write_json(path: FilePath, content: Any) -> None:
    """Write JSON, in one step."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8")


def plain(value: Any) -> Any:
    """A value as lists, dicts, numbers and text; NaN, which JSON does not have, as None."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    return [plain(item) for item in value] if isinstance(value, tuple) else value
