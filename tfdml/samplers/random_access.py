"""Batches by their number, for grain, worker processes, and loops of one's own."""

import functools
import mmap
import threading
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from absl import flags

from tfdml._core.checks import INT64, require, require_steps, require_whole
from tfdml._core.optional import optional_import
from tfdml.datasets import streams
from tfdml.samplers.draws import augmentation_seeds

_THREADS = 2  # of a process, each with a batch of its own
_BLOCKS_IN_MEMORY = 4  # of drawn steps: threads ask for batches of two blocks at the same time


class IndexSource:
    """The result of `Sampler.index_source`. It can be pickled: another process draws the same batches."""

    def __init__(
        self,
        sampler: Any,
        labels: npt.ArrayLike,
        *,
        start: int = 0,
        num_shards: int = 1,
        shard_index: int = 0,
        num_parts: int = 1,
        part_index: int = 0,
    ) -> None:
        require_whole("start", start, 0)
        require_whole("num_shards", num_shards, 1)
        require_whole("shard_index", shard_index, 0, num_shards - 1)
        self.sampler, self.labels = sampler, labels
        self.options = {"start": start, "num_shards": num_shards, "shard_index": shard_index}
        self.options |= {"num_parts": num_parts, "part_index": part_index}
        self._part = part_of_batch(sampler.batch_size, num_parts, part_index)
        self._table = sampler.prepare(labels)
        self._block = sampler.block_steps(self._table)
        require_steps(start, 2 * num_shards, self._block)  # so that the length is above 0
        self._drawn, self._lock = functools.lru_cache(_BLOCKS_IN_MEMORY)(self._draw), threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(IndexSource, **self.options), (self.sampler, self.labels)

    def __len__(self) -> int:
        return INT64.max // (2 * self.options["num_shards"]) - self._block - self.options["start"]

    def __getitem__(self, t: int) -> Any:
        """The row numbers of batch `start + t`; a structure of them where the sampler draws from several sets."""
        require_whole("t", t, 0, len(self) - 1)
        block, row = divmod(self.options["start"] + int(t), self._block)
        return tf.nest.map_structure(lambda rows: rows[row][self._part], self._drawn(block))

    def step(self, t: int) -> int:
        """The step of the sampler for batch t."""
        return (self.options["start"] + t) * self.options["num_shards"] + self.options["shard_index"]

    def _draw(self, block):
        """The batches of a block of steps, as arrays `(block, batch)`."""
        steps = np.arange(block * self._block, (block + 1) * self._block)
        numbers = tf.constant(steps * self.options["num_shards"] + self.options["shard_index"], tf.int64)
        with self._lock:  # two threads would compile the draw twice
            return tf.nest.map_structure(lambda rows: rows.numpy(), self._graph(numbers))

    @functools.cached_property
    def _graph(self):
        """The draw of a block, compiled when the first batch is asked for."""
        table = tf.nest.map_structure(streams.on_host, self._table)
        return tf.function(tf.autograph.experimental.do_not_convert(lambda steps: self.sampler.draw(table, steps)))


class BatchSource:
    """Batches `(examples, labels)` of `Sampler.batches` by their number; functions may take NumPy arrays."""

    def __init__(
        self,
        indices: IndexSource,
        data: Any,
        labels: np.ndarray,
        load: Callable[..., Any] | None,
        augment: Callable[..., Any] | None,
    ) -> None:
        self.indices, self.labels, self.load, self.augment = indices, labels, load, augment
        self.data = data if streams.is_source(data) else _arrays(data, len(labels))

    def __reduce__(self) -> tuple[Any, ...]:
        data = self.data if streams.is_source(self.data) else tf.nest.map_structure(_by_file, self.data)
        return _reopened, (self.indices, data, self.labels, self.load, self.augment)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, t: int) -> tuple[Any, np.ndarray]:
        rows = self.indices[t]
        if streams.is_source(self.data) or self.load or self.augment:
            examples = [self._example(*one) for one in zip(rows, self._seeds(t), strict=True)]
            return tf.nest.map_structure(lambda *arrays: np.stack(arrays), *examples), self.labels[rows]
        return tf.nest.map_structure(lambda array: array[rows], self.data), self.labels[rows]

    def _example(self, row, seed):
        try:
            is_source = streams.is_source(self.data)
            example = self.data[row] if is_source else tf.nest.map_structure(lambda array: array[row], self.data)
            example = example if self.load is None else self.load(example)
            example = example if self.augment is None else self.augment(example, seed)
        except Exception as error:
            raise ValueError(
                f"Received row {row}, which cannot be loaded ({error}). Repair it or leave it out."
            ) from error
        return tf.nest.map_structure(np.asarray, example)

    def _seeds(self, t):
        sampler = self.indices.sampler
        if self.augment is None:
            return [None] * len(self.indices[t])
        seeds = augmentation_seeds(sampler.seed, tf.constant(self.indices.step(t), tf.int64), sampler.batch_size)
        return seeds.numpy()[self.indices._part]


def grain_dataset(batches: BatchSource, *, workers: int, prefetch: int) -> Any:
    """A `grain.IterDataset` of batches in their order, made by worker processes, or else by threads of this one."""
    require_whole("workers", workers, 0)
    require_whole("prefetch", prefetch, 1)
    require(
        workers == 0 or not _is_refreshed(batches.indices.sampler),
        f"workers={workers} for {type(batches.indices.sampler).__name__}, whose batches follow the model in training",
        "workers=0, since another process does not see the changes",
    )
    grain = optional_import("grain", feature="grain_batches", extra="grain")
    dataset = grain.MapDataset.source(batches).to_iter_dataset(
        grain.ReadOptions(num_threads=2, prefetch_buffer_size=prefetch)
    )
    if workers > 0:
        if not flags.FLAGS.is_parsed():  # grain reads flags, which only programs of absl parse
            flags.FLAGS.mark_as_parsed()
        options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=prefetch)
        dataset = dataset.mp_prefetch(options, worker_init_fn=_without_gpu)
    dataset.is_endless = True  # `fit` then asks for steps_per_epoch
    return dataset


def part_of_batch(batch_size: int, num_parts: int, part_index: int) -> slice:
    """The rows of one of several equal parts of a batch."""
    require_whole("num_parts", num_parts, 1)
    require_whole("part_index", part_index, 0, num_parts - 1)
    received = f"num_parts={num_parts} for batches of {batch_size} rows"
    require(batch_size % num_parts == 0, received, "a number of parts that divides the rows")
    size = batch_size // num_parts
    return slice(part_index * size, (part_index + 1) * size)


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
    tf.config.set_visible_devices([], "GPU")


def _arrays(data, length):
    """The data as arrays; with the checks of `Sampler.batches`."""
    streams.arrays(data, length)
    return tf.nest.map_structure(lambda array: array if isinstance(array, np.memmap) else np.asarray(array), data)


def _by_file(array):
    """A memory map as its file, type, offset and shape; any other array unchanged."""
    if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap):
        return functools.partial(np.memmap, array.filename, array.dtype, "r", array.offset, array.shape)
    return array


def _reopened(indices, data, labels, load, augment):
    opened = tf.nest.map_structure(lambda array: array() if callable(array) else array, data)
    return BatchSource(indices, opened, labels, load, augment)
