"""Examples of a batch from arrays in memory, files, or sources with random access.

Arrays are gathered. Everything else is loaded by a small dataset per batch: all rows in parallel, then, if any row
fails, row by row, to replace the row or to name it in an error. Batches without failures have no overhead.
"""

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfdml._core.checks import INT64, as_unmasked
from tfdml._core.memory_maps import is_on_disk, read_rows

_MAX_BATCHES_PER_GATHER = 64  # Small batches are gathered together, which spreads the overhead of an operation,
_MAX_BYTES_PER_GATHER = 2**20  # up to this size.
_NAN = "Received NaN in the data, first in row {}, expected numbers. Repair or drop these rows."
_BATCHES_AHEAD = 2  # of a set that is read in order


def on_host(data: Any) -> Any:
    """Arrays as tensors in main memory, which graphs refer to without a copy. Tuples and dicts keep their structure.

    Nesting follows `tf.data`: a tuple or dict is a structure, a list is an array.
    """
    with tf.device("CPU:0"):
        return tf.data.Dataset.from_tensors(data).get_single_element()


def is_source(data: Any) -> bool:
    """Whether `data` is read row by row: it has `len` and `[row]`, and is not an array, tuple, list or dict."""
    if isinstance(data, Mapping | tuple | list | str | bytes) or tf.is_tensor(data) or hasattr(data, "__array__"):
        return False
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def arrays(data: Any, length: int) -> Any:
    """`data` as tensors `(length, ...)`, which `gather` takes; memory maps as `OnDisk`.

    Raises:
        ValueError: other lengths, NaN, or data that are not arrays.
    """
    if is_on_disk(data):
        _require_rows(data.shape, length)
        return OnDisk(data)
    if type(data) is tuple and any(map(is_on_disk, data)):
        return tuple(arrays(array, length) for array in data)
    if isinstance(data, dict) and any(map(is_on_disk, data.values())):
        return {name: arrays(array, length) for name, array in data.items()}
    data = tf.nest.map_structure(lambda array: as_unmasked(array, "data"), data)
    try:
        tensors = on_host(data)
    except (TypeError, ValueError):
        tensors = None
    if tensors is None or not all(tf.is_tensor(array) for array in tf.nest.flatten(tensors)):
        raise ValueError(
            f"Received data of type {type(data).__name__}, expected an array, a tuple or dict of arrays, or a source "
            "with len(source) and source[row]."
        )
    for array in tf.nest.flatten(tensors):
        _require_rows(array.shape, length)
        _require_numbers(array)
    return tensors


def _require_rows(shape, length):
    if not len(shape) or shape[0] != length:
        raise ValueError(f"Received data of shape {tuple(shape)} and {length} labels. Expected one label per row.")


def _require_numbers(tensor):
    """Raise the ValueError of a tensor with NaN."""
    if tensor.dtype.is_floating and bool(tf.reduce_any(tf.math.is_nan(tensor))):
        row = int(tf.argmax(tf.reduce_any(tf.reshape(tf.math.is_nan(tensor), (len(tensor), -1)), axis=1)))
        raise ValueError(_NAN.format(row))


@dataclass(frozen=True, eq=False)
class OnDisk:
    """An array on disk in place of a tensor: only the rows that are gathered are read, and checked for NaN."""

    array: Any

    @property
    def dtype(self) -> tf.DType:
        """Type of the numbers."""
        return tf.as_dtype(self.array.dtype)

    @property
    def shape(self) -> tf.TensorShape:
        """Shape of the whole array."""
        return tf.TensorShape(self.array.shape)

    def read(self, rows: np.ndarray) -> np.ndarray:
        """The rows `(...)` of the array, `(..., *shape[1:])`; raises a ValueError if they contain NaN."""
        values = read_rows(self.array, rows)
        if values.dtype.kind == "f" and np.isnan(values).any():
            first = np.isnan(values).reshape(rows.size, -1).any(axis=1).argmax()
            raise ValueError(_NAN.format(rows.reshape(-1)[first]))
        return values


