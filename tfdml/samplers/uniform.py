"""Uniform batches: random examples of any class."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require_seed, require_whole
from tfdml.importance.probabilities import PairProbabilities, uniform_probabilities
from tfdml.samplers.base import Sampler
from tfdml.samplers.class_table import ClassTable, class_counts, class_table
from tfdml.samplers.draws import random_bits, sample_without_replacement


@dataclass(frozen=True, kw_only=True)
class UniformSampler(Sampler):
    """Uniform batches: examples without replacement, all choices equally likely.

    Batches are independent, and all pairs have the same probability.

    See also: `GroupSampler` for batches with positives of every class that they hold.

    Example:

        >>> labels = np.repeat(np.arange(4), 3)
        >>> batches = tfdml.samplers.UniformSampler(batch_size=5, seed=0).index_batches(labels)
        >>> rows = batches[0]
        >>> rows.tolist(), labels[rows].tolist()
        ([10, 11, 4, 8, 9], [3, 3, 1, 2, 3])
    """

    batch_size: int
    seed: int = 0

    def __post_init__(self):
        require_whole("batch_size", self.batch_size, 1)
        require_seed(self.seed)

    def prepare(self, labels: npt.ArrayLike) -> ClassTable:
        """All classes, as a `ClassTable`."""
        table = class_table(labels)
        if self.batch_size > len(table.rows):
            raise ValueError(f"Received batch_size={self.batch_size}, but only {len(table.rows)} examples. Lower it.")
        return table

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q, P_U = 1 / (N (N - 1)) for every pair of the N examples."""
        return uniform_probabilities(class_counts(self.prepare(labels)))

    def draw(self, table: ClassTable, steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        return sample_without_replacement(random_bits(self.seed, steps, self.batch_size), len(table.rows))
