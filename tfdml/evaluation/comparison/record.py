"""The record of a comparison: it prints as tables, and saves a JSON file and a page."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml._core.checksums import SUMS, problems, write_checksums
from tfdml.evaluation.report.records import Neighbor, plain, write_json
from tfdml.metrics.statistics.comparison import Comparison
from tfdml.typing import Data, FilePath

_RECORD, _PAGE = "comparison.json", "index.html"
_WIDTH, _PROSE, _NAME = 100, 88, 18  # characters of a line of a table, of one of text, and of a name of a model


class Mean(NamedTuple):
    """A mean over queries with its interval; without one the bounds are NaN, and `reason` says why."""

    value: float
    low: float
    high: float
    reason: str


class Pair(NamedTuple):
    """Two models: their paired difference, p corrected by Holm for all pairs, and the queries that differ most.

    `detectable` is the smallest difference with 80% power at the first step of Holm's correction; NaN with too few
    classes for an interval.
    """

    comparison: Comparison
    corrected: float
    queries: tuple[int, ...]
    detectable: float

    @property
    def better(self) -> str:
        """The name of the better model; empty where the two cannot be told apart."""
        low, high = self.comparison.low, self.comparison.high
        if self.corrected > 1 - self.comparison.confidence or not (low > 0 or high < 0):
            return ""
        return self.comparison.names[0 if low > 0 else 1]


class Group(NamedTuple):
    """The queries with one value of a column: their numbers, and the main metric by model."""

    by: str
    value: str
    queries: int
    units: int
    means: Mapping[str, Mean]


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelComparison:
    """Models on the same queries, the result of `tfdml.evaluation.compare`. It prints as tables.

    Attributes:
        main: the metric of the pairs and of the groups.
        unit: what the intervals are over, "classes", "queries" or "seeds"; `units` is their number.
        confidence: confidence of the intervals.
        queries, skipped: numbers of queries with and without a value of the main metric.
        means: a record `value, low, high, reason` by model and metric.
        pairs: for each pair of models `comparison`, a record as `tfdml.metrics.paired_comparison` returns, `corrected`,
            its p by `tfdml.metrics.holm_correction` over all pairs, `better`, a name or "", `queries`, the rows of the
            queries that differ most, and `detectable`, the smallest difference that is seen with 80% power.
        groups: for each value of each column `by, value, queries, units, means`.
        facts: conditions of the measurement, as texts by name.
        query_names: text of each query that `pairs` list, by row.
        environment: hardware and versions, as `tfdml.environment` returns them.
        notes: sentences on what was left out.
        scale: 100 where values are printed in %, else 1.
        per_query: values `(queries,)` by model and metric; not saved.
        neighbors: nearest items of the queries of `pairs` by model and row; not saved.
        sets: labeled sets of the queries and of the gallery, from which the page takes pictures, or None; not saved.
    """

    main: str
    unit: str
    units: int
    confidence: float
    queries: int
    skipped: int
    means: Mapping[str, Mapping[str, Mean]]
    pairs: tuple[Pair, ...]
    groups: tuple[Group, ...]
    facts: Mapping[str, str]
    query_names: Mapping[int, str]
    environment: Mapping[str, str]
    notes: tuple[str, ...] = ()
    scale: int = 100
    per_query: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict, metadata={"saved": False})
    neighbors: Mapping[str, Mapping[int, tuple[Neighbor, ...]]] = field(default_factory=dict, metadata={"saved": False})
    sets: tuple[Data | None, Data | None] = field(default=(None, None), metadata={"saved": False})

    def __str__(self) -> str:
        """Tables of at most 100 columns."""
        lines = [*_wrapped(self.sentences), "", *table_lines(*self.table()), *_wrapped(self.reasons)]
        if self.pairs:
            head = f"{self.main}, differences of the same {self.compared}"
            lines += ["", head, *table_lines(*self.table_of_pairs(_short)), *_wrapped(self.power)]
        for name in dict.fromkeys(group.by for group in self.groups):
            lines += ["", f"{self.main} by {name}", *table_lines(*self.table_of_groups(name))]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def compared(self) -> str:
        """The noun of what is compared: "queries" or "seeds"."""
        return "queries" if self.unit == "classes" else self.unit

    @property
    def sentences(self) -> list[str]:
        """The sizes, the conditions and the notes."""
        sizes = f"{self.queries:,} {self.compared}" + (f" of {self.units:,} classes" if self.unit == "classes" else "")
        skipped = f", {self.skipped:,} more without a relevant item" if self.skipped else ""
        texts = "".join(f"; {name}: {text}" for name, text in self.facts.items())
        interval = f"[{100 * self.confidence:g}% interval over {self.unit}]"
        head = f"{sizes}{skipped}{texts}. {'In %, with' if self.scale == 100 else 'With'} {interval}."
        return [head, *self.notes]

    @property
    def reasons(self) -> list[str]:
        """Why some means have no interval, a line each."""
        means = [mean for by_metric in self.means.values() for mean in by_metric.values()]
        means += [mean for group in self.groups for mean in group.means.values()]
        return [f"No interval: {reason}." for reason in dict.fromkeys(mean.reason for mean in means) if reason]

    @property
    def power(self) -> list[str]:
        """How small a difference these classes show, a sentence; none with too few of them, or equal models."""
        smallest = [pair.detectable for pair in self.pairs if pair.detectable > 0]
        if not smallest:
            return []
        unit = " points" if self.scale == 100 else ""
        test = f"Holm over {len(self.pairs):,} pairs, their median" if len(self.pairs) > 1 else "one pair"
        return [
            f"With {self.units:,} {self.unit} that vary like these, a difference of {self.main} of "
            f"{self.value_text(np.median(smallest))}{unit} is seen with 80% power ({test})."
        ]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Heads and rows of the models."""
        names = list(dict.fromkeys(name for by_metric in self.means.values() for name in by_metric))
        rows = [[model, *(self._cell(means[name]) for name in names)] for model, means in self.means.items()]
        return ["model", *names], rows

    def table_of_pairs(self, name_of: Callable[[str], str] = str) -> tuple[list[str], list[list[str]]]:
        """Heads and rows of the pairs; `name_of` makes the name that is shown of the name of a model."""
        rows = [
            [
                " - ".join(map(name_of, pair.comparison.names)),
                self._cell(pair.comparison, pair.comparison.difference, "+"),
                _p_text(pair.comparison.p),
                _p_text(pair.corrected),
                name_of(pair.better) if pair.better else "not told apart",
            ]
            for pair in self.pairs
        ]
        return ["pair", "difference", "p", "Holm p", "better"], rows

    def table_of_groups(self, by: str) -> tuple[list[str], list[list[str]]]:
        """Heads and rows of the groups of a column."""
        groups = [group for group in self.groups if group.by == by]
        numbers = {"queries": [group.queries for group in groups], self.unit: [group.units for group in groups]}
        cells = [[f"{number[i]:,}" for number in numbers.values()] for i in range(len(groups))]
        rows = [
            [group.value, *counts, *map(self._cell, group.means.values())]
            for group, counts in zip(groups, cells, strict=True)
        ]
        return [by, *numbers, *self.means], rows

    def value_text(self, value: float, sign: str = "") -> str:
        """A value as text, in % where values are shares."""
        form = ".1f" if self.scale == 100 else ".4g"
        return f"{self.scale * value:{sign}{form}}"

    def _cell(self, interval, value=None, sign=""):
        value = interval.value if value is None else value
        bounds = [self.value_text(bound, sign) for bound in (interval.low, interval.high)]
        text = "no interval" if np.isnan(interval.low) else ", ".join(bounds)
        return f"{self.value_text(value, sign)} [{text}]"

    def as_dict(self) -> dict[str, Any]:
        """The attributes that `save` writes, as dicts, lists, numbers and text."""
        names = [column.name for column in fields(self) if column.metadata.get("saved", True)]
        record = {name: plain(getattr(self, name)) for name in names if name != "pairs"}
        return record | {"pairs": [_pair_as_dict(pair) for pair in self.pairs]}

    def save(self, folder: FilePath) -> Path:
        """Write `comparison.json`, the page `index.html` and their checksums, in one step.

        The page needs no other file and no network. It shows the queries on which the model with the highest mean and
        each other one differ most, with their nearest items, as pictures where the comparison has paths.

        Args:
            folder: a new folder, or one as this method wrote it; it is returned.

        Raises:
            FileExistsError: a folder with other files, or with one that has changed; the first one is named.
        """
        from tfdml.evaluation.comparison.page import page

        with atomic_write(folder, listed_files) as new:
            new.mkdir()
            write_json(new / _RECORD, self.as_dict())
            (new / _PAGE).write_text(page(self), encoding="utf-8")
            write_checksums(new)
        return Path(folder).expanduser()