def gather(data: Any, rows: tf.Tensor) -> Any:
    """Rows `(...)` of the result of `arrays`."""

    def rows_of(array):
        if not isinstance(array, OnDisk):
            return tf.gather(array, rows)
        return tf.ensure_shape(tf.numpy_function(array.read, [rows], array.dtype), rows.shape + array.shape[1:])

    return tf.nest.map_structure(rows_of, data)


def gathered(
    rows: tf.data.Dataset, data: Any, labels: tf.Tensor, *, prefetch: int, max_batches: int
) -> tf.data.Dataset:
    """Examples gathered from memory.

    Args:
        rows: dataset of row numbers `(batch,)`.
        data: tensors from `arrays`.
        labels: `(examples,)` int64.
        prefetch: number of batches gathered ahead.
        max_batches: maximum number of batches gathered by one call.

    Returns:
        Dataset of `(examples, labels)`.
    """

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
    classes: Any = None,
    on_skip: Callable[[int], None] | None = None,
    prefetch: int,
) -> tf.data.Dataset:
    """Examples that are read and loaded, in whole batches and in order.

    `prefetch` streams take turns. Each stream loads its next batch as soon as its last one is taken, so at most
    `prefetch` batches are loaded ahead.

    Args:
        rows: dataset of row numbers `(batch,)`; with `augment`, of `(rows, seeds)` with int64 seeds `(batch, 2)`.
        data: a source, or arrays: the keys.
        load: function of one record or key that returns one example, or None: records are examples.
        labels: `(examples,)` int64.
        augment: function of one example and its seed `(2,)`, or None.
        classes: `ClassTable` to draw replacements of rows from that cannot be loaded, or None: they are an error.
        on_skip: function that is called with each row that is replaced, or None.
        prefetch: number of batches loaded ahead, at least 1.

    Returns:
        Dataset of `(examples, labels)`.

    Raises:
        ValueError: data and labels of different lengths, or data that are neither arrays nor a source.
    """
    fixed = load is None and augment is None
    batch = _loader(data, _load_function(load, augment), labels, classes, on_skip, fixed=fixed).batch

    @tf.autograph.experimental.do_not_convert
    def stream(turn):
        return rows.shard(prefetch, turn).flat_map(batch).prefetch(1)

    return tf.data.Dataset.range(prefetch).interleave(stream, cycle_length=prefetch)


def in_order(data: Any, load: Callable[..., Any] | None, labels: np.ndarray, *, batch_size: int) -> tf.data.Dataset:
    """All examples once, in order: a finite dataset of `(examples, labels)`; the last batch may be shorter."""
    rows = tf.data.Dataset.range(len(labels)).batch(batch_size)
    if load is None and not is_source(data):
        batches = gathered(rows, arrays(data, len(labels)), on_host(labels), prefetch=_BATCHES_AHEAD, max_batches=1)
    else:
        batches = loaded(rows, data, load, labels, prefetch=_BATCHES_AHEAD)
    return batches.apply(tf.data.experimental.assert_cardinality(len(rows))).with_options(stream_options())


def loadable(
    data: Any, load: Callable[..., Any] | None, length: int, *, batch_size: int, start: int
) -> tf.data.Dataset:
    """`(examples, rows)` of the rows from `start` that can be loaded, in order: see `LabeledSet.loadable`."""
    numbers = np.arange(length)
    rows = tf.data.Dataset.range(start, length).batch(batch_size)
    if load is None and not is_source(data):
        return gathered(rows, arrays(data, length), on_host(numbers), prefetch=_BATCHES_AHEAD, max_batches=1)
    loader = _loader(data, _load_function(load, None), numbers, None, None, fixed=load is None)
    return rows.flat_map(loader.loadable).prefetch(_BATCHES_AHEAD).with_options(stream_options())


