"""Where the examples of a batch come from: arrays in memory, files, sources with random access.

Arrays are gathered. Everything else is loaded by a small dataset for each batch: all rows in parallel, and if that does
not give a whole batch, row by row, to replace or to name what cannot be loaded. So a row that loads costs nothing more.
"""

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfdml._checks import INT64, as_unmasked
from tfdml.samplers.class_table import class_table

_TOGETHER = 64  # Small batches gathered by one call: spreads the cost of starting an operation over them,
_GATHERED = 2**20  # up to so many bytes.


def on_host(data: Any) -> Any:
    """Arrays as tensors in main memory; graphs then refer to them and hold no copy. Tuples and dicts stay as they are.

    `tf.data` decides what is a structure and what is an array, so a list is an array here as it is there.
    """
    with tf.device("CPU:0"):
        return tf.data.Dataset.from_tensors(data).get_single_element()


def is_source(data: Any) -> bool:
    """Whether `data` is read row by row: it has `len` and `[row]`, and is no array and no tuple, list or dict."""
    if isinstance(data, Mapping | tuple | list | str | bytes) or tf.is_tensor(data) or hasattr(data, "__array__"):
        return False
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def arrays(data: Any, length: int) -> Any:
    """`data` as tensors `(length, ...)`; raises a ValueError where it is neither arrays of that length nor numbers."""
    data = tf.nest.map_structure(lambda part: as_unmasked(part, "data"), data)
    try:
        tensors = on_host(data)
    except (TypeError, ValueError):
        tensors = None
    if tensors is None or not all(tf.is_tensor(part) for part in tf.nest.flatten(tensors)):
        raise ValueError(
            f"Received data of type {type(data).__name__}, expected an array, a tuple or dict of arrays, or a source "
            "with len(source) and source[row]."
        )
    for part in tf.nest.flatten(tensors):
        if not part.shape.rank or part.shape[0] != length:
            raise ValueError(
                f"Received data of shape {tuple(part.shape)} and {length} labels. Expected one label for each row."
            )
        if part.dtype.is_floating and bool(tf.reduce_any(tf.math.is_nan(part))):
            row = int(tf.argmax(tf.reduce_any(tf.reshape(tf.math.is_nan(part), (length, -1)), axis=1)))
            raise ValueError(
                f"Received NaN in the data, first in row {row}, expected numbers. Repair or drop these rows."
            )
    return tensors


def gathered(rows: tf.data.Dataset, data: Any, labels: tf.Tensor, *, ready: int, most: int) -> tf.data.Dataset:
    """Examples from memory.

    Args:
        rows: dataset of row numbers `(batch,)`.
        data: tensors from `arrays`.
        labels: `(examples,)` int64.
        ready: batches kept ready.
        most: batches gathered by one call at most.

    Returns:
        Dataset of `(examples, labels)`.
    """

    @tf.autograph.experimental.do_not_convert
    def take(rows):
        return tf.nest.map_structure(lambda part: tf.gather(part, rows), data), tf.gather(labels, rows)

    together = min(most, _batches_at_once(data, rows.element_spec.shape[0]))
    examples = rows.batch(together).map(take).unbatch() if together > 1 else rows.map(take)
    return examples.prefetch(ready)


