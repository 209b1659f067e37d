"""Batches of examples for `fit`: a source of batches by their number, read by `tf.data` or by Keras alone."""

import functools
import mmap
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, labeled_part, labels_of, require
from tfdml._core.optional import has_tensorflow, tf
from tfdml.datasets import streams
from tfdml.datasets.rows import RowLoader, is_source
from tfdml.pairs.pairings import require_ids_that_fit
from tfdml.samplers.streams.index_batches import IndexBatches

_THREADS = 2  # of one stream of batches


class Loading(NamedTuple):
    """How the examples of row numbers are loaded, as the options of `Sampler.batches` say."""

    data: Any
    load: Callable[..., Any] | None
    labels: np.ndarray
    augment: Callable[..., Any] | None
    on_error: Any = "error"


class BatchSource:
    """Batches `(examples, labels)` of `Sampler.batches` by their number; a pickled copy opens memory maps itself."""

    def __init__(self, indices: IndexBatches, loading: Loading) -> None:
        self.indices, self.loading, self._loader = indices, loading, RowLoader(*loading)

    def __reduce__(self) -> tuple[Any, ...]:
        data = self.loading.data
        data = data if is_source(data) else keras.tree.map_structure(_by_file, data)
        return _reopened, (self.indices, self.loading._replace(data=data))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, t: int) -> tuple[Any, np.ndarray]:
        seeds = None if self.loading.augment is None else self.indices.augmentation_seeds([t])[0]
        return self._loader.batch(self.indices[t], seeds)


def batch_parts(
    sampler: Any,
    data: Any,
    labels: npt.ArrayLike | None,
    load: Callable[..., Any] | None,
    augment: Callable[..., Any] | None,
    on_error: Any = "error",
    **shard: int,
) -> tuple[IndexBatches, Loading]:
    """The row numbers of `Sampler.batches`, and how to load their examples, with its errors."""
    if labels is None:
        labels_of(data, labels)
        data = labeled_part(data, "batches")
        if hasattr(load, "boxes"):  # `load` decides whether it takes boxes.
            data = replace(data, load=load)
        data, labels, load = data.keys, data.labels, load or data.load
    indices = sampler.index_batches(labels, **shard)
    ids = as_ids(labels, "labels")
    require_ids_that_fit(ids)
    return indices, Loading(data, load, ids, augment, on_error)


def tf_batches(indices: IndexBatches, loading: Loading, prefetch: int) -> Any:
    """The batches of a source as an endless `tf.data.Dataset`, loaded in its graph."""
    data, load, labels, augment, on_error = loading
    if load is None and augment is None and not is_source(data):
        rows, data = tf_rows(indices), streams.arrays(data, len(labels))
        most = indices.block_size
        batches = streams.gathered(rows, data, streams.on_host(labels), prefetch=prefetch, max_batches=most)
    else:
        rows = tf_rows(indices, with_seeds=augment is not None)
        options = {"augment": augment, "on_error": on_error, "prefetch": prefetch}
        batches = streams.loaded(rows, data, load, labels, **options)
    return batches.with_options(streams.stream_options())


def tf_rows(indices: IndexBatches, *, with_seeds: bool = False) -> Any:
    """Row numbers `(rows,)`, and seeds `(rows, 2)` if wanted, as an endless `tf.data.Dataset`."""
    block = indices.block_size

    def drawn(first):
        rows = indices.drawn(int(first))
        return [rows, indices.augmentation_seeds(first + np.arange(block))] if with_seeds else rows

    @tf.autograph.experimental.do_not_convert
    def draw(first):
        shape = block, indices.rows
        if not with_seeds:
            return tf.ensure_shape(tf.numpy_function(drawn, [first], tf.int64), shape)
        rows, seeds = tf.numpy_function(drawn, [first], [tf.int64, tf.int64])
        return tf.ensure_shape(rows, shape), tf.ensure_shape(seeds, (*shape, 2))

    blocks = tf.data.Dataset.counter(0, block).map(draw)
    return blocks.prefetch(1).unbatch()  # In another thread than the one that gathers.


class KerasBatches(keras.utils.PyDataset):
    """Endless batches by their number for `fit` without TensorFlow; two threads load the next ones ahead.

    The threads are ours, because the workers of Keras drop the batches that they have loaded at the end of an epoch.
    """

    is_endless = True  # `fit` then asks for steps_per_epoch
    num_batches = None

    def __init__(self, source: Any, prefetch: int) -> None:
        super().__init__(workers=0)
        self.source, self.prefetch = source, prefetch
        self._threads = ThreadPoolExecutor(_THREADS)
        self._loaded: dict[int, Future[Any]] = {}

    def __getitem__(self, t: int) -> Any:
        if t not in self._loaded:
            self._loaded.clear()
        for ahead in range(t, t + self.prefetch):
            if ahead not in self._loaded:
                self._loaded[ahead] = self._threads.submit(self.source.__getitem__, ahead)
        return self._loaded.pop(t).result()


def zipped(function: Callable[..., Any], *streams_of_batches: Any) -> Any:
    """The stream of a function of the batches of several streams."""
    if has_tensorflow():
        return tf.data.Dataset.zip(streams_of_batches).map(function)
    sources = tuple(getattr(stream, "source", stream) for stream in streams_of_batches)  # the threads are those of one
    return KerasBatches(_Zipped(function, sources), streams_of_batches[0].prefetch)


@dataclass(frozen=True)
class _Zipped:
    function: Callable[..., Any]
    streams: tuple[Any, ...]

    def __getitem__(self, t):
        return self.function(*(stream[t] for stream in self.streams))


def require_divided_once(divisions: int, *, is_tf_data: bool = True) -> None:
    """Raise a ValueError if processes of one run would see parts of parts, or all of them the same whole batch."""
    distribution = keras.distribution.distribution()
    processes = 1 if distribution is None else min(distribution.num_processes, distribution.num_model_replicas)
    if processes == 1:
        return
    require(
        not distribution.auto_shard_dataset or (divisions == 1 and is_tf_data),
        f"{'parts of batches' if is_tf_data else 'batches without tf.data'} with auto_shard_dataset=True",
        f"{type(distribution).__name__}(auto_shard_dataset=False), since Keras divides whole batches of tf.data alone",
    )
    require(
        distribution.auto_shard_dataset or divisions > 1,
        f"num_parts=1 with auto_shard_dataset=False, with which all {processes} processes would train on the same rows",
        f"num_parts={processes} and part_index, the number of the process",
    )


def _by_file(array):
    """A memory map as its file, type, offset and shape; any other array unchanged."""
    if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap):
        return functools.partial(np.memmap, array.filename, array.dtype, "r", array.offset, array.shape)
    return array


def _reopened(indices, loading):
    data = keras.tree.map_structure(lambda array: array() if callable(array) else array, loading.data)
    return BatchSource(indices, loading._replace(data=data))
