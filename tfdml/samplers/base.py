"""What every sampler shares: an endless, resumable, shardable stream of row numbers, and of examples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt
import tensorflow as tf

from tfdml._checks import as_ids, require_seed, require_steps, require_whole
from tfdml.importance import ImportanceWeights, PairProbabilities, group
from tfdml.pairs import all_pairs
from tfdml.pairs.pairings import require_ids_that_fit
from tfdml.samplers import loading
from tfdml.samplers.class_table import class_counts, drawable_classes

_BLOCK = 64  # Steps drawn by one call of the graph: spreads the cost of starting an operation over many batches.


class Sampler:
    """A batch design: settings, a seed, and a pure function from a step to the rows of its batch.

    A sampler is a frozen dataclass over this class that has `batch_size`, `class_table` and `draw`.

    Attributes:
        batch_size: rows in a batch.
        pairing: the function of `tfdml.pairs` that makes `Pairs` of its batches.
    """

    pairing = staticmethod(all_pairs)

    if TYPE_CHECKING:  # A property of some samplers, a field of others.

        @property
        def batch_size(self) -> int:
            """Rows in a batch."""

    def class_table(self, labels: npt.ArrayLike) -> Any:
        """The `ClassTable` of the classes that may be drawn; raises a ValueError where the labels do not fit."""
        raise NotImplementedError

    def draw(self, table: Any, steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` `(block,)` as row numbers `(block, batch)`, row i from (seed, steps[i]) only."""
        raise NotImplementedError

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q: `tfdml.importance.PairProbabilities` of the pairs of a batch, over the examples that may be drawn.

        Raises:
            ValueError: the design has no closed form; `tfdml.importance.simulated` estimates it.
        """
        raise ValueError(
            f"Received {type(self).__name__}, whose pair probabilities have no closed form. Estimate them: "
            "tfdml.importance.ImportanceWeights(tfdml.importance.simulated(sampler, labels))."
        )

    def importance(self, labels: npt.ArrayLike, delta: float = 1.0) -> ImportanceWeights:
        """The importance weights that make a loss on these batches unbiased, to hand to it as `importance=`.

        Args:
            labels: `(examples,)` integer class ids of the training set. Weights refer to the examples that may be
                drawn: classes that are left out do not count.
            delta: exponent of the weights; 1 removes the bias, 0 turns the weights off.

        Returns:
            `tfdml.importance.ImportanceWeights`, a function `Pairs -> Pairs`.

        Raises:
            ValueError: the design has no closed form, or can never draw some pair.
        """
        return ImportanceWeights(self.pair_probabilities(labels), delta)

    def block_steps(self, table: Any) -> int:
        """How many steps are drawn at once: a matter of speed, never of what is drawn."""
        return _BLOCK

    def index_batches(
        self, labels: npt.ArrayLike, *, start: int = 0, num_shards: int = 1, shard_index: int = 0
    ) -> tf.data.Dataset:
        """Row numbers of one batch after another, without end.

        Args:
            labels: `(examples,)` or `(examples, 1)` integer class ids.
            start: the step to begin with; the batches are those that come after skipping `start` batches.
            num_shards, shard_index: worker i of n takes the batches t * n + i of the whole stream, t = start, start
                + 1, ... No two workers see the same batch.

        Returns:
            An infinite `tf.data.Dataset` of int64 `(batch,)`.

        Raises:
            ValueError: labels that are not integers, too few classes, a negative start, an invalid shard index, numbers
                of batches beyond int64.
        """
        rows, _ = self._rows_and_block(labels, start, num_shards, shard_index)
        return rows.with_options(_options())

    def _rows_and_block(self, labels, start, num_shards, shard_index):
        """The row numbers of `index_batches`, and how many batches of them are drawn at once."""
        require_whole("num_shards", num_shards, 1)
        require_whole("shard_index", shard_index, 0, num_shards - 1)
        require_whole("start", start, 0)
        table = tf.nest.map_structure(loading.on_host, self.class_table(labels))
        block = self.block_steps(table)
        require_steps(start, num_shards, block)
        stride = tf.range(block, dtype=tf.int64) * num_shards

        @tf.autograph.experimental.do_not_convert
        def draw(first):
            return self.draw(table, first + stride)

        firsts = tf.data.Dataset.counter(start * num_shards + shard_index, block * num_shards)
        drawn_ahead = firsts.map(draw).prefetch(1)  # By a thread of its own, beside the one that gathers.
        return drawn_ahead.unbatch(), block

    def batches(
        self,
        data: Any,
        labels: npt.ArrayLike,
        *,
        load: Callable[..., Any] | None = None,
        undecodable: Literal["error", "skip"] | Callable[[int], None] = "error",
        ready: int = 4,
        start: int = 0,
        num_shards: int = 1,
        shard_index: int = 0,
    ) -> tf.data.Dataset:
        """Examples and labels of one batch after another, without end; the rows are those of `index_batches`.

        Args:
            data: an array `(examples, ...)`, or a tuple or dict of such arrays, held in memory once. With `load`,
                the keys of the examples: strings, numbers, whatever `load` understands. Or a source, any other object
                with `len(source)` and `source[row]`; `source.__getitems__(rows)` is used where it exists. A source
                gives records: arrays, numbers, text, tuples and dicts of these, of one structure.
            labels: `(examples,)` or `(examples, 1)` integer class ids.
            load: a TensorFlow function of one key or record that returns one example, of the same shape for every
                row. Rows are loaded in parallel and arrive in order.
            undecodable: what becomes of a row that cannot be read or loaded: an error that names it ("error"), or
                another example of its class that can be loaded takes its place ("skip"). A function also skips, and
                is called with the number of each row that is passed over.
            ready: batches that are made ready ahead of the training step, and never more than these.
            start, num_shards, shard_index: as in `index_batches`.

        Returns:
            An infinite `tf.data.Dataset` of `(examples, labels)`: each array of examples with `batch` rows, and the
            labels as int64 `(batch,)`.

        Raises:
            ValueError: class ids that the Keras backend cannot hold, data and labels of different lengths, data that
                are neither arrays nor a source, NaN or masked entries in the data, a `load` that is not a function,
                unknown options, and all that `index_batches` raises.
        """
        if load is not None and not callable(load):
            raise ValueError(f"Received load={load!r}, expected a TensorFlow function of one key, or None.")
        if undecodable not in ("error", "skip") and not callable(undecodable):
            raise ValueError(f"Received undecodable={undecodable!r}, expected 'error', 'skip' or a function of a row.")
        require_whole("ready", ready, 1)
        rows, block = self._rows_and_block(labels, start, num_shards, shard_index)
        labels = as_ids(labels, "labels")
        require_ids_that_fit(labels)
        if load is None and not loading.is_source(data):
            data = loading.arrays(data, len(labels))
            batches = loading.gathered(rows, data, loading.on_host(labels), ready=ready, most=block)
        else:
            batches = loading.loaded(rows, data, load, labels, undecodable=undecodable, ready=ready)
        return batches.with_options(_options())


@dataclass(frozen=True, kw_only=True)
class GroupedSampler(Sampler):
    """The settings of samplers whose batch is so many classes with so many examples of each."""

    classes_per_batch: int
    examples_per_class: int
    short_classes: str = "drop"
    seed: int = 0

    def __post_init__(self):
        require_whole("classes_per_batch", self.classes_per_batch, 1)
        require_whole("examples_per_class", self.examples_per_class, 1)
        require_seed(self.seed)
        if self.short_classes not in ("drop", "repeat", "error"):
            raise ValueError(f"Received short_classes={self.short_classes!r}, expected 'drop', 'repeat' or 'error'.")

    @property
    def batch_size(self) -> int:
        """Rows in a batch: classes times examples."""
        return self.classes_per_batch * self.examples_per_class

    def class_table(self, labels: npt.ArrayLike) -> Any:
        """The classes that may be drawn, as a `ClassTable`."""
        return drawable_classes(
            labels,
            classes_per_batch=self.classes_per_batch,
            examples_per_class=self.examples_per_class,
            short_classes=self.short_classes,
        )

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q, eq. (9): see `tfdml.importance.group`."""
        table = self.class_table(labels)
        return group(
            class_counts(table), classes_per_batch=self.classes_per_batch, examples_per_class=self.examples_per_class
        )


def _options():
    """No second copy of the data, and no sharding by `tf.distribute` on top of our own."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False  # Rewriting a graph copies what it holds.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return options
