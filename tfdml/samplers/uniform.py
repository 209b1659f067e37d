"""Uniform batches: any examples, whatever their class."""

from dataclasses import dataclass

import numpy.typing as npt
import tensorflow as tf

from tfdml._checks import require_seed, require_whole
from tfdml.importance import PairProbabilities, uniform
from tfdml.samplers.base import Sampler
from tfdml.samplers.class_table import ClassTable, class_counts, class_table
from tfdml.samplers.draws import choose, random_words


@dataclass(frozen=True, kw_only=True)
class UniformSampler(Sampler):
    """Uniform batches: examples without replacement, every choice as likely as any other.

    Every batch is independent of every other. A pair of a batch is any ordered pair of examples with the same
    probability, Q(i, j) = 1 / (N (N - 1)), so its importance weights are 1.

    Args:
        batch_size: rows in a batch.
        seed: any int64.
    """

    batch_size: int
    seed: int = 0

    def __post_init__(self):
        require_whole("batch_size", self.batch_size, 1)
        require_seed(self.seed)

    def class_table(self, labels: npt.ArrayLike) -> ClassTable:
        """All classes, as a `ClassTable`."""
        table = class_table(labels)
        if self.batch_size > len(table.rows):
            raise ValueError(f"Received batch_size={self.batch_size}, but only {len(table.rows)} examples. Lower it.")
        return table

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q, the same for every pair: see `tfdml.importance.uniform`."""
        return uniform(class_counts(self.class_table(labels)))

    def draw(self, table: ClassTable, steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` as row numbers `(block, batch)`."""
        examples = tf.constant(table.rows.shape[0], tf.int64)
        return choose(random_words(self.seed, steps, self.batch_size), examples)
