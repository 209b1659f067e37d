"""An index as a server answers from it: neighbors as records, filters, and the files behind them."""

import json
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import Any

import numpy as np

from tfdml.serving.limits import RefusedError

_PATH, _NAME = "path", "name"
_MAX_CHOICES = 1_000


@dataclass(frozen=True, eq=False, kw_only=True)
class Query:
    """A search of one vector.

    Attributes:
        vector: `(dim,)`.
        k: number of neighbors.
        where: JSON text of the filter, columns with a value or a list of values.
        left_out: row of the index that is not an answer, -1 for none.
    """

    vector: np.ndarray
    k: int
    where: str = "{}"
    left_out: int = -1


class Catalog:
    """Searches an index of `tfdml.search`.

    The paths of files stay here: a client sees their last part as `name`.
    """

    def __init__(self, index: Any):
        self._index, self._vectors, self._table = index, index.vectors, index.metadata
        self._columns = [] if self._table is None else self._table.column_names
        self.dim = index.dim

    def __len__(self) -> int:
        return len(self._vectors)

    def __call__(self, queries: list[Query]) -> list[list[dict[str, Any]] | RefusedError]:
        """The neighbors of each query, nearest first, or why they are not searched.

        A neighbor has its `id`, its `row` in the index, its `score` and its metadata. Fewer than k are found if fewer
        pass the filter.
        """
        results: list[Any] = [None] * len(queries)
        for where, places in _grouped(range(len(queries)), lambda place: queries[place].where):
            for place, found in zip(places, self._found([queries[p] for p in places], where), strict=True):
                results[place] = found
        return results

    def vector(self, row: int) -> np.ndarray:
        """The vector of a row of the index, `(dim,)`."""
        return self._vectors[row]

    def row(self, kind: str, item: Any) -> int:
        """The row of an item that is named by its "id" or its "row".

        Raises:
            RefusedError: there is no such item.
        """
        try:
            row = int(self._index.rows([item])[0]) if kind == "id" else operator.index(item)
        except (OverflowError, TypeError, ValueError):
            row = -1
        if not 0 <= row < len(self):
            raise RefusedError(404, f"Received another {kind}, expected one of the {len(self)} items of the index.")
        return row

    def path(self, row: int) -> str | None:
        """The file behind a row, None where the index has no paths."""
        return self._table[_PATH][row].as_py() if _PATH in self._columns else None

    def as_dict(self) -> dict[str, Any]:
        """What clients may know: number of items, dim, metric, whether there are pictures, and filters."""
        return {
            "items": len(self),
            "dim": self.dim,
            "metric": self._index.metric,
            "pictures": _PATH in self._columns,
            "filters": {name: self._choices(name) for name in self._columns if name != _PATH},
        }

    def _choices(self, name):
        """The sorted values of a column of text; empty for other columns and for many values."""
        column = self._table[name]
        if str(column.type) not in ("string", "large_string"):
            return []
        values = column.unique()
        return sorted(value for value in values.to_pylist() if value is not None) if len(values) <= _MAX_CHOICES else []

    def _found(self, queries, where):
        """Results of queries with the same filter."""
        try:
            mask = self._mask(json.loads(where))
        except RefusedError as error:
            return [error] * len(queries)
        k = min(max(query.k + (query.left_out >= 0) for query in queries), len(self) if mask is None else mask.sum())
        if k == 0:
            return [[]] * len(queries)
        ids, scores = self._index.search(np.stack([query.vector for query in queries]), int(k), where=mask)
        rows = self._index.rows(ids)
        return [self._records(*found) for found in zip(queries, ids, rows, scores, strict=True)]

    def _records(self, query, ids, rows, scores):
        kept = np.flatnonzero(rows != query.left_out)[: query.k]
        about = [{}] * len(kept) if self._table is None else self._table.take(rows[kept]).to_pylist()
        found = zip(ids[kept].tolist(), rows[kept].tolist(), scores[kept].tolist(), about, strict=True)
        return [{"id": id, "row": row, "score": score, **_shown(columns)} for id, row, score, columns in found]

    def _mask(self, where):
        """The rows that pass a filter, `(n,)` bool; None for all."""
        unknown = set(where) - set(self._columns) | ({_PATH} & set(where))
        if unknown:
            raise RefusedError(
                400, f"Received where with {sorted(unknown)}, expected columns of the index. Remove them."
            )
        parts = [self._passes(name, value if isinstance(value, list) else [value]) for name, value in where.items()]
        return np.logical_and.reduce(parts) if parts else None

    def _passes(self, name, values):
        import pyarrow
        from pyarrow import compute

        column = self._table[name]
        try:
            wanted = pyarrow.array(values).cast(column.type)
        except (pyarrow.ArrowException, OverflowError) as error:
            expected = f"values of type {column.type}"
            raise RefusedError(400, f"Received a filter of {name!r} ({error}), expected {expected}.") from error
        return compute.is_in(column, value_set=wanted).to_numpy()


def _grouped(items: Iterable[Any], key: Any) -> list[tuple[Any, list[Any]]]:
    return [(name, list(group)) for name, group in groupby(sorted(items, key=key), key)]


def _shown(columns):
    """The metadata of a neighbor as JSON values, with the last part of a path as its name."""
    about = {name: _as_json(value) for name, value in columns.items() if name != _PATH}
    return about if columns.get(_PATH) is None else {_NAME: PurePath(columns[_PATH]).name, **about}


def _as_json(value):
    """JSON has no NaN, and dates are text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | list | None) else str(value)
