"""The batches of samplers for PyTorch and for grain."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from absl import flags

from tfdml._core.checks import require, require_whole
from tfdml._core.optional import has_tensorflow, optional_import, tf
from tfdml.samplers.base import Sampler
from tfdml.samplers.streams.batch_source import BatchSource, batch_parts, require_divided_once
from tfdml.samplers.streams.index_batches import IndexBatches


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


def torch_batches(sampler: Sampler, labels: npt.ArrayLike, *, batches: int, start: int = 0, **options: Any) -> Any:
    """The batches of `Sampler.index_batches` as a batch sampler of PyTorch, for `DataLoader(..., batch_sampler=)`.

    Options: as of `index_batches`. It yields lists of row numbers; each iteration is an epoch of `batches` batches, its
    length, and continues after the last one. Its `start` is the number of the first batch of the next epoch.

    Example:

        >>> labels = np.repeat(np.arange(4), 3)
        >>> sampler = tfdml.samplers.GroupSampler(classes_per_batch=2, examples_per_class=2, seed=0)
        >>> epoch = tfdml.samplers.torch_batches(sampler, labels, batches=2)
        >>> list(epoch), epoch.start
        ([[6, 7, 5, 3], [10, 11, 6, 8]], 2)
    """
    require_whole("batches", batches, 1)
    require_whole("start", start, 0)
    return TorchBatches(sampler.index_batches(labels, **options), batches, start)


def grain_batches(
    sampler: Sampler,
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
    expected = "another sampler, or grain.MapDataset.source(sampler.index_batches(...)).map(...)"
    received = f"{type(sampler).__name__}, whose batches have another form than examples and labels of one set"
    require(type(sampler).batches is Sampler.batches, received, expected)
    require_divided_once(options.get("num_parts", 1) * options.get("num_shards", 1), is_tf_data=False)
    batches = BatchSource(*batch_parts(sampler, data, labels, load, augment, **options))
    reads = grain.ReadOptions(num_threads=2, prefetch_buffer_size=prefetch)
    dataset = grain.MapDataset.source(batches).to_iter_dataset(reads)
    if workers > 0:
        if not flags.FLAGS.is_parsed():  # grain reads flags, which only programs of absl parse
            flags.FLAGS.mark_as_parsed()
        processes = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=prefetch)
        dataset = dataset.mp_prefetch(processes, worker_init_fn=_without_gpu)
    dataset.is_endless = True  # `fit` then asks for steps_per_epoch
    return dataset


def _is_refreshed(sampler):
    """Whether callbacks change what a sampler draws, or one that it draws with."""
    values = [value for field in vars(sampler).values() for value in (field if isinstance(field, tuple) else (field,))]
    inner = [value for value in values if hasattr(value, "index_batches")]
    return any(hasattr(value, "refresh") for value in values) or any(map(_is_refreshed, inner))


def _without_gpu(worker, workers):
    """In a worker process, leave the memory of the GPUs to the process that trains."""
    if has_tensorflow():
        tf.config.set_visible_devices([], "GPU")
