"""Embeddings of a whole set, computed one batch at a time."""

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from tfdml._core.checks import as_readable, counted, is_labeled_set, named_rows, require, require_whole
from tfdml._core.checksums import fingerprint
from tfdml._core.optional import tf
from tfdml._core.terminal import show_progress
from tfdml.embedding.vectors import Vectors, with_model
from tfdml.typing import Embedder, Examples

_BATCHES_PER_BLOCK = 16
_PATIENCE = 5.0  # seconds without a progress bar

Problem = tuple[int, str, str]


def embed(model: Embedder, data: Examples, *, batch_size: int = 256) -> Vectors:
    """Embeddings of all examples of a set.

    See also: `write_embeddings` for sets whose embeddings exceed the memory.

    Example: a model that scales its input to norm 1.

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, keras.layers.UnitNormalization()(inputs))
        >>> tfdml.models.embed(model, np.array([[3.0, 4.0], [0.0, 2.0]])).round(4)
        array([[0.6, 0.8],
               [0. , 1. ]], dtype=float32)

    Args:
        model: model of one output `(batch, dim)`.
        data: a labeled set of `tfdml.datasets`, an array `(examples, ...)`, a finite `tf.data.Dataset` of batches, with
            or without labels, or anything else with a length that takes an array of row numbers in brackets and returns
            these examples: a memory map, an HDF5 dataset.
        batch_size: number of examples embedded at the same time.

    Returns:
        `(examples, dim)`, in the order of the set: a NumPy array with the `fingerprint` of the model and, if the set
        has one, of its preprocessing; None for a model without weights. Indexes refuse vectors of another model. Rows
        and stacks keep it, results of arithmetic do not. It takes the sha256 of the weights once per call.

    Raises:
        ValueError: a file that cannot be loaded, which it names with the reason. Files that are missing, cut or of
            another format are found before the first batch.
    """
    if hasattr(data, "require_whole_files"):
        data.require_whole_files()
    embeddings = np.asarray(embedder(data, batch_size)(model).embeddings)
    is_known = hasattr(model, "weights") or isinstance(getattr(model, "fingerprint", None), str)
    return with_model(embeddings, fingerprint(model, getattr(data, "load", None)) if is_known else None)


class Embedded(NamedTuple):
    """Embeddings `(n, dim)` and labels `(n,)` of examples; row numbers where they have no labels."""

    embeddings: np.ndarray
    labels: np.ndarray


def embedder(data: Any, batch_size: int, rows: np.ndarray | None = None) -> Callable[[Embedder], Embedded]:
    """Function of a model that embeds the same examples each time; a progress bar appears on a terminal after 5 s.

    `data` is as for `embed`, or a pair `(x, labels)` of arrays, or a finite `tf.data.Dataset` of batches `(x, labels)`;
    `rows` are ascending row numbers to embed, None for all. The `tf.data` set of a labeled set is built at the first
    call and read again later: each has a graph of many MiB.
    """
    require_whole("batch_size", batch_size, 1)
    batches = functools.cache(lambda: _batches(data, batch_size, rows))

    def embedded(model):
        is_model = callable(model) or hasattr(model, "predict_on_batch")
        require(is_model, f"a model of type {type(model).__name__}", "embed(model, data), a model first")
        draw, count = batches()
        with named_rows():
            return Embedded(*embed_batches(model, _with_progress(draw(), count)))

    return embedded


