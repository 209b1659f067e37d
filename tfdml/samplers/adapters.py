"""The batches of samplers for `fit`, with and without TensorFlow, for PyTorch, and for grain."""

import functools
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import numpy.typing as npt
from absl import flags

from tfdml._core.checks import as_ids, labeled_part, labels_of, require, require_whole
from tfdml._core.optional import has_tensorflow, optional_import, tf
from tfdml.datasets import streams
from tfdml.datasets.rows import RowLoader
from tfdml.pairs.pairings import require_ids_that_fit
from tfdml.samplers.draws import augmentation_seeds
from tfdml.samplers.index_batches import IndexBatches

if TYPE_CHECKING:
    from tfdml.samplers.base import Sampler


@dataclass(frozen=True, eq=False)
class BatchSource:
    """Batches `(examples, labels)` of `Sampler.batches` by their number; a pickled copy opens memory maps itself."""

    indices: IndexBatches
    data: Any
    labels: np.ndarray
    load: Callable[..., Any] | None = None
    augment: Callable[..., Any] | None = None
    on_error: Any = "error"

    def __reduce__(self) -> tuple[Any, ...]:
        data = self.data if streams.is_source(self.data) else keras.tree.map_structure(_by_file, self.data)
        return _reopened, (self.indices, data, self.labels, self.load, self.augment, self.on_error)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, t: int) -> tuple[Any, np.ndarray]:
        seeds = None if self.augment is None else self.seeds(self.indices.place.steps([t]))[0]
        return self.loader.batch(self.indices[t], seeds)

    def seeds(self, steps: np.ndarray) -> np.ndarray:
        """The seeds of augmentation for the rows of these steps, int64 `(block, rows, 2)`."""
        sampler = self.indices.sampler
        part = self.indices.place.rows(sampler.batch_size)
        return augmentation_seeds(sampler.seed, steps, sampler.batch_size)[:, part]

    @functools.cached_property
    def loader(self) -> RowLoader:
        """What loads the rows of a batch; a ValueError for data that do not fit the labels."""
        return RowLoader(self.data, self.load, self.labels, self.augment, self.on_error)


def batch_source(
    sampler: "Sampler", data: Any, labels: npt.ArrayLike | None, *, is_tf_data: bool = True, **options: Any
) -> BatchSource:
    """The `BatchSource` of `Sampler.batches`, with its options and its errors."""
    loading = {name: options.pop(name) for name in ("load", "augment", "on_error") if name in options}
    require_divided_once(options.get("num_parts", 1) * options.get("num_shards", 1), is_tf_data=is_tf_data)
    if labels is None:
        labels_of(data, labels)
        data = labeled_part(data, "batches")
        if hasattr(loading["load"], "boxes"):  # `load` decides whether it takes boxes.
            data = replace(data, load=loading["load"])
        data, labels, loading["load"] = data.keys, data.labels, loading["load"] or data.load
    indices = sampler.index_batches(labels, **options)
    ids = as_ids(labels, "labels")
    require_ids_that_fit(ids)
    return BatchSource(indices, data, ids, **loading)


def tf_batches(source: BatchSource, prefetch: int) -> Any:
    """The batches of a source as an endless `tf.data.Dataset`, loaded in the graph."""
    data, labels = source.data, source.labels
    if source.load is None and source.augment is None and not streams.is_source(data):
        rows, data = tf_rows(source.indices), streams.arrays(data, len(labels))
        most = source.indices.block_size
        batches = streams.gathered(rows, data, streams.on_host(labels), prefetch=prefetch, max_batches=most)
    else:
        seeds = None if source.augment is None else source.seeds
        loading = {"augment": source.augment, "on_error": source.on_error, "prefetch": prefetch}
        batches = streams.loaded(tf_rows(source.indices, seeds), data, source.load, labels, **loading)
    return batches.with_options(streams.stream_options())


def tf_rows(indices: IndexBatches, seeds: Callable[[np.ndarray], np.ndarray] | None = None) -> Any:
    """Row numbers, and what a function of steps returns for them, as an endless `tf.data.Dataset`."""
    block = indices.block_size

    def drawn(first):
        rows = indices.drawn(int(first))
        return [rows] if seeds is None else [rows, seeds(indices.place.steps(first + np.arange(block)))]

    @tf.autograph.experimental.do_not_convert
    def draw(first):
        size = len(range(indices.sampler.batch_size)[indices.place.rows(indices.sampler.batch_size)])
        shapes = [(block, size), (block, size, 2)][: 1 if seeds is None else 2]
        arrays = tf.numpy_function(drawn, [first], [tf.int64] * len(shapes))
        shaped = tuple(tf.ensure_shape(array, shape) for array, shape in zip(arrays, shapes, strict=True))
        return shaped[0] if seeds is None else shaped

    blocks = tf.data.Dataset.counter(0, block).map(draw)
    return blocks.prefetch(1).unbatch()  # In another thread than the one that gathers.


class KerasBatches(keras.utils.PyDataset):
    """Endless batches by their number for `fit` without TensorFlow; two threads load up to `prefetch` ahead."""

    is_endless = True  # `fit` then asks for steps_per_epoch
    num_batches = None

    def __init__(self, source: Any, prefetch: int) -> None:
        super().__init__(workers=2, max_queue_size=prefetch)
        self.source = source

    def __getitem__(self, t: int) -> Any:
        return self.source[t]


def zipped(function: Callable[..., Any], *streams_of_batches: Any) -> Any:
    """The stream of a function of the batches of several streams."""
    if has_tensorflow():
        return tf.data.Dataset.zip(*streams_of_batches).map(function)
    return KerasBatches(_Zipped(function, streams_of_batches), streams_of_batches[0].max_queue_size)


