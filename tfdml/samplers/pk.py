"""P x K batches: every class once an epoch in a random order, K examples of each."""

import math
from dataclasses import dataclass

import numpy.typing as npt
import tensorflow as tf

from tfdml.samplers.base import GroupedSampler
from tfdml.samplers.class_table import ClassTable
from tfdml.samplers.draws import choose_rows, random_words, shuffle


@dataclass(frozen=True, kw_only=True)
class PKSampler(GroupedSampler):
    """P x K batches: every class once an epoch in a random order, K examples of each without replacement.

    An epoch is `steps_per_epoch(labels)` = ceil(L / P) batches, over the L classes that may be drawn; each epoch has
    an order of its own, and each visit to a class draws its K examples afresh. Every batch has P different classes:
    where P does not divide L, the last batch of an epoch is filled up with the classes that opened the epoch, so
    that those come twice. They are a uniform choice, as the order is.

    A batch taken by itself is distributed as a batch of `GroupSampler`, and so are its pairs. What differs is that
    the batches of an epoch leave each other's classes out: after an epoch every class has been seen.

    Args:
        classes_per_batch: P.
        examples_per_class: K. The examples of a class are adjacent in the batch.
        short_classes: classes with fewer than K examples are left out ("drop"), stay, with each example
            floor(K / N_c) or ceil(K / N_c) times in the batch ("repeat"), or are a ValueError ("error").
        seed: any int64.

    Source: Hermans et al., In Defense of the Triplet Loss for Person Re-Identification, 2017, section 2.
    """

    def steps_per_epoch(self, labels: npt.ArrayLike) -> int:
        """Batches in which every class that may be drawn comes at least once, over all shards together."""
        return _epoch_steps(self.class_table(labels), self.classes_per_batch)

    def draw(self, table: ClassTable, steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` as row numbers `(block, batch)`."""
        return pk_rows(table, self.seed, steps, classes=self.classes_per_batch, examples=self.examples_per_class)

    def block_steps(self, table: ClassTable) -> int:
        """Part of an epoch: its order of classes is made anew for every block."""
        return max(super().block_steps(table), _epoch_steps(table, self.classes_per_batch) // 8)


def pk_rows(table: ClassTable, seed: int, steps: tf.Tensor, *, classes: int, examples: int) -> tf.Tensor:
    """Row numbers of the (classes x examples) batches of `steps`.

    The order of an epoch comes from (seed, -1 - epoch): batches use the steps from 0 on, so no word is used twice.

    Args:
        table: `ClassTable` with at least `classes` classes.
        seed: any int64.
        steps: `(block,)` int64, not negative.
        classes, examples: P and K.

    Returns:
        `(block, classes * examples)` int64, the examples of a class adjacent.
    """
    total = table.counts.shape[0]
    epoch_steps = _epoch_steps(table, classes)
    epochs, which = tf.unique(steps // epoch_steps, out_idx=tf.int64)
    orders = shuffle(random_words(seed, -1 - epochs, total))
    places = tf.range(classes, dtype=tf.int64) + classes * (steps % epoch_steps)[:, None]
    which = tf.broadcast_to(which[:, None], places.shape)
    chosen = tf.gather_nd(orders, tf.stack([which, places % total], axis=-1))
    of_each = tf.reshape(random_words(seed, steps, classes * examples), (steps.shape[0], classes, examples))
    return tf.reshape(choose_rows(table, chosen, of_each), (steps.shape[0], classes * examples))


def _epoch_steps(table, classes):
    return math.ceil(table.counts.shape[0] / classes)
