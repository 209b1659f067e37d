"""The record of an evaluation: it prints as tables, and saves a JSON file and a page."""

import datetime
import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfdml._core.atomic import atomic_write
from tfdml._core.checksums import SUMS, problems, write_checksums
from tfdml.evaluation.details.records import Details, Neighbor
from tfdml.metrics.statistics.intervals import least_classes
from tfdml.metrics.statistics.tests import Comparison
from tfdml.typing import Data, FilePath

_RECORD, _PAGE = "evaluation.json", "index.html"
_WIDTH, _PROSE, _NAME = 100, 88, 18  # characters of a line of a table, of one of text, and of a name of a model


class Mean(NamedTuple):
    """A mean over queries with its interval, whose bounds are NaN where there is none; prints in %."""

    value: float
    low: float
    high: float

    def text(self, scale: int = 100, sign: str = "") -> str:
        """The mean and its interval, in % with a scale of 100."""
        value, *bounds = (number_text(number, scale, sign) for number in self)
        return value if math.isnan(self.low) else f"{value} [{', '.join(bounds)}]"


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
        return replace(self.comparison, p=self.corrected).better


class Group(NamedTuple):
    """The queries with one value of a column: their numbers, and the main metric by model."""

    by: str
    value: str
    queries: int
    units: int
    means: Mapping[str, Mean]


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """Models on the same queries, the result of `tfdml.evaluate` and of `tfdml.evaluation.compare`; prints as tables.

    Attributes:
        protocol: the id to report with every number; empty for rankings and scores.
        main: the metric of the pairs and of the groups.
        unit: what the intervals are over, "classes", "queries" or "seeds"; `units` is their number.
        confidence: confidence of the intervals.
        queries, skipped: numbers of queries with and without a value of the main metric.
        items: number of items in the gallery, or of all examples without a gallery; None for rankings and scores.
        means: a record `value, low, high` by model and metric; `metrics` is the entry of the first model.
        pairs: for each pair of models `comparison`, a record as `tfdml.metrics.paired_comparison` returns, `corrected`,
            its p by `tfdml.metrics.holm_correction` over all pairs, `better`, a name or "", `queries`, the rows of the
            queries that differ most, and `detectable`, the smallest difference that is seen with 80% power.
        groups: for each value of each column `by, value, queries, units, means`.
        details: curves and lists of examples by model, of `tfdml.evaluate` alone; see docs/evaluation.md.
        good, bad: rows of three queries of different classes with the highest, and with the lowest values of the best
            model.
        query_names: text of each query that `pairs`, `good` and `bad` list, by row.
        facts: further conditions of the measurement, as texts by name.
        environment: hardware and versions, as `tfdml.environment` returns them.
        date: the day of the measurement.
        notes: sentences on what was left out.
        scale: 100 for values in %, else 1.
        labels: classes of the queries, `(queries,)`; not saved.
        per_query: values `(queries,)` by model and metric, NaN for a query without a value; not saved.
        neighbors: nearest items of the listed queries by model and row; not saved.
        sets: labeled sets of the queries and of the gallery, for the pictures of the page, or None; not saved.
    """

    protocol: str = ""
    main: str
    unit: str
    units: int
    confidence: float
    queries: int
    skipped: int
    items: int | None = None
    means: Mapping[str, Mapping[str, Mean]]
    pairs: tuple[Pair, ...]
    groups: tuple[Group, ...]
    details: Mapping[str, Details] = field(default_factory=dict)
    good: tuple[int, ...] = ()
    bad: tuple[int, ...] = ()
    query_names: Mapping[int, str]
    facts: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str]
    date: str = field(default_factory=lambda: str(datetime.date.today()))
    notes: tuple[str, ...] = ()
    scale: int = 100
    labels: np.ndarray = field(metadata={"saved": False})
    per_query: Mapping[str, Mapping[str, np.ndarray]] = field(metadata={"saved": False})
    neighbors: Mapping[str, Mapping[int, tuple[Neighbor, ...]]] = field(default_factory=dict, metadata={"saved": False})
    sets: tuple[Data | None, Data | None] = field(default=(None, None), metadata={"saved": False})

    def __str__(self) -> str:
        """Tables of at most 100 columns."""
        lines = [*_wrapped([self.verdict, *self.sentences]), "", *table_lines(*self.table()), *_wrapped(self.reasons)]
        if self.pairs:
            head = f"{self.main}, differences of the same {self.compared}"
            lines += ["", head, *table_lines(*self.table_of_pairs(_short)), *_wrapped(self.power)]
        for name in dict.fromkeys(group.by for group in self.groups):
            lines += ["", f"{self.main} by {name}", *table_lines(*self.table_of_groups(name))]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def metrics(self) -> Mapping[str, Mean]:
        """The means of the first model by metric, for an evaluation of one."""
        return next(iter(self.means.values()))

    @property
    def best(self) -> str:
        """The model with the highest mean of the main metric."""
        return max(self.means, key=lambda model: self.means[model][self.main].value)

    @property
    def compared(self) -> str:
        """The noun of the compared units: "queries" or "seeds"."""
        return "queries" if self.unit == "classes" else self.unit

    @property
    def verdict(self) -> str:
        """One sentence: how good the model is, or which models are better than which."""
        mean = self.means[self.best]
        if not self.pairs and "recall@1" in mean and self.unit == "classes":
            value, interval = self._parts(mean["recall@1"])
            return f"The nearest item has the class of the query for {value}% of the queries{interval}."
        value, interval = self._parts(mean[self.main])
        if not self.pairs:
            return f"{self.main} is {value}{interval}."
        pairs = [pair for pair in self.pairs if self.best in pair.comparison.names]
        others = {_other(pair, self.best): pair.better for pair in pairs}
        told = {"better than": [name for name in others if others[name]]}
        told["not told apart from"] = [name for name in others if not others[name]]
        ends = [f"{words} {_listed(names)}" for words, names in told.items() if names]
        return f"{self.best} has the highest {self.main}, {value}{interval}: {', '.join(ends)}."

    def _parts(self, mean):
        low, high = (number_text(bound, self.scale) for bound in (mean.low, mean.high))
        interval = "" if math.isnan(mean.low) else f" ({100 * self.confidence:g}% interval: {low} to {high})"
        return number_text(mean.value, self.scale), interval

    @property
    def sentences(self) -> list[str]:
        """The sizes, the conditions and the notes."""
        sizes = f"{self.queries:,} {self.compared}" + (f" of {self.units:,} classes" if self.unit == "classes" else "")
        skipped = f", {self.skipped:,} more without a relevant item," if self.skipped else ""
        gallery = "" if self.items is None else f" in {self.items:,} items"
        facts = {**({"protocol": self.protocol} if self.protocol else {}), **self.facts}
        texts = "".join(f"; {name}: {text}" for name, text in facts.items())
        interval = f"[{100 * self.confidence:g}% interval over {self.unit}]"
        head = f"{sizes}{skipped}{gallery}{texts}. {'In %, with' if self.scale == 100 else 'With'} {interval}."
        return [head, *self.notes]

    @property
    def reasons(self) -> list[str]:
        """Why some means have no interval, a line each."""
        least = 2 if self.unit == "seeds" else least_classes(self.confidence)
        needs = f"a {100 * self.confidence:g}% interval needs {least}"
        units = dict.fromkeys([self.units, *(group.units for group in self.groups)])
        lines = [f"No interval: {number:,} {self.unit}; {needs}." for number in units if number < least]
        measured = next(iter(self.per_query.values())).keys()
        wholes = dict.fromkeys(name for means in self.means.values() for name in means if name not in measured)
        return lines + [f"No interval of {', '.join(wholes)}: one number for all queries."] * bool(wholes)

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
            f"{number_text(np.median(smallest), self.scale)}{unit} is seen with 80% power ({test})."
        ]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Heads and rows of the means: a row for each model, or for each metric where these are more."""
        names = list(dict.fromkeys(name for by_metric in self.means.values() for name in by_metric))
        cells = {(model, name): self.means[model][name].text(self.scale) for model in self.means for name in names}
        if len(names) > len(self.means):
            return ["metric", *self.means], [[name, *(cells[model, name] for model in self.means)] for name in names]
        return ["model", *names], [[model, *(cells[model, name] for name in names)] for model in self.means]

    def table_of_pairs(self, name_of: Callable[[str], str] = str) -> tuple[list[str], list[list[str]]]:
        """Heads and rows of the pairs; `name_of` makes the name that is shown of the name of a model."""
        rows = [
            [
                " - ".join(map(name_of, pair.comparison.names)),
                Mean(pair.comparison.difference, pair.comparison.low, pair.comparison.high).text(self.scale, "+"),
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
        rows = [
            [group.value, f"{group.queries:,}", f"{group.units:,}", *(x.text(self.scale) for x in group.means.values())]
            for group in groups
        ]
        if self.unit != "classes":
            return [by, "queries", *self.means], [row[:2] + row[3:] for row in rows]
        return [by, "queries", self.unit, *self.means], rows

    def as_dict(self) -> dict[str, Any]:
        """The attributes that `save` writes, as dicts, lists, numbers and text."""
        names = [column.name for column in fields(self) if column.metadata.get("saved", True)]
        record = {name: plain(getattr(self, name)) for name in names if name != "pairs"}
        return record | {"pairs": [_pair_as_dict(pair) for pair in self.pairs]}

    def save(self, folder: FilePath) -> Path:
        """Write `evaluation.json`, the page `index.html` and their checksums, in one step.

        Args:
            folder: a new folder, or one as this method wrote it; it is returned.

        Raises:
            FileExistsError: a folder with other files, or with one that has changed; the first one is named.
        """
        with atomic_write(folder, listed_files) as new:
            new.mkdir()
            write_json(new / _RECORD, self.as_dict())
            self.html(new / _PAGE)
            write_checksums(new)
        return Path(folder).expanduser()

    def html(self, path: FilePath, *, title: str = "Evaluation", verdict: str | None = None) -> Path:
        """Write the page: one file with tables, curves and pictures that needs no other file and no network.

        It shows the examples of `details` of the first model, and the queries with the largest differences between the
        best model and each other one. It loads only these, with the `load` of their set; others are shown by name.

        Args:
            path: the file to write; it is returned; it replaces an older file.
            title: the heading, followed by the date.
            verdict: the first sentence, in place of `verdict`.
        """
        from tfdml.evaluation.page import page

        text = page(self, title, self.verdict if verdict is None else verdict)
        with atomic_write(path) as new:
            new.write_text(text, encoding="utf-8")
        return Path(path).expanduser()


def listed_files(folder: Path) -> set[str]:
    """The files of a folder that are as `save` wrote them; empty for a folder without its checksums."""
    changed = {problem.partition(":")[0] for problem in problems(folder)}
    return set() if SUMS in changed else {_RECORD, _PAGE, SUMS} - changed


def write_json(path: FilePath, content: Any) -> None:
    """Write JSON, in one step."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8")


