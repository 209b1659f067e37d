"""(m, n)-group batches: n classes with m examples each, every batch drawn independently."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfdml.importance.probabilities import PairProbabilities, group_probabilities
from tfdml.samplers.base import ClassBalancedSampler
from tfdml.samplers.class_table import ClassTable, class_counts
from tfdml.samplers.draws import random_bits, sample_rows, sample_without_replacement


@dataclass(frozen=True, kw_only=True)
class GroupSampler(ClassBalancedSampler):
    """(m, n)-group batches: n of L classes without replacement, of each class m of N_c examples without replacement.

    Batches are independent, and both choices are uniform.

    See also: `PKSampler`, whose epochs show every class; `HardClassSampler` for classes that the model confuses.

    Example:

        >>> labels = np.repeat(np.arange(5), 3)
        >>> sampler = tfdml.samplers.GroupSampler(classes_per_batch=2, examples_per_class=2, seed=0)
        >>> [labels[rows].tolist() for rows in sampler.index_batches(labels)[:2]]
        [[3, 3, 2, 2], [4, 4, 0, 0]]
        >>> examples, classes = next(iter(sampler.batches(np.arange(15.0), labels)))  # for `fit`
        >>> examples.numpy().tolist(), classes.numpy().tolist()
        ([9.0, 10.0, 8.0, 6.0], [3, 3, 2, 2])

    Args:
        classes_per_batch: n.
        examples_per_class: m, adjacent in the batch.
        short_classes: what to do with classes of fewer than m examples: leave them out ("drop"), repeat each example
            floor(m / N_c) or ceil(m / N_c) times ("repeat"), or raise a ValueError ("error").

    Source: Hong, Park and Kim, Deep Metric Learning via Weighted Contrastive Loss, section 4.2, eq. (9).
    """

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q, eq. (9), for L classes that can be drawn, of N_c examples each.

            Q(i, j) = (m - 1) / (L (mn - 1) N_yi (N_yi - 1))        where y_i = y_j
            Q(i, j) = m (n - 1) / (L (L - 1) (mn - 1) N_yi N_yj)    otherwise

        With short_classes="repeat", in a class with fewer than m examples, every example occurs a = floor(m / N_c)
        times, and r = m - a N_c examples occur once more; then m - 1 in the first line becomes (m^2 - r (a + 1)^2 -
        (N_c - r) a^2) / m. Pairs of an example with its own copy are left out.
        """
        counts = class_counts(self.prepare(labels))
        return group_probabilities(
            counts, classes_per_batch=self.classes_per_batch, examples_per_class=self.examples_per_class
        )

    def draw(self, table: ClassTable, steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        return group_rows(table, self.seed, steps, classes=self.classes_per_batch, examples=self.examples_per_class)


def group_rows(table: ClassTable, seed: int, steps: np.ndarray, *, classes: int, examples: int) -> np.ndarray:
    """Row numbers of the batches of `steps`, `(block, classes * examples)`; the examples of a class are adjacent."""
    bits = random_bits(seed, steps, classes + classes * examples)
    chosen = sample_without_replacement(bits[:, :classes], len(table.counts))
    row_bits = bits[:, classes:].reshape(-1, classes, examples)
    return sample_rows(table, chosen, row_bits).reshape(-1, classes * examples)