def _batches(data, batch_size, rows):
    """Function that returns the batches `(examples, labels or row numbers)`, and their number, below 0 if unknown."""
    if is_labeled_set(data):
        data = (data if rows is None else data.take(rows)).batches(batch_size)
        if not hasattr(data, "element_spec"):  # without TensorFlow
            return lambda: _drawn(data), len(data)
    if hasattr(data, "element_spec"):
        count = int(data.cardinality())
        require(count != -1, "an endless dataset", "a finite one of batches. End it with take(n)")
        return lambda: _drawn(data), count
    if isinstance(data, list) or hasattr(data, "iloc") or hasattr(data, "numpy"):  # brackets take something else
        data = np.asarray(as_readable(data))
    x, labels = data if isinstance(data, tuple) else (data, np.arange(len(data)))
    rows = np.arange(len(labels)) if rows is None else rows
    count = -(-len(rows) // batch_size)
    return lambda: ((x[batch], labels[batch]) for batch in _parts(rows, batch_size)), count


def _drawn(dataset):
    """The batches `(examples, labels)` of a dataset; the labels are 0 where it has none."""
    import keras

    for batch in dataset:
        x, labels, _ = keras.utils.unpack_x_y_sample_weight(batch)
        yield x, np.zeros(len(keras.tree.flatten(x)[0]), np.int64) if labels is None else labels


def _parts(rows, size):
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _with_progress(batches, count):
    begin = time.monotonic()
    for number, batch in enumerate(batches, start=1):
        yield batch
        if count > 0 and time.monotonic() - begin > _PATIENCE:
            show_progress("batches embedded", number, count)


def embed_blocks(
    model: Embedder, data: Examples, batch_size: int, start: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Embed a set, and leave out the rows of a labeled set that cannot be loaded. Progress is shown on a terminal.

    It yields finite embeddings `(n, dim)` float32 and row numbers `(n,)` of 16 batches, and nothing if no row can be
    loaded. `start` is the first row, a multiple of `rows_per_block(batch_size)`.
    """
    size = rows_per_block(batch_size)
    for _, batches in groupby(_loadable(data, batch_size, start), lambda batch: int(batch[1][0]) // size):
        embeddings, rows = embed_batches(model, batches)
        _require_finite(embeddings, rows)
        show_progress("examples embedded", int(rows[-1]) + 1, len(data))
        yield np.asarray(embeddings, np.float32), rows


def embed_loadable(
    model: Embedder, data: Examples, batch_size: int
) -> tuple[np.ndarray, np.ndarray, tuple[Problem, ...]]:
    """Embeddings `(n, dim)` and rows `(n,)` of the examples that can be loaded, and the others with reasons."""
    blocks = list(embed_blocks(model, data, batch_size))
    rows = np.concatenate([np.empty(0, np.int64), *(rows for _, rows in blocks)])
    skipped = problems(data, rows)
    return np.concatenate([embeddings for embeddings, _ in blocks]), rows, skipped


def rows_per_block(batch_size: int) -> int:
    """Number of rows of the blocks of `embed_blocks`."""
    require_whole("batch_size", batch_size, 1)
    return batch_size * _BATCHES_PER_BLOCK


def problems(data: Any, rows: np.ndarray) -> tuple[Problem, ...]:
    """Row, name and reason of the rows that are not among `rows`, the embedded ones; without any of these, an error."""
    skipped = not_loaded(data, np.setdiff1d(np.arange(len(data)), rows))
    if skipped and not len(rows):
        received = f"{counted(len(data), 'example')} and 0 that can be loaded (first {skipped[0][1]}: {skipped[0][2]})"
        raise ValueError(f"Received {received}, expected at least one. Check the files and the load of the set.")
    return skipped


def not_loaded(data: Any, rows: np.ndarray) -> tuple[Problem, ...]:
    """Row, name and reason of rows of a labeled set that failed to load."""
    if not len(rows):
        return ()
    reasons = {int(rows[row]): reason for row, _, reason in data.take(rows).unreadable_files()}
    names = data.names if data.names is not None else np.arange(len(data))
    other = "not loaded: another shape than the rest of its batch, or a temporary error"
    return tuple((row, str(names[row]), reasons.get(row, other)) for row in rows.tolist())


def _loadable(data, batch_size, start):
    """Batches `(examples, rows)`."""
    if is_labeled_set(data):
        return iter(data.loadable(batch_size, start))
    return ((data[rows], rows) for rows in _parts(np.arange(start, len(data)), batch_size))


def _require_finite(embeddings, rows):
    finite = np.isfinite(embeddings).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"Received a model that gives row {rows[finite.argmin()]} an embedding that is not finite, expected "
            "numbers. Look for a diverged model, or for examples with NaN."
        )


def embed_batches(model: Embedder, batches: Iterable[tuple[Any, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings `(examples, dim)` and labels `(examples,)` of batches of examples with their labels or rows."""
    results = [(_embed_batch(model, x, len(labels)), np.asarray(labels)) for x, labels in batches]
    if not results:
        raise ValueError("Received a set without examples, expected at least one. Check its filters and files.")
    embeddings, labels = zip(*results, strict=True)
    return np.concatenate(embeddings), np.concatenate(labels).reshape(-1)


def _trace(model, x):
    """Trace the compiled function of a network once for all sizes of batches, in place of once more for the last one.

    TensorFlow warns of retracing where several networks embed a few batches each.
    """
    import keras

    if model.run_eagerly or model.jit_compile or model.distribute_strategy.num_replicas_in_sync > 1:
        return
    model.make_predict_function()
    specs = keras.tree.map_structure(lambda array: tf.TensorSpec([None, *array.shape[1:]], array.dtype), x)
    model.predict_function.get_concrete_function([(specs,)])


def _embed_batch(model, x, size):
    """Embeddings `(size, dim)` of one batch.

    On several replicas `predict_on_batch` gives the whole batch to each replica and returns the rows of all of them.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        x = keras.tree.map_structure(np.asarray, x)  # other backends do not take the tensors of a tf.data set
    elif getattr(model, "predict_function", True) is None:
        _trace(model, x)
    embeddings = model.predict_on_batch(x)
    if getattr(embeddings, "ndim", None) != 2:
        shapes = keras.tree.map_structure(np.shape, embeddings)
        raise ValueError(
            f"Received a model of outputs {shapes}, expected one (batch, dim). Pass the part of it that embeds: "
            "keras.Model(model.input, model.output[...]), or one of model.towers."
        )
    return embeddings[:size]
