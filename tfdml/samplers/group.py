"""(m, n)-group batches: n classes, m examples of each, every batch drawn afresh."""

from dataclasses import dataclass

import tensorflow as tf

from tfdml.samplers.base import GroupedSampler
from tfdml.samplers.class_table import ClassTable
from tfdml.samplers.draws import choose, choose_rows, random_words


@dataclass(frozen=True, kw_only=True)
class GroupSampler(GroupedSampler):
    """(m, n)-group batches: n of L classes without replacement, of each class m of N_c examples without replacement.

    Every batch is independent of every other, and both choices are uniform. A pair drawn from the ordered pairs of a
    batch is the pair (i, j), i != j, with probability

        Q(i, j) = (m - 1) / (L (mn - 1) N_yi (N_yi - 1))        where y_i = y_j
        Q(i, j) = m (n - 1) / (L (L - 1) (mn - 1) N_yi N_yj)    otherwise

    where L counts the classes that may be drawn. With short_classes="repeat", m - 1 in the first line becomes
    (m^2 - r (a + 1)^2 - (N_c - r) a^2) / m for a class of N_c < m examples, with a = floor(m / N_c) and r = m - a N_c:
    the batch then also holds pairs of an example with its own copy, which Q leaves out.

    Args:
        classes_per_batch: n.
        examples_per_class: m. The examples of a class are adjacent in the batch.
        short_classes: classes with fewer than m examples are left out ("drop"), stay, with each example
            floor(m / N_c) or ceil(m / N_c) times in the batch ("repeat"), or are a ValueError ("error").
        seed: any int64.

    Source: Hong, Park and Kim, Deep Metric Learning via Weighted Contrastive Loss, section 4.2, eq. (9).
    """

    def draw(self, table: ClassTable, steps: tf.Tensor) -> tf.Tensor:
        """The batches of `steps` as row numbers `(block, batch)`."""
        return group_rows(table, self.seed, steps, classes=self.classes_per_batch, examples=self.examples_per_class)


def group_rows(table: ClassTable, seed: int, steps: tf.Tensor, *, classes: int, examples: int) -> tf.Tensor:
    """Row numbers of the (examples, classes)-group batches of `steps`.

    Args:
        table: `ClassTable` with at least `classes` classes.
        seed: any int64.
        steps: `(block,)` int64, not negative.
        classes, examples: n and m.

    Returns:
        `(block, classes * examples)` int64, the examples of a class adjacent.
    """
    words = random_words(seed, steps, classes + classes * examples)
    chosen = choose(words[:, :classes], tf.constant(table.counts.shape[0], tf.int64))
    of_each = tf.reshape(words[:, classes:], (steps.shape[0], classes, examples))
    return tf.reshape(choose_rows(table, chosen, of_each), (steps.shape[0], classes * examples))
