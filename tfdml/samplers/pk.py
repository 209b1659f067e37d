"""P x K batches: every class once per epoch in random order, K examples of each."""

import math
from dataclasses import dataclass

import numpy.typing as npt
import tensorflow as tf

from tfdml.importance.probabilities import PairProbabilities, group_probabilities
from tfdml.samplers.base import ClassBalancedSampler
from tfdml.samplers.class_table import ClassTable, class_counts
from tfdml.samplers.draws import random_bits, sample_rows, shuffle


@dataclass(frozen=True, kw_only=True)
class PKSampler(ClassBalancedSampler):
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
        >>> [labels[rows].tolist() for rows in sampler.index_batches(labels).take(2)]  # every class once
        [[2, 2, 3, 3], [1, 1, 0, 0]]

    Args:
        classes_per_batch: P.
        examples_per_class: K, adjacent in the batch.
        short_classes: as in `GroupSampler`, for classes of fewer than K examples.
        seed: any int64.

    Source: Hermans et al., In Defense of the Triplet Loss for Person Re-Identification, 2017, section 2.
    """

    def steps_per_epoch(self, labels: npt.ArrayLike) -> int:
        """Number of batches, over all shards together, in which every class that can be drawn occurs."""
        return _epoch_steps(self.prepare(labels), self.classes_per_batch)

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q, as of `GroupSampler`."""
        counts = class_counts(self.prepare(labels))
        return group_probabilities(
            counts, classes_per_batch=self.classes_per_batch, examples_per_class=self.examples_per_class
        )

    def draw(self, table: ClassTable, steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` as row numbers `(block, batch)`."""
        return pk_rows(table, self.seed, steps, classes=self.classes_per_batch, examples=self.examples_per_class)

    def block_steps(self, table: ClassTable) -> int:
        """At least an eighth of an epoch, because every block regenerates the order of classes of its epochs."""
        return max(super().block_steps(table), _epoch_steps(table, self.classes_per_batch) // 8)


def pk_rows(table: ClassTable, seed: int, steps: tf.Tensor, *, classes: int, examples: int) -> tf.Tensor:
    """Row numbers of the batches of `steps`, `(block, classes * examples)`; the examples of a class are adjacent.

    The order of an epoch comes from (seed, -1 - epoch): batches use steps from 0 on, so no random bits are used twice.
    """
    total = table.counts.shape[0]
    epoch_steps = _epoch_steps(table, classes)
    epochs, epoch_index = tf.unique(steps // epoch_steps, out_idx=tf.int64)
    orders = shuffle(random_bits(seed, -1 - epochs, total))
    columns = tf.range(classes, dtype=tf.int64) + classes * (steps % epoch_steps)[:, None]
    epoch_index = tf.broadcast_to(epoch_index[:, None], columns.shape)
    chosen = tf.gather_nd(orders, tf.stack([epoch_index, columns % total], axis=-1))
    row_bits = tf.reshape(random_bits(seed, steps, classes * examples), (steps.shape[0], classes, examples))
    return tf.reshape(sample_rows(table, chosen, row_bits), (steps.shape[0], classes * examples))


def _epoch_steps(table, classes):
    return math.ceil(table.counts.shape[0] / classes)
