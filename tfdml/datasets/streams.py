"""Examples of a batch from arrays in memory, files, or sources with random access.

It gathers arrays, and loads everything else by a small dataset per batch: all rows in parallel, then, if any row fails,
row by row, to replace the row or to name it in an error. Batches without failures have no overhead.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tfdml._core.checks import ADVICE, NO_OTHER, SHAPES
from tfdml._core.optional import tf
from tfdml._core.stored import is_on_disk
from tfdml.datasets.images.reasons import reason_of
from tfdml.datasets.rows import BATCHES_AHEAD, cells, columns, is_source, require_rows

_MAX_BATCHES_PER_GATHER = 64  # Small batches are gathered together, which spreads the overhead of an operation,
_MAX_BYTES_PER_GATHER = 2**20  # up to this size.


def on_host(data: Any) -> Any:
    """Arrays as tensors in main memory; graphs refer to them without a copy; nesting follows `tf.data`."""
    with tf.device("CPU:0"):
        return tf.data.Dataset.from_tensors(data).get_single_element()


def arrays(data: Any, length: int) -> Any:
    """`data` as tensors `(length, ...)` for `gather`, with the errors of `columns`; memory maps as `OnDisk`."""
    placed = lambda column: OnDisk(column) if is_on_disk(column) else on_host(column)  # noqa: E731
    return tf.nest.map_structure(placed, columns(data, length))


@dataclass(frozen=True, eq=False)
class OnDisk:
    """An array on disk in place of a tensor: only the rows that are gathered are read."""

    array: Any

    @property
    def dtype(self) -> tf.DType:
        """Type of the numbers."""
        return tf.as_dtype(self.array.dtype)

    @property
    def shape(self) -> tf.TensorShape:
        """Shape of the whole array."""
        return tf.TensorShape(self.array.shape)


def gather(data: Any, rows: tf.Tensor) -> Any:
    """Rows `(...)` of the result of `arrays`."""

    def rows_of(array):
        if not isinstance(array, OnDisk):
            return tf.gather(array, rows)
        return tf.ensure_shape(
            tf.numpy_function(partial(cells, array.array), [rows], array.dtype), rows.shape + array.shape[1:]
        )

    return tf.nest.map_structure(rows_of, data)


def gathered(
    rows: tf.data.Dataset, data: Any, labels: tf.Tensor, *, prefetch: int, max_batches: int
) -> tf.data.Dataset:
    """Dataset of `(examples, labels)` gathered from tensors, at most `max_batches` at a time, by rows `(batch,)`."""

    @tf.autograph.experimental.do_not_convert
    def take(rows):
        return gather(data, rows), tf.gather(labels, rows)

    batches = 1 if max_batches == 1 else min(max_batches, _batches_per_gather(data, rows.element_spec.shape[0]))
    examples = rows.batch(batches).map(take).unbatch() if batches > 1 else rows.map(take)
    return examples.prefetch(prefetch)


def _batches_per_gather(data, batch_size):
    """Number of batches to gather by one call: several if batches are small."""
    sizes = [batch_size * tensor.dtype.size * math.prod(tensor.shape[1:]) for tensor in tf.nest.flatten(data)]
    if 0 in sizes:
        return 1  # Strings have no known size, and `unbatch` cannot split empty rows.
    return max(1, min(_MAX_BATCHES_PER_GATHER, _MAX_BYTES_PER_GATHER // sum(sizes)))


def loaded(
    rows: tf.data.Dataset,
    data: Any,
    load: Callable[..., Any] | None,
    labels: np.ndarray,
    *,
    augment: Callable[..., Any] | None = None,
    on_error: str | Callable[[int], None] = "error",
    prefetch: int,
) -> tf.data.Dataset:
    """Examples that are read and loaded, in whole batches and in order: a dataset of `(examples, labels)`.

    `rows` has row numbers `(batch,)`; with `augment` also int64 seeds `(batch, 2)`. `prefetch` streams take turns, and
    each loads its next batch once its last one is gone, so at most `prefetch` batches are ahead.
    """
    batch = _loader(data, load, augment, labels, on_error).batch

    @tf.autograph.experimental.do_not_convert
    def stream(turn):
        return rows.shard(prefetch, turn).flat_map(batch).prefetch(1)

    return tf.data.Dataset.range(prefetch).interleave(stream, cycle_length=prefetch)


def in_order(data: Any, load: Callable[..., Any] | None, labels: np.ndarray, *, batch_size: int) -> tf.data.Dataset:
    """All examples once, in order: a finite dataset of `(examples, labels)`; the last batch may be shorter."""
    rows = tf.data.Dataset.range(len(labels)).batch(batch_size)
    if load is None and not is_source(data):
        batches = gathered(rows, arrays(data, len(labels)), on_host(labels), prefetch=BATCHES_AHEAD, max_batches=1)
    else:
        batches = loaded(rows, data, load, labels, prefetch=BATCHES_AHEAD)
    return batches.apply(tf.data.experimental.assert_cardinality(len(rows))).with_options(stream_options())


def loadable(
    data: Any, load: Callable[..., Any] | None, length: int, *, batch_size: int, start: int
) -> tf.data.Dataset:
    """`(examples, rows)` of the rows from `start` that can be loaded, in order: see `LabeledSet.loadable`."""
    numbers = np.arange(length)
    rows = tf.data.Dataset.range(start, length).batch(batch_size)
    if load is None and not is_source(data):
        return gathered(rows, arrays(data, length), on_host(numbers), prefetch=BATCHES_AHEAD, max_batches=1)
    examples = rows.flat_map(_loader(data, load, None, numbers).loadable)
    return examples.prefetch(BATCHES_AHEAD).with_options(stream_options())


def stream_options() -> tf.data.Options:
    """Options that prevent a second copy of the data, and sharding by `tf.distribute` on top of ours."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False  # Rewriting a graph copies what it holds.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return options