def _batches_at_once(data, batch_size):
    """How many batches to gather by one call: more than one where batches are small."""
    sizes = [batch_size * part.dtype.size * math.prod(part.shape[1:]) for part in tf.nest.flatten(data)]
    if 0 in sizes:
        return 1  # Strings, whose size is not known, and empty rows, which `unbatch` cannot take apart.
    return max(1, min(_TOGETHER, _GATHERED // sum(sizes)))


def loaded(
    rows: tf.data.Dataset,
    data: Any,
    load: Callable[..., Any] | None,
    labels: np.ndarray,
    *,
    undecodable: str | Callable[[int], None],
    ready: int,
) -> tf.data.Dataset:
    """Examples that are read and loaded, whole batches of them, in order.

    `ready` streams take turns. Each loads its next batch as soon as its last one is taken, so no more than `ready`
    batches are ever loaded ahead.

    Args:
        rows: dataset of row numbers `(batch,)`.
        data: a source, or arrays: the keys.
        load: function of one record or key that returns one example, or None: records are examples.
        labels: `(examples,)` int64.
        undecodable: "error", "skip" or a function of a row, as in `Sampler.batches`.
        ready: batches loaded ahead, at least 1.

    Returns:
        Dataset of `(examples, labels)`.

    Raises:
        ValueError: data of another length than labels, or neither arrays nor a source.
    """
    if is_source(data):
        _require_length(data, len(labels))
        records, keys = source_records(data, fixed=load is None), ()
    else:
        keys = arrays(data, len(labels))
        records = array_records(keys)
    labels = on_host(labels)
    load = tf.function((lambda record: record) if load is None else load)
    others = None if undecodable == "error" else others_of_class(labels, undecodable if callable(undecodable) else None)

    def name(row):
        about = [tf.gather(part, row) for part in [labels, *tf.nest.flatten(keys)]]
        return tf.strings.format(f"row {{}} (label {', key '.join(['{}'] * len(about))})", [row, *about])

    def one_by_one(rows, places, shapes):
        def first_that_loads(place):
            return _first_that_loads(rows[place], records, load, name, others and others(rows, place))

        found = tf.data.Dataset.from_tensor_slices(places)
        found = found.interleave(first_that_loads, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return found.scan(shapes, _require_same_shapes(name)).batch(rows.shape[0])

    def whole_batch(rows):
        found = _all_that_load(rows, records, load).flat_map(_completed(rows, one_by_one))
        found = found.concatenate(one_by_one(rows, tf.range(rows.shape[0]), "")).take(1)
        return tf.data.Dataset.zip(found, tf.data.Dataset.from_tensors(tf.gather(labels, rows))).map(_of_one_size)

    @tf.autograph.experimental.do_not_convert
    def stream(turn):
        return rows.shard(ready, turn).flat_map(whole_batch).prefetch(1)

    return tf.data.Dataset.range(ready).interleave(stream, cycle_length=ready)


def _all_that_load(rows, records, load):
    """Dataset of one `(places, examples)`, of the rows that can be loaded; of none where they have different shapes."""
    numbered = tf.data.Dataset.zip(tf.data.Dataset.range(rows.shape[0], output_type=tf.int32), records(rows))

    def place_and_load(place, record):
        return place, load(*record)

    found = numbered.map(place_and_load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return found.ignore_errors().batch(rows.shape[0]).ignore_errors()


def _completed(rows, one_by_one):
    """Function of `_all_that_load`'s places and examples: dataset of the whole batch, the missing ones put in."""

    def completed(places, examples):
        missing = tf.sets.difference(tf.range(rows.shape[0])[None], places[None]).values
        shapes = _shapes(tf.nest.map_structure(lambda part: part[0], examples))
        rest = tf.data.Dataset.zip((one_by_one(rows, missing, shapes),))

        def put_in(rest):
            return tf.nest.map_structure(lambda *parts: tf.dynamic_stitch([places, missing], parts), examples, rest)

        all_there = tf.cast(tf.size(missing) == 0, tf.int64)
        return tf.data.Dataset.from_tensors(examples).take(all_there).concatenate(rest.map(put_in))

    return completed


def _of_one_size(examples, labels):
    """The same, with the number of rows in the shapes of the graph."""
    size = labels.shape[0]
    return tf.nest.map_structure(lambda part: tf.ensure_shape(part, [size, *part.shape[1:]]), examples), labels


def _require_length(source, length):
    if len(source) != length:
        raise ValueError(f"Received a source of {len(source)} rows and {length} labels. Expected one label a row.")


def _first_that_loads(row, records, load, name, instead):
    """Dataset of one `(row, example)`: of `row`, or of the first row of the dataset `instead` that can be loaded."""

    def example(row):
        return tf.data.Dataset.zip(tf.data.Dataset.from_tensors(row), records(row[None]).map(load))

    def give_up(row):
        then = ", which cannot be loaded; the log says why. Repair it, leave it out, or pass undecodable='skip'."
        if instead is not None:
            then = ", and no example of its class can be loaded; the log says why. Leave the class out."
        with tf.control_dependencies([tf.debugging.Assert(row < 0, [tf.strings.join(["Received ", name(row), then])])]):
            return tf.constant(True)

    own = tf.data.Dataset.from_tensors(row)
    tries = own if instead is None else own.concatenate(instead)
    found = tries.flat_map(example).ignore_errors(log_warning=True)
    return found.concatenate(own.filter(give_up).flat_map(example)).take(1)


def _shapes(example):
    return tf.strings.join([tf.strings.format("{}", tf.shape(part)) for part in tf.nest.flatten(example)], " ")


def _require_same_shapes(name):
    """A function for `scan` that lets examples of one shape pass and names the first of another one."""

    def check(expected, numbered):
        row, example = numbered
        shapes = _shapes(example)
        expected = tf.where(expected == "", shapes, expected)
        text = ["Received examples of shape ", expected, " and ", shapes, ", the latter from ", name(row)]
        text += [". Expected one shape: resize or crop in load."]
        with tf.control_dependencies([tf.debugging.Assert(expected == shapes, [tf.strings.join(text)])]):
            return expected, tf.nest.map_structure(tf.identity, example)

    return check


def array_records(data: Any) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """The records of arrays, as `loaded` takes them.

    Args:
        data: tensors from `arrays`, the keys of the examples.

    Returns:
        Function of rows `(n,)` that returns the dataset of their n records.
    """

    def records(rows):
        return tf.data.Dataset.from_tensor_slices((tf.nest.map_structure(lambda part: tf.gather(part, rows), data),))

    return records


def source_records(source: Any, *, fixed: bool) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """The records of a source, as `loaded` takes them, read by one call of Python for all rows.

    Args:
        source: object with `len(source)` and `source[row]`, or `source.__getitems__(rows)` for many at once. A record
            is an array, a number or text, or a tuple or dict of these; the first one says which.
        fixed: whether all records have the shapes of the first, and not only as many axes.

    Returns:
        Function of rows `(n,)` that returns the dataset of their n records.
    """
    first = source[0]
    examples = [np.asarray(part) for part in tf.nest.flatten(first)]
    types = [tf.string if part.dtype.kind in "OSU" else tf.as_dtype(part.dtype) for part in examples]
    shapes = [tf.TensorShape(part.shape if fixed else [None] * part.ndim) for part in examples]
    lock = threading.Lock()  # Several batches are read at a time, and few sources can do that.

    def read(rows):
        with lock:
            rows = rows.tolist()
            found = source.__getitems__(rows) if hasattr(source, "__getitems__") else [source[row] for row in rows]
        parts = []
        for row, record in zip(rows, found, strict=True):
            record = tf.nest.flatten(record)
            if len(record) != len(types):
                raise ValueError(f"Received a record of {len(record)} parts in row {row}, and {len(types)} in row 0.")
            parts += [np.asarray(part, dtype.as_numpy_dtype) for part, dtype in zip(record, types, strict=True)]
        return parts

    def pack(rows):
        parts = tf.numpy_function(read, [rows], types * rows.shape[0])
        records = [parts[i : i + len(types)] for i in range(0, len(parts), len(types))]
        return tf.stack([tf.raw_ops.OptionalFromValue(components=record) for record in records])

    def unpack(record):
        parts = tf.raw_ops.OptionalGetValue(optional=record, output_types=types, output_shapes=shapes)
        return (tf.nest.pack_sequence_as(first, parts),)

    def records(rows):
        return tf.data.Dataset.from_tensors(rows).map(pack).unbatch().map(unpack)

    return records


def others_of_class(
    labels: tf.Tensor, skipped: Callable[[int], None] | None
) -> Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]:
    """What to try in the place of a row that cannot be loaded.

    Args:
        labels: `(examples,)` int64.
        skipped: function that is called with each row that is passed over, or None.

    Returns:
        Function of `(rows, place)` that returns a dataset: the other rows of the class of `rows[place]` in a random
        order, which depends on the batch and the place alone, those that are in the batch already last.
    """
    table = tf.nest.map_structure(on_host, class_table(labels.numpy()))

    @tf.function(autograph=False)
    def order(rows, place):
        which = tf.searchsorted(table.ids, tf.gather(labels, rows[place])[None])[0]
        members = table.rows[table.starts[which] :][: table.counts[which]]
        weights = tf.range(1, rows.shape[0] + 1, dtype=tf.int64)
        seed = tf.stack([tf.reduce_sum(rows * weights), tf.cast(place, tf.int64)])
        words = tf.random.stateless_uniform(tf.shape(members), seed, 0, 2**62, tf.int64)
        words += tf.where(tf.reduce_any(members[:, None] == rows, axis=1), tf.constant(2**62, tf.int64), 0)
        words = tf.where(members == rows[place], INT64.max, words)
        return tf.gather(members, tf.argsort(words))[:-1]

    def pass_over(row, failed):
        def say(row, failed):
            skipped(int(failed))
            return row

        return tf.ensure_shape(tf.numpy_function(say, [row, failed], tf.int64), ())

    def instead(rows, place):
        def others(place):
            others = order(rows, place)
            failed = tf.concat([rows[place][None], others[:-1]], axis=0)
            return tf.data.Dataset.from_tensor_slices((others, failed))

        pairs = tf.data.Dataset.from_tensors(place).flat_map(others)
        return pairs.map(pass_over if skipped is not None else lambda row, failed: row)

    return instead
