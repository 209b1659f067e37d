"""Base class of samplers: infinite streams of row numbers and examples that resume and shard."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require, require_one_of, require_seed, require_whole
from tfdml._core.optional import has_tensorflow
from tfdml.importance import ImportanceWeights, PairProbabilities
from tfdml.pairs import all_pairs
from tfdml.samplers.class_table import drawable_classes
from tfdml.samplers.streams.batch_source import BatchSource, KerasBatches, batch_parts, require_divided_once, tf_batches
from tfdml.samplers.streams.index_batches import IndexBatches, Shard

_BLOCK = 64  # Steps drawn by one call, which spreads its overhead over many batches.


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
        >>> InOrder(batch_size=3).index_batches([0, 0, 1, 1, 2], start=1)[:2].tolist()
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

    def draw(self, table: Any, steps: np.ndarray) -> Any:
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

    def index_batches(self, labels: npt.ArrayLike, **shard: int) -> IndexBatches:
        """Endless batches of row numbers, each by its number.

        `for rows in index_batches` draws one batch after another, `index_batches[t]` any of them, and
        `index_batches[:100]` an array of many. Another process draws the same, so it is a source for grain or for data
        loaders of your own.

        Args:
            labels: `(examples,)` or `(examples, 1)` integer class ids.
            start: first step, by default 0; the stream is the one from step 0 without its first `start` batches.
            num_shards, shard_index: worker i of n takes the batches t * n + i of the stream of all workers, for
                t = start, start + 1, ... No two workers see the same batch.
            num_parts, part_index: process i of n takes rows i * batch / n to (i + 1) * batch / n - 1 of every batch.

        Returns:
            A sequence of int64 `(batch,)`, or of `(batch / num_parts,)`; of a structure of these where the sampler
            draws from several sets.
        """
        return IndexBatches(self, labels, Shard(**shard))

    def batches(
        self,
        data: Any,
        labels: npt.ArrayLike | None = None,
        *,
        load: Callable[..., Any] | None = None,
        augment: Callable[..., Any] | None = None,
        on_error: Literal["error", "skip"] | Callable[[int], None] = "error",
        prefetch: int = 4,
        **shard: int,
    ) -> Any:
        """Infinite stream of batches of examples and labels, in the order of `index_batches`.

        Args:
            data: a labeled set of `tfdml.datasets`, with its labels and its way to load an example. Examples without a
                label are left out, with a warning: row numbers refer to `data.labeled`. Or an array `(examples, ...)`,
                or a tuple or dict of such arrays; with `load`, the keys of the examples. Or any object with
                `len(source)` and `source[row]`, and perhaps `source.__getitems__(rows)`, that returns
                records: arrays, numbers, text, or tuples and dicts of these, all of one structure.
            labels: `(examples,)` or `(examples, 1)` integer class ids; left out where `data` is a labeled set.
            load: a function of one key or record that returns one example, all of one shape: of TensorFlow where it is
                installed. Threads load rows in parallel; they arrive in order. None for the `load` of a labeled set, or
                for examples.
            augment: such a function of one example and its seed, int64 `(2,)`, that returns one example. The seed is a
                function of the sampler's seed, the step and the row of the batch, so resumed runs and shards
                repeat a stateless function, such as `tfdml.datasets.RandomCrop`.
            on_error: what to do with a row that cannot be read or loaded: raise an error that names it ("error"), or
                replace it by another example of its class that can be loaded ("skip"). A function also skips, and gets
                the number of each skipped row.
            prefetch: maximum number of batches prepared ahead of the training step.
            **shard: `start`, `num_shards`, `shard_index`, `num_parts`, `part_index`, as in `index_batches`.

        Returns:
            Endless batches `(examples, labels)` for `fit`: arrays of examples with `batch` rows, and int64 labels
            `(batch,)`; in parts, the rows of its part. A `tf.data.Dataset`, or a `keras.utils.PyDataset` where
            TensorFlow is not installed.

        Raises:
            ValueError: class ids that the Keras backend cannot hold, NaN or masked entries, parts that
                `keras.distribution` would divide once more, or whole batches where it divides none.
        """
        require(load is None or callable(load), f"load={load!r}", "a function of one key, or None")
        expected = "a function of one example and a seed, or None"
        require(augment is None or callable(augment), f"augment={augment!r}", expected)
        is_policy = on_error in ("error", "skip") or callable(on_error)
        require(is_policy, f"on_error={on_error!r}", "'error', 'skip' or a function of a row")
        require_whole("prefetch", prefetch, 1)
        divisions = shard.get("num_parts", 1) * shard.get("num_shards", 1)
        require_divided_once(divisions, is_tf_data=has_tensorflow())
        indices, loading = batch_parts(self, data, labels, load, augment, on_error, **shard)
        if has_tensorflow():
            batches = tf_batches(indices, loading, prefetch)
        else:
            batches = KerasBatches(BatchSource(indices, loading), prefetch)
        batches.drawn_classes = lambda: self._drawn_classes(loading.labels)  # `fit` checks them before the first step
        return batches

    def _drawn_classes(self, labels):
        """The ids of the classes that batches may hold, where a sampler leaves some out."""
        ids = getattr(self.prepare(labels), "ids", None)
        return np.unique(labels) if ids is None else ids


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