@dataclass(frozen=True)
class _Zipped:
    function: Callable[..., Any]
    streams: tuple[Any, ...]

    def __getitem__(self, t):
        return self.function(*(stream[t] for stream in self.streams))


@dataclass
class TorchBatches:
    """Batches of row numbers for PyTorch, see `torch_batches`; each epoch adds its batches to `start`."""

    indices: IndexBatches
    batches: int
    start: int = 0

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        first = self.start
        self.start += self.batches
        return (self.indices[t].tolist() for t in range(first, first + self.batches))


def torch_batches(sampler: "Sampler", labels: npt.ArrayLike, *, batches: int, start: int = 0, **options: Any) -> Any:
    """The batches of `Sampler.index_batches` as a batch sampler of PyTorch, for `DataLoader(..., batch_sampler=)`.

    Options: as of `index_batches`. It yields lists of row numbers; each iteration is an epoch of `batches` batches, its
    length, and continues after the last one. Its `start` is the number of the first batch of the next epoch.
    """
    require_whole("batches", batches, 1)
    require_whole("start", start, 0)
    return TorchBatches(sampler.index_batches(labels, **options), batches, start)


def grain_batches(
    sampler: "Sampler",
    data: Any,
    labels: npt.ArrayLike | None = None,
    *,
    load: Callable[..., Any] | None = None,
    augment: Callable[..., Any] | None = None,
    workers: int = 0,
    prefetch: int = 4,
    **options: Any,
) -> Any:
    """The stream of `sampler.batches`, with the options of `index_batches`, as a data set of grain, made by workers.

    Each worker is a Python process with its own copy of arrays; it opens memory maps and files itself. Programs begin
    with `if __name__ == "__main__":`, because a worker imports them.

    Args:
        sampler: a sampler whose batches are examples and labels of one set.
        data, labels, load, augment: as in `Sampler.batches`. In workers, functions of Python run in parallel.
        workers: number of processes; 0 for two threads of this one.
        prefetch: maximum number of batches that each worker prepares ahead.

    Returns:
        An endless `grain.IterDataset` of `(examples, labels)`, for `fit(..., steps_per_epoch=, shuffle=False)`.

    Raises:
        ValueError: workers for a sampler whose batches follow the model in training, and the errors of `batches`.
    """
    require_whole("workers", workers, 0)
    require_whole("prefetch", prefetch, 1)
    received = f"workers={workers} for {type(sampler).__name__}, whose batches follow the model in training"
    require(workers == 0 or not _is_refreshed(sampler), received, "workers=0: another process does not see the changes")
    grain = optional_import("grain", feature="grain_batches", extra="grain")
    from tfdml.samplers.base import Sampler  # which imports this module

    expected = "another sampler, or grain.MapDataset.source(sampler.index_batches(...)).map(...)"
    received = f"{type(sampler).__name__}, whose batches have another form than examples and labels of one set"
    require(type(sampler).batches is Sampler.batches, received, expected)
    batches = batch_source(sampler, data, labels, load=load, augment=augment, is_tf_data=False, **options)
    require(batches.loader is not None)
    reads = grain.ReadOptions(num_threads=2, prefetch_buffer_size=prefetch)
    dataset = grain.MapDataset.source(batches).to_iter_dataset(reads)
    if workers > 0:
        if not flags.FLAGS.is_parsed():  # grain reads flags, which only programs of absl parse
            flags.FLAGS.mark_as_parsed()
        processes = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=prefetch)
        dataset = dataset.mp_prefetch(processes, worker_init_fn=_without_gpu)
    dataset.is_endless = True  # `fit` then asks for steps_per_epoch
    return dataset


def require_divided_once(divisions: int, *, is_tf_data: bool = True) -> None:
    """Raise a ValueError if processes of one run would see parts of parts, or all of them the same whole batch."""
    distribution = keras.distribution.distribution()
    processes = 1 if distribution is None else min(distribution.num_processes, distribution.num_model_replicas)
    if processes == 1:
        return
    require(
        not distribution.auto_shard_dataset or (divisions == 1 and is_tf_data),
        f"{'parts of batches' if is_tf_data else 'batches of grain'} with auto_shard_dataset=True",
        f"{type(distribution).__name__}(auto_shard_dataset=False), since Keras divides whole batches of tf.data alone",
    )
    require(
        distribution.auto_shard_dataset or divisions > 1,
        f"num_parts=1 with auto_shard_dataset=False, with which all {processes} processes would train on the same rows",
        f"num_parts={processes} and part_index, the number of the process",
    )


def _is_refreshed(sampler):
    """Whether callbacks change what a sampler draws, or one that it draws with."""
    values = [value for field in vars(sampler).values() for value in (field if isinstance(field, tuple) else (field,))]
    inner = [value for value in values if hasattr(value, "index_batches")]
    return any(hasattr(value, "refresh") for value in values) or any(map(_is_refreshed, inner))


def _without_gpu(worker, workers):
    """In a worker process, leave the memory of the GPUs to the process that trains."""
    if has_tensorflow():
        tf.config.set_visible_devices([], "GPU")


def _by_file(array):
    """A memory map as its file, type, offset and shape; any other array unchanged."""
    if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap):
        return functools.partial(np.memmap, array.filename, array.dtype, "r", array.offset, array.shape)
    return array


def _reopened(indices, data, *loading):
    opened = keras.tree.map_structure(lambda array: array() if callable(array) else array, data)
    return BatchSource(indices, opened, *loading)