def plain(value: Any) -> Any:
    """A value as lists, dicts, numbers and text; NaN as None, because JSON has no NaN."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if hasattr(value, "_asdict") or is_dataclass(value):
        return plain({column: getattr(value, column) for column in value.__annotations__})
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def _pair_as_dict(pair):
    comparison = pair.comparison
    numbers = {name: plain(getattr(comparison, name)) for name in ("difference", "low", "high", "p")}
    corrected = {"corrected": pair.corrected, "better": pair.better, "queries": list(pair.queries)}
    return {"models": list(comparison.names), **numbers, **corrected, "detectable": plain(pair.detectable)}


def _other(pair, model):
    return next(name for name in pair.comparison.names if name != model)


def _listed(names):
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def number_text(number: float, scale: int = 100, sign: str = "") -> str:
    """A number as text, in % with a scale of 100."""
    return f"{scale * number:{sign}{'.1f' if scale == 100 else '.4g'}}"


def _p_text(p):
    return f"{p:.2g}" if p >= 1e-4 else "<0.0001"


def _short(name, width=_NAME):
    """A name in a number of characters: of a longer one, both ends."""
    end = (width - 2) // 2
    return name if len(name) <= width else f"{name[: width - 2 - end]}..{name[-end:]}"


def _wrapped(texts):
    return [line for text in texts for line in textwrap.wrap(text, _PROSE, break_on_hyphens=False)]


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
