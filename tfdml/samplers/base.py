"""Base class of samplers: infinite streams of row numbers and examples that resume and shard."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdml._core.checks import (
    as_ids,
    labeled_part,
    labels_of,
    require,
    require_one_of,
    require_seed,
    require_steps,
    require_whole,
)
from tfdml.datasets import streams
from tfdml.importance import ImportanceWeights, PairProbabilities
from tfdml.pairs import all_pairs
from tfdml.pairs.pairings import require_ids_that_fit
from tfdml.samplers.class_table import drawable_classes
from tfdml.samplers.draws import augmentation_seeds
from tfdml.samplers.random_access import BatchSource, IndexSource, grain_dataset, part_of_batch, require_divided_once

_BLOCK = 64  # Steps drawn by one call of the graph, which spreads the overhead of an operation over many batches.


class Sampler:
    """A batch design: settings, a seed, and a pure function from a step to the rows of its batch.

    A sampler is a frozen dataclass that extends this class and defines `batch_size`, `prepare` and `draw`. The `seed`
    of a sampler is any int64.

    Example:

        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, kw_only=True)
        ... class InOrder(tfdml.samplers.Sampler):
        ...     batch_size: int
        ...     def prepare(self, labels):
        ...         return np.arange(len(labels))
        ...     def draw(self, table, steps):
        ...         return (steps[:, None] * self.batch_size + np.arange(self.batch_size)) % len(table)
        >>> [rows.numpy().tolist() for rows in InOrder(batch_size=3).index_batches([0, 0, 1, 1, 2], start=1).take(2)]
        [[3, 4, 0], [1, 2, 3]]

    Attributes:
        batch_size: rows in a batch.
        pairing: the function of `tfdml.pairs` that turns its batches into `Pairs`.
    """

    pairing = staticmethod(all_pairs)

    if TYPE_CHECKING:  # A property of some samplers, a field of others.

        @property
        def batch_size(self) -> int:
            """Rows in a batch."""

    def prepare(self, labels: npt.ArrayLike) -> Any:
        """Compute the argument `table` of `draw` from the labels; raise a ValueError if they do not fit."""
        raise NotImplementedError(f"{type(self).__name__} has no prepare(labels): what draw needs from the labels.")

    def draw(self, table: Any, steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` `(block,)` as row numbers `(block, batch)`; row i depends on (seed, steps[i]) only."""
        raise NotImplementedError(f"{type(self).__name__} has no draw(prepared, steps): row numbers (block, batch).")

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q: `tfdml.importance.PairProbabilities` of the pairs of a batch, over the examples that can be drawn.

        If Q has no closed form (ValueError), `tfdml.importance.simulated_probabilities` estimates it.
        """
        raise ValueError(
            f"Received {type(self).__name__}, whose pair probabilities have no closed form. Estimate them: "
            "tfdml.importance.ImportanceWeights(tfdml.importance.simulated_probabilities(sampler, labels))."
        )

    def importance(self, labels: npt.ArrayLike, delta: float = 1.0) -> ImportanceWeights:
        """The `tfdml.importance.ImportanceWeights` of labels `(examples,)`, for the option `importance=` of a loss.

        Classes that are not drawn do not count. A ValueError if Q has no closed form, or is 0 for some pair.
        """
        return ImportanceWeights(self.pair_probabilities(labels), delta)

    def block_steps(self, table: Any) -> int:
        """Number of steps drawn at once; it affects speed only, not the draws."""
        return _BLOCK

    def index_batches(
        self,
        labels: npt.ArrayLike,
        *,
        start: int = 0,
        num_shards: int = 1,
        shard_index: int = 0,
        num_parts: int = 1,
        part_index: int = 0,
    ) -> tf.data.Dataset:
        """Infinite stream of batches of row numbers.

        Args:
            labels: `(examples,)` or `(examples, 1)` integer class ids.
            start: first step; the stream is the one from step 0 without its first `start` batches.
            num_shards, shard_index: worker i of n takes the batches t * n + i of the stream of all workers, for
                t = start, start + 1, ... No two workers see the same batch.
            num_parts, part_index: process i of n takes rows i * batch / n to (i + 1) * batch / n - 1 of every batch.

        Returns:
            An infinite `tf.data.Dataset` of int64 `(batch,)`, or of `(batch / num_parts,)`.
        """
        rows, _ = self._rows_and_block(labels, start, num_shards, shard_index)
        rows = _part_of(rows, self.batch_size, num_parts, part_index)
        return rows.with_options(streams.stream_options())

    def torch_batches(self, labels: npt.ArrayLike, *, batches: int, start: int = 0, **options: Any) -> "TorchBatches":
        """The batches of `index_batches` as a batch sampler of PyTorch, for `DataLoader(..., batch_sampler=)`.

        Options: as of `index_batches`, but parts. It yields lists of row numbers; each iteration is an epoch of
        `batches` batches, its length, and continues after the last one. Its `start` is the step of the next epoch.
        """
        require_whole("batches", batches, 1)
        self.index_batches(labels, start=start, **options)  # its errors now, and not in the first epoch
        return TorchBatches(self, labels, batches, start, options)

    def _rows_and_block(self, labels, start, num_shards, shard_index):
        """The row numbers of `index_batches`, and the number of batches drawn at once."""
        require_whole("num_shards", num_shards, 1)
        require_whole("shard_index", shard_index, 0, num_shards - 1)
        require_whole("start", start, 0)
        table = tf.nest.map_structure(streams.on_host, self.prepare(labels))
        block = self.block_steps(table)
        require_steps(start, num_shards, block)
        stride = tf.range(block, dtype=tf.int64) * num_shards

        @tf.autograph.experimental.do_not_convert
        def draw(first):
            return self.draw(table, first + stride)

        firsts = tf.data.Dataset.counter(start * num_shards + shard_index, block * num_shards)
        drawn_ahead = firsts.map(draw).prefetch(1)  # In another thread than the one that gathers.
        _require_batches(drawn_ahead.element_spec, self)
        return drawn_ahead.unbatch(), block

    def index_source(self, labels: npt.ArrayLike, **options: Any) -> IndexSource:
        """The batches of `index_batches`, with its options, by number: `source[t]` is a function of (seed, t) alone.

        It is a source of grain, and gives the same batches in any other order or process.
        """
        return IndexSource(self, labels, **options)

    def grain_batches(
        self,
        data: Any,
        labels: npt.ArrayLike | None = None,
        *,
        load: Callable[..., Any] | None = None,
        augment: Callable[..., Any] | None = None,
        workers: int = 0,
        prefetch: int = 4,
        **options: Any,
    ) -> Any:
        """The stream of `batches`, with the options of `index_batches`, as a data set of grain, made by workers.

        Each worker is a Python process with its own TensorFlow and its own copy of arrays; it opens memory maps and
        files itself. Programs begin with `if __name__ == "__main__":`, because a worker imports them.

        Args:
            data, labels, load, augment: as in `batches`. In workers, functions of Python run in parallel.
            workers: number of processes; 0 for two threads of this one.
            prefetch: maximum number of batches that each worker prepares ahead.

        Returns:
            An endless `grain.IterDataset` of `(examples, labels)`, for `fit(..., steps_per_epoch=, shuffle=False)`.

        Raises:
            ValueError: workers for a sampler whose batches follow the model in training, and the errors of `batches`.
        """
        require(
            type(self).batches is Sampler.batches,
            f"{type(self).__name__}, whose batches have another form than examples and labels of one set",
            "another sampler, or a map of its row numbers: grain.MapDataset.source(sampler.index_source(...)).map(...)",
        )
        data, labels, load = _keys_labels_load(data, labels, load)
        ids = as_ids(labels, "labels")
        require_ids_that_fit(ids)
        require_divided_once(options.get("num_parts", 1) * options.get("num_shards", 1), is_tf_data=False)
        batches = BatchSource(self.index_source(labels, **options), data, ids, load, augment)
        return grain_dataset(batches, workers=workers, prefetch=prefetch)

    def batches(
        self,
        data: Any,
        labels: npt.ArrayLike | None = None,
        *,
        load: Callable[..., Any] | None = None,
        augment: Callable[..., Any] | None = None,
        on_error: Literal["error", "skip"] | Callable[[int], None] = "error",
        prefetch: int = 4,
        start: int = 0,
        num_shards: int = 1,
        shard_index: int = 0,
        num_parts: int = 1,
        part_index: int = 0,
    ) -> tf.data.Dataset:
        """Infinite stream of batches of examples and labels, in the order of `index_batches`.

        Args:
            data: a labeled set of `tfdml.datasets`, with its labels and its way to load an example. Examples without a
                label are left out, with a warning: row numbers refer to `data.labeled`. Or an array `(examples, ...)`,
                or a tuple or dict of such arrays; with `load`, the keys of the examples. Or any object with
                `len(source)` and `source[row]`, and perhaps `source.__getitems__(rows)`, that returns
                records: arrays, numbers, text, or tuples and dicts of these, all of one structure.
            labels: `(examples,)` or `(examples, 1)` integer class ids; left out where `data` is a labeled set.
            load: a TensorFlow function of one key or record that returns one example, all of one shape. Threads load
                rows in parallel; they arrive in order. None for the `load` of a labeled set, or for examples.
            augment: a TensorFlow function of one example and its seed, int64 `(2,)`, that returns one example. The seed
                is a function of the sampler's seed, the step and the row of the batch, so resumed runs and shards
                repeat a stateless function, such as `tfdml.datasets.RandomCrop`.
            on_error: what to do with a row that cannot be read or loaded: raise an error that names it ("error"), or
                replace it by another example of its class that can be loaded ("skip"). A function also skips, and gets
                the number of each skipped row.
            prefetch: maximum number of batches prepared ahead of the training step.
            start, num_shards, shard_index, num_parts, part_index: as in `index_batches`.

        Returns:
            An infinite `tf.data.Dataset` of `(examples, labels)`: arrays of examples with `batch` rows, and int64
            labels `(batch,)`; in parts, the rows of its part.

        Raises:
            ValueError: class ids that the Keras backend cannot hold, NaN or masked entries, parts that
                `keras.distribution` would divide once more, or whole batches where it divides none.
        """
        data, labels, load = _keys_labels_load(data, labels, load)
        require(load is None or callable(load), f"load={load!r}", "a TensorFlow function of one key, or None")
        expected = "a function of one example and a seed, or None"
        require(augment is None or callable(augment), f"augment={augment!r}", expected)
        is_policy = on_error in ("error", "skip") or callable(on_error)
        require(is_policy, f"on_error={on_error!r}", "'error', 'skip' or a function of a row")
        require_whole("prefetch", prefetch, 1)
        require_divided_once(num_parts * num_shards)
        rows, block = self._rows_and_block(labels, start, num_shards, shard_index)
        labels = as_ids(labels, "labels")
        require_ids_that_fit(labels)
        if augment is not None:
            steps = tf.data.Dataset.counter(start * num_shards + shard_index, num_shards)
            seed, size = self.seed, self.batch_size  # type: ignore[attr-defined]
            rows = tf.data.Dataset.zip(rows, steps.map(lambda step: augmentation_seeds(seed, step, size)))
        rows = _part_of(rows, self.batch_size, num_parts, part_index)
        if load is None and augment is None and not streams.is_source(data):
            data = streams.arrays(data, len(labels))
            batches = streams.gathered(rows, data, streams.on_host(labels), prefetch=prefetch, max_batches=block)
        else:
            batches = streams.loaded(rows, data, load, labels, augment=augment, on_error=on_error, prefetch=prefetch)
        batches = batches.with_options(streams.stream_options())
        batches.drawn_classes = lambda: self._drawn_classes(labels)  # `fit` checks them before the first step
        return batches

    def _drawn_classes(self, labels):
        """The ids of the classes that batches may hold, where a sampler leaves some out."""
        ids = getattr(self.prepare(labels), "ids", None)
        return np.unique(labels) if ids is None else ids


@dataclass
class TorchBatches:
    """Batches of row numbers for PyTorch, see `Sampler.torch_batches`; each epoch adds `batches` to `start`."""

    sampler: Sampler
    labels: npt.ArrayLike
    batches: int
    start: int
    options: dict[str, Any]

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        stream = self.sampler.index_batches(self.labels, start=self.start, **self.options)
        self.start += self.batches
        return (rows.tolist() for rows in stream.take(self.batches).as_numpy_iterator())


@dataclass(frozen=True, kw_only=True)
class ClassBalancedSampler(Sampler):
    """Base class: settings of samplers whose batches have a fixed number of classes and of examples per class."""

    classes_per_batch: int
    examples_per_class: int
    short_classes: str = "drop"
    seed: int = 0

    def __post_init__(self):
        require_whole("classes_per_batch", self.classes_per_batch, 1)
        require_whole("examples_per_class", self.examples_per_class, 1)
        require_seed(self.seed)
        require_one_of(("drop", "repeat", "error"), short_classes=self.short_classes)

    @property
    def batch_size(self) -> int:
        """Rows in a batch: classes times examples."""
        return self.classes_per_batch * self.examples_per_class

    def prepare(self, labels: npt.ArrayLike) -> Any:
        """The classes that can be drawn, as a `ClassTable`."""
        return drawable_classes(labels, self.classes_per_batch, self.examples_per_class, self.short_classes)


def _keys_labels_load(data, labels, load):
    if labels is not None:
        return data, labels, load
    labels_of(data, labels)
    data = labeled_part(data, "batches")
    if hasattr(load, "boxes"):  # `load` decides whether it takes boxes.
        data = replace(data, load=load)
    return data.keys, data.labels, load or data.load


def _part_of(rows, batch_size, num_parts, part_index):
    """The same dataset of row numbers `(batch, ...)`, with one of several equal parts of each batch."""
    part = part_of_batch(batch_size, num_parts, part_index)

    @tf.autograph.experimental.do_not_convert
    def take(*rows):
        taken = tf.nest.map_structure(lambda x: x[part], rows)
        return taken if len(taken) > 1 else taken[0]

    return rows if num_parts == 1 else rows.map(take)


def _require_batches(drawn, sampler):
    """Raise a ValueError unless a sampler draws row numbers `(block, batch)`, of each set if there are several."""
    expected = tf.TensorSpec((None, sampler.batch_size), tf.int64)
    for rows in tf.nest.flatten(drawn):
        require(
            expected.is_compatible_with(rows),
            f"draws of shape {rows.shape} and type {rows.dtype.name} from {type(sampler).__name__}",
            f"int64 row numbers of shape (block, batch_size={sampler.batch_size})",
        )
