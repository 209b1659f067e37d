"""Examples of a batch as NumPy arrays, loaded by threads: without TensorFlow, and in processes that load for another.

As `streams`: it loads all rows in parallel, then those that fail again, to replace them or to name them in an error.
"""

import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import keras
import numpy as np

from tfdml._core.checks import ADVICE, NO_OTHER, SHAPES, as_readable, as_unmasked, require, unreadable
from tfdml._core.stored import is_on_disk, read_rows
from tfdml.datasets.images.reasons import reason_of

tree = keras.tree
BATCHES_AHEAD = 2  # of a set that is read in order
_READING = threading.RLock()  # few sources are thread-safe


class RowLoader:
    """Loads the examples of rows, with errors that name a row. It can be pickled.

    Args:
        data: arrays `(n, ...)` in memory or on disk, a tuple or dict of them, or a source with `source[row]`.
        load: function of one record; None: records are examples.
        labels: `(n,)`.
        augment: function of an example and its seed, or None.
        on_error: "error", "skip", which replaces a row by one of its class that can be loaded, or a function of each
            row that is replaced. A batch always has the same replacements; they are not those of `tf.data`.
        workers: number of threads; None for the number of cores.
    """

    def __init__(
        self,
        data: Any,
        load: Callable[..., Any] | None,
        labels: np.ndarray,
        augment: Callable[..., Any] | None = None,
        on_error: str | Callable[[int], None] = "error",
        workers: int | None = None,
    ) -> None:
        self.labels, self._load, self._augment = np.asarray(labels), load, augment
        self._on_error, self._workers, self._is_source = on_error, workers, is_source(data)
        if self._is_source:
            require_rows((len(data),), len(labels), "a source")
        self.data = data if self._is_source else columns(data, len(labels))

    def batch(self, rows: np.ndarray, seeds: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
        """Examples and labels of rows `(n,)`; `augment` takes their seeds `(n, 2)`."""
        rows = np.asarray(rows, np.int64)
        if self._load is None and self._augment is None and not self._is_source:
            return tree.map_structure(lambda column: cells(column, rows), self.data), self.labels[rows]
        attempts = self._attempts(rows, seeds)
        for position, (_, _, error) in enumerate(attempts):
            if error is not None:
                attempts[position] = self._replaced(rows, position, seeds)
        return self._stacked(attempts), self.labels[rows]

    def loadable(self, rows: np.ndarray) -> tuple[Any, np.ndarray] | None:
        """Examples and numbers of the rows that can be loaded; None if there are none, or their shapes differ."""
        attempts = [one for one in self._attempts(rows, None) if one[2] is None]
        if len({_shapes(example) for _, example, _ in attempts}) != 1:
            return None
        return self._stacked(attempts), np.array([row for row, _, _ in attempts])

    def _attempts(self, rows, seeds):
        """`(row, example, None)` of each row, or `(row, None, error)`."""
        seeds = [()] * len(rows) if seeds is None else [(seed,) for seed in seeds]
        workers = self._workers or os.cpu_count() or 1
        mapped = map if min(workers, len(rows)) == 1 else _pool(workers, os.getpid()).map
        return list(mapped(self._attempt, rows.tolist(), self._records(rows), seeds))

    def _attempt(self, row, read, seed):
        try:
            record = read()
            try:
                example = record if self._load is None else self._load(record)
            except Exception as error:
                raise ValueError(reason_of(error, record[0] if isinstance(record, tuple) else record)) from error
            example = example if self._augment is None else self._augment(example, *seed)
            return row, tree.map_structure(np.asarray, example), None
        except Exception as error:  # of the user's source, or of the user's functions
            return row, None, error

    def _records(self, rows):
        """A function per row that returns its record."""
        if hasattr(self.data, "__getitems__"):
            with _READING, contextlib.suppress(Exception):  # then one by one, to find the row that fails
                return [lambda record=record: record for record in self.data.__getitems__(rows.tolist())]
        return [partial(self._record, row) for row in rows.tolist()]

    def _record(self, row):
        if not self._is_source:
            return tree.map_structure(lambda column: cells(column, np.array([row]))[0], self.data)
        with _READING:
            return self.data[row]

    def _replaced(self, rows, position, seeds):
        """As `_attempts` of a row, a second time; else of the first other row of its class that can be loaded."""
        is_error = self._on_error == "error"
        candidates = rows[position : position + 1] if is_error else _classmates(self.labels, rows, position)
        seeds, errors = None if seeds is None else seeds[position][None], []
        for number, row in enumerate(candidates):
            if number and callable(self._on_error):
                self._on_error(int(candidates[number - 1]))
            ((_, example, error),) = self._attempts(np.array([row]), seeds)
            if error is None:
                return row, example, None
            errors.append(error)
        failed = "which cannot be loaded" if is_error else "and no example of its class can be loaded"
        reason, advice = reason_of(errors[0]).rstrip("."), ADVICE if is_error else NO_OTHER
        raise unreadable(f"Received {self._name(rows[position])}, {failed}: {reason}{advice}") from errors[0]

    def _stacked(self, attempts):
        """Examples as arrays; raises unless all have the same shapes."""
        expected = _shapes(attempts[0][1])
        for row, example, _ in attempts:
            if _shapes(example) != expected:
                received = f"examples of shape {expected} and {_shapes(example)}, the latter from {self._name(row)}"
                raise unreadable(f"Received {received}{SHAPES}")
        return tree.map_structure(lambda *arrays: np.stack(arrays), *(example for _, example, _ in attempts))

    def _name(self, row):
        """How error messages identify a row: by its number, label and keys."""
        short = [] if self._is_source else [x[row] for x in tree.flatten(self.data) if x.ndim < 3]  # no pixels
        keys = "".join(f", key {_shown(key)}" for key in short)
        return f"row {row} (label {self.labels[row]}{keys})"


def is_source(data: Any) -> bool:
    """Whether `data` is read row by row: it has `len` and `[row]`, and is not an array, tuple, list or dict."""
    if isinstance(data, Mapping | tuple | list | str | bytes) or hasattr(data, "__array__"):
        return False
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def columns(data: Any, length: int) -> Any:
    """`data` as arrays `(length, ...)`; memory maps stay on disk, and are checked for NaN as they are read."""
    if isinstance(data, tuple):
        return tuple(columns(column, length) for column in data)
    if isinstance(data, dict):
        return {name: columns(column, length) for name, column in data.items()}
    if not is_on_disk(data):
        data = as_readable(as_unmasked(data, "data"))
        is_bytes = isinstance(data, list) and isinstance(next(iter(data), 0), bytes)
        with contextlib.suppress(ValueError):  # of rows that differ in shape
            data = np.asarray(data, object if is_bytes else None)  # an array of bytes would drop zeros at their ends
        form = "an array, a tuple or dict of arrays, or a source with len(source) and source[row]"
        is_array = isinstance(data, np.ndarray) and data.dtype.kind in "biufcSUO"
        is_array = is_array and (data.dtype != object or all(isinstance(x, str | bytes) for x in data.flat))
        require(is_array, f"data of type {type(data).__name__}", form)
        _require_numbers(data, np.arange(len(data) if data.ndim else 0))
    require_rows(data.shape, length)
    return data


def require_rows(shape: Any, length: int, what: str = "") -> None:
    """Raise a ValueError unless data, or a source, has one row per label."""
    if not len(shape) or shape[0] != length:
        received = f"{what} of {shape[0]} rows" if what else f"data of shape {tuple(shape)}"
        raise ValueError(f"Received {received} and {length} labels. Expected one label per row.")


def _require_numbers(values, rows):
    if values.dtype.kind == "f" and np.isnan(values).any():
        row = rows.ravel()[np.isnan(values).reshape(rows.size, -1).any(axis=1).argmax()]
        raise ValueError(f"Received NaN in the data, first in row {row}, expected numbers. Repair or drop these rows.")


def cells(column: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows `(...)` of a column, `(..., *shape[1:])`."""
    if not is_on_disk(column):
        return column[rows]
    values = read_rows(column, rows)
    _require_numbers(values, rows)
    return values


def _shown(value):
    """A key as TensorFlow writes it."""
    if np.ndim(value) == 1:
        return f"[{' '.join(map(_shown, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value).removesuffix(".0")


def _shapes(example):
    return " ".join(str(list(np.shape(part))).replace(",", "") for part in tree.flatten(example))


def _classmates(labels, rows, position):
    """`rows[position]`, then the other rows of its class in random order, those that are in the batch already last."""
    members = np.flatnonzero(labels == labels[rows[position]])
    # By the batch and the position alone, so that a resumed run makes the same replacements.
    seed = [int((rows * np.arange(1, len(rows) + 1)).sum()), position]
    keys = np.random.default_rng(seed).random(len(members)) + np.isin(members, rows)
    return members[np.argsort(np.where(members == rows[position], -1, keys))]


@functools.cache
def _pool(workers, process):
    """Threads of a process: one that was forked has none of the threads of the other."""
    return ThreadPoolExecutor(workers)


class Batches(keras.utils.PyDataset):
    """Batches of a set in order: `len`, `[number]`, which `fit` and `predict` of Keras take, and loops, read ahead."""

    def __init__(self, load: Callable[[np.ndarray], Any], blocks: Sequence[np.ndarray]) -> None:
        super().__init__()
        self._load, self._blocks = load, blocks

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, number: int) -> Any:
        return self._load(self._blocks[number])

    def __iter__(self) -> Iterator[Any]:
        return ahead(self._load, self._blocks)


def ahead(load: Callable[[np.ndarray], Any], blocks: Iterable[np.ndarray]) -> Iterator[Any]:
    """`map(load, blocks)`, two of which are loaded while the loop works on one."""
    pool = ThreadPoolExecutor(1)
    waiting: deque[Future[Any]] = deque()
    try:
        for block in blocks:
            waiting.append(pool.submit(load, block))
            if len(waiting) > BATCHES_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def in_order(data: Any, load: Callable[..., Any] | None, labels: np.ndarray, *, batch_size: int) -> Batches:
    """As `streams.in_order`."""
    return Batches(RowLoader(data, load, labels).batch, _blocks(0, len(labels), batch_size))


def loadable(
    data: Any, load: Callable[..., Any] | None, length: int, *, batch_size: int, start: int
) -> Iterator[tuple[Any, np.ndarray]]:
    """As `streams.loadable`."""
    loader, blocks = RowLoader(data, load, np.arange(length)), _blocks(start, length, batch_size)
    is_loaded = load is not None or is_source(data)
    return filter(None, ahead(loader.loadable if is_loaded else loader.batch, blocks))


def _blocks(start, length, size):
    return [np.arange(first, min(first + size, length)) for first in range(start, length, size)]