def listed_files(folder: Path) -> set[str]:
    """The files of a folder that are as `save` wrote them; empty for a folder without its checksums."""
    changed = {problem.partition(":")[0] for problem in problems(folder)}
    return set() if SUMS in changed else {_RECORD, _PAGE, SUMS} - changed


def _pair_as_dict(pair):
    comparison = pair.comparison
    numbers = {name: plain(getattr(comparison, name)) for name in ("difference", "low", "high", "p")}
    corrected = {"corrected": pair.corrected, "better": pair.better, "queries": list(pair.queries)}
    return {"models": list(comparison.names), **numbers, **corrected, "detectable": plain(pair.detectable)}


def _p_text(p):
    return f"{p:.2g}" if p >= 1e-4 else "<0.0001"


def _short(name, width=_NAME):
    """A name in a number of characters: of a longer one, both ends."""
    end = (width - 2) // 2
    return name if len(name) <= width else f"{name[: width - 2 - end]}..{name[-end:]}"


def _wrapped(texts):
    return [line for text in texts for line in textwrap.wrap(text, _PROSE)]


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines; columns that do not fit into a line follow below, with the first column again."""
    table = [[_short(first, 2 * _NAME + 3), *cells] for first, *cells in ([*map(_short, heads)], *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    blocks: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        used = widths[0] + sum(2 + widths[each] for each in blocks[-1])
        if blocks[-1] and used + 2 + widths[column] > _WIDTH:
            blocks.append([])
        blocks[-1].append(column)
    texts = [["  ".join(f"{row[each]:{widths[each]}}" for each in (0, *block)) for row in table] for block in blocks]
    return [line.rstrip() for block in texts for line in ("", *block)][1:]
