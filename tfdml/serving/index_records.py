"""Neighbors as a server answers them: records, filters, and the files behind the items of an index."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from tfdml._core.checksums import CHECKSUM, ROOT, SIZE
from tfdml.datasets.readers.item_files import file_of, without_owner
from tfdml.search import refine
from tfdml.serving.bodies import listed, require_request
from tfdml.serving.limits import RefusedError
from tfdml.serving.queries import FileQuery
from tfdml.typing import FilePath

SEARCH = "search"  # the signature
_PATH, _NAME, _BOX = "path", "name", "box"
_MAX_CHOICES = 1_000
_MAX_REASON = 200  # characters
_NUMBER = re.compile(r"-?[0-9]{1,19}")  # of an int64


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorSearch:
    """A search of one vector; `where` is the JSON text of the filter, and `excluded_rows` are no answers."""

    vector: np.ndarray
    k: int
    where: str = "{}"
    excluded_rows: tuple[int, ...] = ()


class IndexRecords:
    """Neighbors in an index of `tfdml.search`, as records for clients.

    The paths of files stay here: a client sees their last part as `name`, and no column whose name begins with "_".
    `thumbnails` are JPEGs by id. Vectors may lack one, and other ids are ignored. `items` is the column of the items,
    as in `search`. `root` replaces the folder of the files. `has_files`: the file of the first row is there.
    `description` has facts for clients: number of items, dim, metric, whether there are pictures and random items, and
    the filters with the sorted values of text columns. Other columns and those with many values list none.
    """

    def __init__(
        self,
        index: Any,
        thumbnails: Mapping[Any, bytes] | None = None,
        items: str | None = None,
        root: FilePath | None = None,
    ):
        self._thumbnails = {} if thumbnails is None else thumbnails
        self._items, self._item_numbers = items, index.item_numbers(items)
        self._index, self._vectors, self._ids, self._root = index, index.vectors, index.ids, root
        self._exact, self._whole = index.exactly(), index.metadata
        self._columns = [] if self._whole is None else without_owner(self._whole.column_names)
        self._table: Any = self._whole.select(self._columns) if self._columns else None
        self._longest = max(map(len, self._ids.tolist())) if self._ids.dtype.kind in "UT" else None
        self.dim, self.has_files = index.dim, len(self) > 0 and self.has_file(0)
        self.description = {
            "items": index.count(items=items),
            "dim": self.dim,
            "metric": index.metric,
            "pictures": _PATH in self._columns or len(self._thumbnails) > 0,
            "random_items": True,
            "filters": {name: self._choices(name) for name in self._columns if self._can_filter(name)},
        }

    def __len__(self) -> int:
        return len(self._vectors)

    def __call__(self, queries: list[VectorSearch]) -> list[list[dict[str, Any]] | RefusedError]:
        """The neighbors of each query, nearest first, k or as many as pass the filter; or why they are not searched."""
        results: list[Any] = [None] * len(queries)
        for where in dict.fromkeys(query.where for query in queries):
            numbers = [number for number, query in enumerate(queries) if query.where == where]
            for number, neighbors in zip(numbers, self._search([queries[n] for n in numbers], where), strict=True):
                results[number] = neighbors
        return results

    def recall(self, query: VectorSearch, neighbors: list[dict[str, Any]]) -> float:
        """The share of the exact neighbors of a query that were found; `neighbors` are not empty."""
        options = {"where": self._mask(json.loads(query.where)), "items": self._items}
        k = min(len(neighbors) + len(query.excluded_rows), self._index.count(options["where"], self._items))
        ids, scores = self._exact.search(query.vector[None], k, **options)
        exact = {item["id"] for item in self._records(query, self._index.rows(ids)[0], scores[0])}
        return len(exact & {item["id"] for item in neighbors}) / len(exact)

    def vector(self, row: int) -> np.ndarray:
        """The vector of a row of the index, `(dim,)`."""
        return self._vectors[row]

    def refined(
        self, vector: np.ndarray, positive: list[Any], negative: list[Any]
    ) -> tuple[np.ndarray, tuple[int, ...]]:
        """A query that learned from the ids of items that are right and wrong, and the rows of the wrong ones."""
        metric = self._index.metric
        require_request(metric != "euclidean", "judged items in an index of the metric 'euclidean'", "cosine or dot")
        gone = [item for item in (*positive, *negative) if self._row_of_id(item) < 0]
        require_request(not gone, f"judged items that are gone: {listed(map(str, gone))}", "items of the index", 404)
        rows, others = ([self._row_of_id(item) for item in items] for items in (positive, negative))
        return refine(vector, self._vectors[rows], self._vectors[others]) if rows else vector, tuple(others)

    def row(self, kind: str, item: Any) -> int:
        """The row of an item that is named by its "id" or its "row"; a RefusedError if there is none."""
        row = self._row_of_id(item) if kind == "id" else item
        is_there = type(row) is int and 0 <= row < len(self)
        require_request(is_there, f"another {kind}", f"one of the {len(self)} items of the index", 404)
        return row

    def random_items(self, n: int, seed: int | None = None) -> list[dict[str, Any]]:
        """Distinct items in random order, at most n, each with its `id`, `row`, `name` and `metadata` as a neighbor."""
        rows = np.random.default_rng(seed).choice(len(self), min(n, len(self)), replace=False)
        return self._described(rows)

    def thumbnail(self, row: int) -> bytes | None:
        """The JPEG of a row, None for a row without one, or with one of another version of its file."""
        (id,) = self._ids[row : row + 1].tolist()
        versions = {getattr(self._thumbnails, "versions", {}).get(id), self._item(row).get(CHECKSUM)} - {None}
        return self._thumbnails.get(id) if len(versions) < 2 else None

    def version(self, row: int) -> str | None:
        """A text that changes with the file of a row; None where the index does not know."""
        return self._item(row).get(CHECKSUM)

    def path(self, row: int) -> Path | None:
        """The file behind a row, None where the index has no paths; a RefusedError if it is gone or another one."""
        item = self._item(row)
        if item.get(_PATH) is None:
            return None
        if item.get(CHECKSUM) is None and self._root is None:  # what is not known cannot be compared
            return Path(item.get(ROOT) or "", item[_PATH])
        try:
            return file_of(item, self._root)
        except ValueError as error:
            raise RefusedError(404, "Received an item whose file is gone or another one, expected its file.") from error

    def has_file(self, row: int) -> bool:
        """Whether the file of a row is there."""
        try:
            return (self.path(row) or Path()).is_file()
        except RefusedError:
            return False

    def _item(self, row):
        """The columns by which the file of a row is found, those that the index has."""
        table: Any = self._whole
        names = () if table is None else table.column_names
        return {name: table[name][row].as_py() for name in (_PATH, ROOT, SIZE, CHECKSUM) if name in names}

    def box(self, row: int) -> tuple[float, ...] | None:
        """The box of a row in its file, from the column `box` of four numbers; None where there is none."""
        box = self._table[_BOX][row].as_py() if _BOX in self._columns else None
        return tuple(box) if isinstance(box, list) and len(box) == 4 else None

    def file(self, row: int) -> FileQuery:
        """The content of the file behind a row, with its box if there is one."""
        try:
            return FileQuery((self.path(row) or Path()).read_bytes(), self.box(row))
        except (OSError, RefusedError) as error:
            raise RefusedError(400, "Received an item without its file, expected its path in the index.") from error

    def _choices(self, name):
        values = self._table[name].unique()
        if str(getattr(values.type, "value_type", values.type)) not in ("string", "large_string"):
            return []
        return sorted(value for value in values.to_pylist() if value is not None) if len(values) <= _MAX_CHOICES else []

    def _can_filter(self, name):
        from pyarrow import types

        return name != _PATH and not types.is_nested(self._table[name].type)

    def _row_of_id(self, item):
        """The row of an id, -1 if it is not there. JavaScript sends whole numbers beyond 2^53 as text."""
        if self._longest is None and isinstance(item, str) and _NUMBER.fullmatch(item):
            item = int(item)
        if not self._can_be_id(item):
            return -1
        try:
            row = int(self._index.rows([item])[0])
        except (OverflowError, ValueError):
            return -1
        return row if self._ids[row] == item else -1  # NumPy takes "a\0" for "a"

    def _can_be_id(self, item):
        """Whether an id has the type and at most the length of the index's ids: look-ups make arrays of its length."""
        if self._longest is None:
            return type(item) is int
        return isinstance(item, str) and len(item) <= self._longest

    def _search(self, queries, where):
        """Results of queries with the same filter."""
        try:
            mask = self._mask(json.loads(where))
        except RefusedError as error:
            return [error] * len(queries)
        most = self._index.count(mask, self._items)
        k = min(most, max(query.k + len(query.excluded_rows) for query in queries))
        if k == 0:
            return [[]] * len(queries)
        try:
            vectors = np.stack([query.vector for query in queries])
            ids, scores = self._index.search(vectors, k, where=mask, items=self._items)
        except ValueError as error:  # scores beyond float32
            if len(queries) > 1:
                raise  # the batch is divided
            return [RefusedError(400, f"An image cannot be searched. {str(error)[:_MAX_REASON]}")]
        rows = self._index.rows(ids)
        return [self._records(*neighbors) for neighbors in zip(queries, rows, scores, strict=True)]

    def _records(self, query, rows, scores):
        excluded = self._item_numbers[list(query.excluded_rows)]
        ranks = np.flatnonzero(~np.isin(self._item_numbers[rows], excluded))[: query.k]
        items = zip(self._described(rows[ranks]), scores[ranks].tolist(), strict=True)
        return [{**item, "score": score} for item, score in items]

    def _described(self, rows):
        """The items of rows as clients see them."""
        metadata = [{}] * len(rows) if self._table is None else self._table.take(rows).to_pylist()
        items = zip(self._ids[rows].tolist(), rows.tolist(), metadata, strict=True)
        return [{"id": id, "row": row, **described(columns)} for id, row, columns in items]

    def _mask(self, where):
        """The rows that pass a filter, `(n,)` bool; None for all."""
        unknown = sorted(set(where) - {name for name in self._columns if self._can_filter(name)})
        expected = "columns of the index that are not lists or objects. Remove them"
        require_request(not unknown, f"where with {listed(unknown)}", expected)
        try:
            return self._index.mask(where) if where else None
        except ValueError as error:
            raise RefusedError(400, str(error)) from error