def stream_options() -> tf.data.Options:
    """Options that prevent a second copy of the data, and sharding by `tf.distribute` on top of ours."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False  # Rewriting a graph copies what it holds.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return options


@dataclass(frozen=True, eq=False, kw_only=True)
class _Loader:
    """Loads batches: `records` reads rows, `load` turns them into examples, `replacements` lists substitutes.

    Attributes:
        labels: `(examples,)` int64 tensor.
        load: `tf.function` of one record and its seed, if the batch has seeds, that returns one example.
        keys: tensors from `arrays`, which are the records, or () where there is a source.
        source: `_Source`, or None.
        classes: `ClassTable` of tensors to draw replacements from, or None: a row that fails is an error.
        on_skip: function that is called with each skipped row, or None.
    """

    labels: tf.Tensor
    load: Callable[..., Any]
    keys: Any = ()
    source: "_Source | None" = None
    classes: Any = None
    on_skip: Callable[[int], None] | None = None

    def batch(self, rows, seeds=None):
        """Dataset of one `(examples, labels)`: all rows in parallel, then row by row if that gives no whole batch."""
        in_parallel = self._in_parallel(rows, seeds).flat_map(partial(self._fill_gaps, rows, seeds))
        row_by_row = self._row_by_row(rows, seeds, tf.range(tf.size(rows)), shapes="")
        labels = tf.data.Dataset.from_tensors(tf.gather(self.labels, rows))
        return tf.data.Dataset.zip(in_parallel.concatenate(row_by_row).take(1), labels).map(_with_static_size)

    def loadable(self, rows):
        """Dataset of one `(examples, rows)`, of the rows that can be loaded; empty if their shapes differ."""
        return self._in_parallel(rows, None).map(lambda positions, examples: (examples, tf.gather(rows, positions)))

    def records(self, rows):
        """Dataset of the records of `rows` `(n,)`, each in a tuple of one, because a record may itself be a tuple."""
        if self.source is not None:
            return _source_records(self.source, rows)
        return tf.data.Dataset.from_tensor_slices((gather(self.keys, rows),))

    def replacements(self, rows, position):
        """Dataset of the rows to try instead of `rows[position]`: its classmates, in random order."""

        def candidates_after_failures(position):
            candidates = _shuffled_classmates(self.labels, self.classes, rows, position)
            before = tf.concat([rows[position][None], candidates[:-1]], axis=0)
            return tf.data.Dataset.from_tensor_slices((candidates, before))

        # Evaluated only if a row fails.
        attempts = tf.data.Dataset.from_tensors(position).flat_map(candidates_after_failures)
        return attempts.map(self._report_skipped)

    def _in_parallel(self, rows, seeds):
        """Dataset of one `(positions, examples)`, of the rows that can be loaded; empty if their shapes differ."""

        def load_at(position, record):
            return position, self.load(*record, *_seed(seeds, position))

        positions = tf.data.Dataset.from_tensor_slices(tf.range(tf.size(rows)))
        examples = tf.data.Dataset.zip(positions, self.records(rows)).map(
            load_at, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return examples.ignore_errors().batch(tf.size(rows, tf.int64)).ignore_errors()

    def _fill_gaps(self, rows, seeds, positions, examples):
        """Dataset of the whole batch: `examples`, and the results of `_row_by_row` at the missing positions."""
        missing = tf.sets.difference(tf.range(tf.size(rows))[None], positions[None]).values
        shapes = _shapes(tf.nest.map_structure(lambda tensor: tensor[0], examples))
        replaced = tf.data.Dataset.zip((self._row_by_row(rows, seeds, missing, shapes),))

        def merge(replaced):
            stitch = partial(tf.dynamic_stitch, [positions, missing])
            return tf.nest.map_structure(lambda *tensors: stitch(tensors), examples, replaced)

        complete = tf.data.Dataset.from_tensors(examples).take(tf.cast(tf.size(missing) == 0, tf.int64))
        return complete.concatenate(replaced.map(merge))

    def _row_by_row(self, rows, seeds, positions, shapes):
        """Dataset of one batch of the examples at `positions`; raises unless all have the same shapes."""
        examples = tf.data.Dataset.from_tensor_slices(positions).interleave(
            partial(self._first_that_loads, rows, seeds), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return examples.scan(shapes, self._require_same_shapes).batch(tf.size(rows, tf.int64))

    def _first_that_loads(self, rows, seeds, position):
        """Dataset of one `(row, example)`: of `rows[position]`, or of the first replacement that can be loaded."""
        row = tf.data.Dataset.from_tensors(rows[position])
        attempts = row if self.classes is None else row.concatenate(self.replacements(rows, position))
        row_and_example = partial(self._row_and_example, _seed(seeds, position))
        loaded = attempts.flat_map(row_and_example).ignore_errors(log_warning=True)
        return loaded.concatenate(row.filter(self._give_up).flat_map(row_and_example)).take(1)

    def _row_and_example(self, seed, row):
        examples = self.records(row[None]).map(lambda *record: self.load(*record, *seed))
        return tf.data.Dataset.zip(tf.data.Dataset.from_tensors(row), examples)

    def _give_up(self, row):
        """Raise the error of a row that cannot be loaded."""
        advice = ", which cannot be loaded; the log says why. Repair it, leave it out, or pass on_error='skip'."
        if self.classes is not None:
            advice = ", and no example of its class can be loaded; the log says why. Leave the class out."
        message = tf.strings.join(["Received ", self._name(row), advice])
        with tf.control_dependencies([tf.debugging.Assert(row < 0, [message])]):
            return tf.constant(True)

    def _require_same_shapes(self, expected, row_and_example):
        """A step of `scan` that passes the example on, and raises if its shapes are not the `expected` ones."""
        row, example = row_and_example
        shapes = _shapes(example)
        expected = tf.where(expected == "", shapes, expected)
        text = ["Received examples of shape ", expected, " and ", shapes, ", the latter from ", self._name(row)]
        text += [". Expected one shape: resize or crop in load or augment."]
        with tf.control_dependencies([tf.debugging.Assert(expected == shapes, [tf.strings.join(text)])]):
            return expected, tf.nest.map_structure(tf.identity, example)

    def _report_skipped(self, row, skipped):
        """`row`, after `on_skip` was called with the row that is skipped before it."""
        if self.on_skip is None:
            return row

        def report(row, skipped):
            self.on_skip(int(skipped))
            return row

        return tf.ensure_shape(tf.numpy_function(report, [row, skipped], tf.int64), ())

    def _name(self, row):
        """How error messages identify a row: by its number, label and keys."""
        short = [key for key in tf.nest.flatten(self.keys) if key.shape.rank < 3]  # Pixels do not identify a row.
        values = gather([self.labels, *short], row)
        return tf.strings.format(f"row {{}} (label {', key '.join(['{}'] * len(values))})", [row, *values])


def _load_function(load, augment):
    """A `tf.function` of a record, and of its seed with `augment`."""
    load = load or (lambda record: record)
    if augment is None:
        return tf.function(load)
    return tf.function(lambda record, seed: augment(load(record), seed))


def _seed(seeds, position):
    """The seed of a position in a tuple of one, or no seed in an empty tuple."""
    return () if seeds is None else (seeds[position],)


def _loader(data, load, labels, classes, on_skip, *, fixed):
    """The `_Loader` for the arguments of `loaded`; with `fixed`, all records of a source have one shape."""
    if is_source(data):
        _require_length(data, len(labels))
        origin = dict(source=_described(data, fixed=fixed))
    else:
        origin = dict(keys=arrays(data, len(labels)))
    return _Loader(
        labels=on_host(labels),
        load=load,
        classes=None if classes is None else tf.nest.map_structure(on_host, classes),
        on_skip=on_skip,
        **origin,
    )


def _with_static_size(examples, labels):
    """The same tensors, with the number of rows in their static shapes."""
    size = labels.shape[0]
    return tf.nest.map_structure(lambda tensor: tf.ensure_shape(tensor, [size, *tensor.shape[1:]]), examples), labels


def _require_length(source, length):
    if len(source) != length:
        raise ValueError(f"Received a source of {len(source)} rows and {length} labels. Expected one label per row.")


def _shapes(example):
    return tf.strings.join([tf.strings.format("{}", tf.shape(tensor)) for tensor in tf.nest.flatten(example)], " ")


def _shuffled_classmates(labels, classes, rows, position):
    """The other rows of the class of `rows[position]` in random order, those that are in the batch already last.

    The order depends only on the batch and the position, so a resumed run makes the same replacements.
    """
    c = tf.searchsorted(classes.ids, tf.gather(labels, rows[position])[None])[0]
    members = classes.rows[classes.starts[c] :][: classes.counts[c]]
    weights = tf.range(1, tf.size(rows, tf.int64) + 1, dtype=tf.int64)
    seed = tf.stack([tf.reduce_sum(rows * weights), tf.cast(position, tf.int64)])
    keys = tf.random.stateless_uniform(tf.shape(members), seed, 0, 2**62, tf.int64)
    keys += tf.where(tf.reduce_any(members[:, None] == rows, axis=1), tf.constant(2**62, tf.int64), 0)
    keys = tf.where(members == rows[position], INT64.max, keys)  # The row itself comes last and is cut off.
    return tf.gather(members, tf.argsort(keys))[:-1]


class _Source(NamedTuple):
    """A source, with the structure of its records, taken from the first.

    Attributes:
        source: object with `len(source)` and `source[row]`, or `source.__getitems__(rows)` for many at once.
        first: its first record: an array, a number or text, or a tuple or dict of these.
        types, shapes: types and shapes of the components of a record.
        lock: held while the source is read: several batches are loaded at the same time, and few sources are
            thread-safe.
    """

    source: Any
    first: Any
    types: list[tf.DType]
    shapes: list[tf.TensorShape]
    lock: threading.Lock


def _described(source, *, fixed):
    """The `_Source`; with `fixed`, all records have the shapes of the first; without, only the same numbers of axes."""
    first = source[0]
    components = [np.asarray(component) for component in tf.nest.flatten(first)]
    types = [tf.string if component.dtype.kind in "OSU" else tf.as_dtype(component.dtype) for component in components]
    shapes = [tf.TensorShape(component.shape if fixed else [None] * component.ndim) for component in components]
    return _Source(source, first, types, shapes, threading.Lock())


def _source_records(source, rows):
    """Dataset of the records of `rows` `(n,)`, read in one Python call if the graph knows n, else one by one."""
    calls = rows[None] if rows.shape[0] else rows[:, None]
    packed = tf.data.Dataset.from_tensor_slices(calls).map(partial(_pack, source))
    return packed.unbatch().map(partial(_unpack, source))


def _pack(source, rows):
    """The records of `rows` as a tensor `(n,)` of Optionals.

    Records of one batch may differ in shape, so their components cannot be stacked; a tensor of Optionals holds them.
    """
    width = len(source.types)
    components = tf.numpy_function(partial(_read, source), [rows], source.types * rows.shape[0])
    records = [components[i : i + width] for i in range(0, len(components), width)]
    return tf.stack([tf.raw_ops.OptionalFromValue(components=record) for record in records])


def _unpack(source, record):
    """The record in an Optional, in a tuple of one."""
    components = tf.raw_ops.OptionalGetValue(optional=record, output_types=source.types, output_shapes=source.shapes)
    return (tf.nest.pack_sequence_as(source.first, components),)


def _read(source, rows):
    """Components of the records of `rows`, concatenated, as NumPy arrays."""
    with source.lock:
        records = _get(source.source, rows.tolist())
    components = []
    for row, record in zip(rows, records, strict=True):
        record = tf.nest.flatten(record)
        if len(record) != len(source.types):
            raise ValueError(
                f"Received a record of {len(record)} parts in row {row}, expected {len(source.types)} as in row 0."
            )
        components += [
            np.asarray(component, dtype.as_numpy_dtype) for component, dtype in zip(record, source.types, strict=True)
        ]
    return components


def _get(source, rows):
    return source.__getitems__(rows) if hasattr(source, "__getitems__") else [source[row] for row in rows]
