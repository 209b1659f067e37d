"""P x K batches: every class once per epoch in random order, K examples of each."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfdml.samplers.class_table import ClassTable
from tfdml.samplers.draws import random_bits, sample_rows, shuffle
from tfdml.samplers.group import GroupSampler


@dataclass(frozen=True, kw_only=True)
class PKSampler(GroupSampler):
    """P x K batches: every class once per epoch in random order, K examples of each without replacement.

    An epoch has `steps_per_epoch(labels)` = ceil(L / P) batches over the L classes that can be drawn. Each epoch has
    its own order of classes, and each visit to a class draws K examples independently. Every batch has P different
    classes: if P does not divide L, the first classes of the epoch fill up its last batch.

    A batch has the distribution, and the pair probabilities Q, of a `GroupSampler` batch.

    Example:

        >>> labels = np.repeat(np.arange(4), 3)
        >>> sampler = tfdml.samplers.PKSampler(classes_per_batch=2, examples_per_class=2, seed=0)
        >>> sampler.steps_per_epoch(labels)
        2
        >>> [labels[rows].tolist() for rows in sampler.index_batches(labels)[:2]]  # every class once
        [[2, 2, 3, 3], [1, 1, 0, 0]]

    Args:
        classes_per_batch: P.
        examples_per_class: K, adjacent in the batch.
        short_classes: as in `GroupSampler`.

    Source: Hermans et al., In Defense of the Triplet Loss for Person Re-Identification, 2017, section 2.
    """

    def steps_per_epoch(self, labels: npt.ArrayLike) -> int:
        """Number of batches, over all shards together, until every class that can be drawn has occurred."""
        return _epoch_steps(self.prepare(labels), self.classes_per_batch)

    def draw(self, table: ClassTable, steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        total, classes = len(table.counts), self.classes_per_batch
        epoch_steps = _epoch_steps(table, classes)
        epochs, epoch_index = np.unique(steps // epoch_steps, return_inverse=True)
        orders = shuffle(random_bits(self.seed, -1 - epochs, total))  # batches use steps from 0 on: no bits twice
        columns = np.arange(classes) + classes * (steps % epoch_steps)[:, None]
        chosen = orders[epoch_index[:, None], columns % total]
        row_bits = random_bits(self.seed, steps, self.batch_size).reshape(-1, classes, self.examples_per_class)
        return sample_rows(table, chosen, row_bits).reshape(-1, self.batch_size)

    def block_steps(self, table: ClassTable) -> int:
        """At least an eighth of an epoch, because every block regenerates the order of classes of its epochs."""
        return max(super().block_steps(table), _epoch_steps(table, self.classes_per_batch) // 8)


def _epoch_steps(table, classes):
    return math.ceil(len(table.counts) / classes)