class ModelIndex:
    """The index inside an exported model: neighbors of files by the signature `search`, without filters."""

    def __init__(self, search: dict[str, Any]):
        self.max_neighbors = search["k"]
        self.description = {
            "items": search["vectors"],
            "dim": search["dim"],
            "metric": search["metric"],
            "pictures": False,
            "random_items": False,
            "filters": {},
        }

    def require_files(self, queries: list[Any], where: str, judged: tuple[Any, Any] = ((), ())) -> None:
        """Refuse a filter, items by id or row, judged ones, and texts: a graph has none of them."""
        expected = "files: the index is inside the model. Use --index"
        is_plain = where == "{}" and not any(judged) and all(query.is_image for query in queries)
        require_request(is_plain, "a filter, an id, a row or a text", expected)

    def neighbors(self, outputs: dict[str, Any], k: int) -> list[dict[str, Any]]:
        """The k nearest of the outputs of an image, each with its `id`, `score`, `name` of its file, and `metadata`."""
        payload = outputs.get("payload", [b"{}"] * k)
        neighbors = list(zip(outputs["ids"].tolist(), outputs["scores"].tolist(), payload, strict=False))[:k]
        return [{"id": id, "score": score, **described(json.loads(columns))} for id, score, columns in neighbors]


def model_index(model: Any) -> ModelIndex | None:
    """The index inside a model; None for a model without one."""
    search = getattr(model, "search", None)
    return ModelIndex(search) if search and SEARCH in model.signatures else None


def described(columns: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a neighbor as JSON values, and the last part of a path as `name`."""
    name = {} if columns.get(_PATH) is None else {_NAME: PurePath(columns[_PATH]).name}
    return {**name, "metadata": {column: _as_json(value) for column, value in columns.items() if column != _PATH}}


def _as_json(value):
    """JSON has no NaN, and dates are text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _as_json(item) for name, item in value.items()}
    return value if isinstance(value, str | int | float | None) else str(value)