def _loader(data, load, augment, labels, on_error="error"):
    plain = load or (lambda record: record)
    example = tf.function(plain if augment is None else lambda record, seed: augment(plain(record), seed))
    if is_source(data):
        require_rows((len(data),), len(labels), "a source")
        source = _Source(data, fixed=load is None and augment is None)
        return _Loader(on_host(labels), (), source.records, example, on_error)
    keys = arrays(data, len(labels))

    def records(rows):
        return tf.data.Dataset.from_tensor_slices((gather(keys, rows),))

    return _Loader(on_host(labels), keys, records, example, on_error)


@dataclass(frozen=True, eq=False)
class _Loader:
    """Loads batches, and names the rows that cannot be loaded, or replaces them by others of their class.

    `keys` are tensors from `arrays`, or () where there is a source. `records` takes rows `(n,)` and returns a dataset
    of their records, each in a tuple of one, because a record may itself be a tuple. `load` takes one record and its
    seed, if the batch has seeds. `on_error` is "error", "skip", or a function of each replaced row.
    """

    labels: tf.Tensor
    keys: Any
    records: Callable[..., Any]
    load: Callable[..., Any]
    on_error: str | Callable[[int], None]

    def batch(self, rows, *seeds):
        """Dataset of one `(examples, labels)`: all rows in parallel, then row by row if that gives no whole batch."""
        whole = self._in_parallel(rows, *seeds).filter(lambda positions, _: tf.size(positions) == tf.size(rows))
        examples = whole.map(lambda _, examples: examples).concatenate(self._row_by_row(rows, seeds)).take(1)
        labels = tf.data.Dataset.from_tensors(tf.gather(self.labels, rows))
        return tf.data.Dataset.zip(examples, labels).map(_with_static_size)

    def loadable(self, rows):
        """Dataset of one `(examples, rows)`, of the rows that can be loaded; empty if their shapes differ."""
        return self._in_parallel(rows).map(lambda positions, examples: (examples, tf.gather(rows, positions)))

    def _in_parallel(self, rows, *seeds):
        """Dataset of one `(positions, examples)`, of the rows that can be loaded; empty if their shapes differ."""
        positions = tf.data.Dataset.from_tensor_slices((tf.range(tf.size(rows)), *seeds))
        examples = tf.data.Dataset.zip(positions, self.records(rows)).map(
            lambda seeded, record: (seeded[0], self.load(*record, *seeded[1:])),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        return examples.ignore_errors().batch(tf.size(rows, tf.int64)).ignore_errors()

    def _row_by_row(self, rows, seeds):
        """Dataset of one batch of examples; raises unless all have the same shapes."""
        examples = tf.data.Dataset.from_tensor_slices(tf.range(tf.size(rows))).interleave(
            partial(self._first_that_loads, rows, seeds), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return examples.scan("", self._require_same_shapes).batch(tf.size(rows, tf.int64))

    def _first_that_loads(self, rows, seeds, position):
        """Dataset of one `(row, example)`: of `rows[position]`, or of the first replacement that can be loaded."""
        candidates = rows[position][None] if self.on_error == "error" else _classmates(self.labels, rows, position)

        def row_and_example(row):
            examples = self.records(row[None]).map(lambda *record: self.load(*record, *(x[position] for x in seeds)))
            return tf.data.Dataset.zip(tf.data.Dataset.from_tensors(row), examples)

        attempts = tf.data.Dataset.from_tensor_slices(
            (candidates, tf.pad(candidates[:-1], [[1, 0]], constant_values=-1))
        )
        loaded = attempts.map(self._report_skipped).flat_map(row_and_example).ignore_errors(log_warning=True)
        failed = (
            tf.data.Dataset.from_tensors(rows[position])
            .filter(partial(self._give_up, [x[position] for x in seeds]))
            .flat_map(row_and_example)
        )
        return loaded.concatenate(failed).take(1)

    def _report_skipped(self, row, skipped):
        """`row`, after `on_error` was called with the row that is skipped before it, if there is one."""

        def report(row, skipped):
            if skipped >= 0:
                self.on_error(int(skipped))
            return row

        is_reported = callable(self.on_error)
        return tf.ensure_shape(tf.numpy_function(report, [row, skipped], tf.int64), ()) if is_reported else row

    def _give_up(self, seeds, row):
        what, advice = ", which cannot be loaded: ", ADVICE
        if self.on_error != "error":
            what, advice = ", and no example of its class can be loaded: ", NO_OTHER
        reason = tf.numpy_function(self._reason, [row, *seeds], tf.string)
        text = "Received " + self._name(row) + what + reason + advice
        with tf.control_dependencies([tf.debugging.Assert(row < 0, [text])]):
            return tf.constant(True)

    def _reason(self, row, *seeds):
        """Why a row cannot be loaded."""
        try:
            for record in self.records(tf.constant([row])):
                self.load(*record, *seeds)
        except Exception as error:  # of the user's source, or of the user's load
            return reason_of(error).rstrip(".")
        return "an error that did not occur again"

    def _require_same_shapes(self, expected, row_and_example):
        """A step of `scan` that passes the example on, and raises if its shapes are not the `expected` ones."""
        row, example = row_and_example
        shapes = _shapes(example)
        expected = tf.where(expected == "", shapes, expected)
        text = "Received examples of shape " + expected + " and " + shapes + ", the latter from " + self._name(row)
        text += SHAPES
        with tf.control_dependencies([tf.debugging.Assert(expected == shapes, [text])]):
            return expected, tf.nest.map_structure(tf.identity, example)

    def _name(self, row):
        """How error messages identify a row: by its number, label and keys."""
        short = [key for key in tf.nest.flatten(self.keys) if key.shape.rank < 3]  # Pixels do not identify a row.
        values = gather([self.labels, *short], row)
        return tf.strings.format(f"row {{}} (label {', key '.join(['{}'] * len(values))})", [row, *values])


def _classmates(labels, rows, position):
    """`rows[position]`, then the other rows of its class in random order, those that are in the batch already last."""
    members = tf.where(labels == tf.gather(labels, rows[position]))[:, 0]
    # By the batch and the position alone, so that a resumed run makes the same replacements.
    weights = tf.range(1, tf.size(rows, tf.int64) + 1, dtype=tf.int64)
    seed = tf.stack([tf.reduce_sum(rows * weights), tf.cast(position, tf.int64)])
    keys = tf.random.stateless_uniform(tf.shape(members), seed, 0, 2**62, tf.int64)
    keys += tf.where(tf.reduce_any(members[:, None] == rows, axis=1), tf.constant(2**62, tf.int64), 0)
    return tf.gather(members, tf.argsort(tf.where(members == rows[position], tf.constant(-1, tf.int64), keys)))


def _with_static_size(examples, labels):
    """The same tensors, with the number of rows in their static shapes."""
    size = labels.shape[0]
    return tf.nest.map_structure(lambda tensor: tf.ensure_shape(tensor, [size, *tensor.shape[1:]]), examples), labels


def _shapes(example):
    return tf.strings.join([tf.strings.format("{}", tf.shape(tensor)) for tensor in tf.nest.flatten(example)], " ")


class _Source:
    """Records of a source, with the structure of its first record, and its shapes if `fixed`, else its axes.

    A lock is held while the source is read: several batches load at the same time, and few sources are thread-safe.
    """

    def __init__(self, source, *, fixed):
        self._source, self._first, self._lock = source, source[0], threading.Lock()
        parts = [np.asarray(part) for part in tf.nest.flatten(self._first)]
        self._types = [tf.string if part.dtype.kind in "OSU" else tf.as_dtype(part.dtype) for part in parts]
        self._shapes = [tf.TensorShape(part.shape if fixed else [None] * part.ndim) for part in parts]

    def records(self, rows):
        """Dataset of the records of `rows` `(n,)`, read in one Python call if the graph knows n, else one by one."""
        calls = rows[None] if rows.shape[0] else rows[:, None]
        return tf.data.Dataset.from_tensor_slices(calls).map(self._pack).unbatch().map(self._unpack)

    def _pack(self, rows):
        """The records of `rows` as a tensor `(n,)` of Optionals, because records of one batch may differ in shape."""
        width = len(self._types)
        parts = tf.numpy_function(self._read, [rows], self._types * rows.shape[0])
        records = [parts[i : i + width] for i in range(0, len(parts), width)]
        return tf.stack([tf.raw_ops.OptionalFromValue(components=record) for record in records])

    def _unpack(self, record):
        """The record in an Optional, in a tuple of one."""
        parts = tf.raw_ops.OptionalGetValue(optional=record, output_types=self._types, output_shapes=self._shapes)
        return (tf.nest.pack_sequence_as(self._first, parts),)

    def _read(self, rows):
        """Parts of the records of `rows`, concatenated, as NumPy arrays."""
        many = getattr(self._source, "__getitems__", lambda rows: [self._source[row] for row in rows])
        with self._lock:
            records = [tf.nest.flatten(record) for record in many(rows.tolist())]
        for row, record in zip(rows, records, strict=True):
            if len(record) != len(self._types):
                received, expected = f"a record of {len(record)} parts in row {row}", f"{len(self._types)} as in row 0"
                raise ValueError(f"Received {received}, expected {expected}.")
        types = [dtype.as_numpy_dtype for dtype in self._types]
        return [np.asarray(*part) for record in records for part in zip(record, types, strict=True)]
