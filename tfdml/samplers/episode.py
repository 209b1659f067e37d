"""N-way K-shot episodes: support examples of N classes, then queries of the same classes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require_seed, require_whole
from tfdml.importance.probabilities import PairProbabilities, group_probabilities
from tfdml.samplers.base import Sampler
from tfdml.samplers.class_table import ClassTable, class_counts, class_table
from tfdml.samplers.group import group_rows


@dataclass(frozen=True, kw_only=True)
class EpisodeSampler(Sampler):
    """N-way K-shot episodes: N classes, each with K support examples and Q queries, all without replacement.

    A batch holds the N * K support rows, class by class, then the N * Q queries with the classes in the same order, as
    `tfdml.losses.PrototypicalLoss(shots=K)` expects. Episodes are independent, and all choices are uniform.

    Example:

        >>> labels = np.repeat(np.arange(4), 5)
        >>> sampler = tfdml.samplers.EpisodeSampler(ways=2, shots=1, queries=2, seed=0)
        >>> rows = sampler.index_batches(labels)[0]
        >>> labels[rows].tolist()  # the support of two classes, then two queries of each
        [2, 1, 2, 2, 1, 1]

    Args:
        ways: N, at least 2.
        shots: K, number of support examples per class.
        queries: Q, number of queries per class.
        short_classes: what to do with classes of fewer than K + Q examples: leave them out ("drop") or raise a
            ValueError ("error"). None occurs twice, because it could then be both support and query.

    Source: Vinyals et al., Matching Networks for One Shot Learning, NIPS 2016, section 2.2; Snell, Swersky, Zemel,
    Prototypical Networks for Few-shot Learning, NIPS 2017, algorithm 1.
    """

    ways: int
    shots: int
    queries: int
    short_classes: str = "drop"
    seed: int = 0

    def __post_init__(self):
        require_whole("ways", self.ways, 2)
        require_whole("shots", self.shots, 1)
        require_whole("queries", self.queries, 1)
        require_seed(self.seed)
        if self.short_classes not in ("drop", "error"):
            raise ValueError(
                f"Received short_classes={self.short_classes!r}, expected 'drop' or 'error'. Lower shots or queries to "
                "keep classes with few examples."
            )

    @property
    def batch_size(self) -> int:
        """Rows in a batch: classes times support and queries."""
        return self.ways * (self.shots + self.queries)

    def prepare(self, labels: npt.ArrayLike) -> ClassTable:
        """The classes with enough examples, as a `ClassTable`."""
        table = class_table(labels)
        enough = table.counts >= self.shots + self.queries
        needed = f"shots + queries = {self.shots} + {self.queries} examples"
        if self.short_classes == "error" and not enough.all():
            worst = table.counts.argmin()
            raise ValueError(
                f"Received labels with {(~enough).sum()} of {len(enough)} classes of fewer than {needed} (class "
                f"{table.ids[worst]} has {table.counts[worst]}). Lower one of the two, or pass short_classes='drop'."
            )
        if enough.sum() < self.ways:
            raise ValueError(
                f"Received ways={self.ways}, but only {enough.sum()} of {len(enough)} classes have {needed}. Lower one "
                "of the three."
            )
        return table.select(enough)

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q, as of a `GroupSampler` of N classes with K + Q examples."""
        counts = class_counts(self.prepare(labels))
        return group_probabilities(counts, classes_per_batch=self.ways, examples_per_class=self.shots + self.queries)

    def draw(self, table: ClassTable, steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        examples = self.shots + self.queries
        rows = group_rows(table, self.seed, steps, classes=self.ways, examples=examples)
        support, queries = np.split(rows.reshape(len(steps), self.ways, examples), [self.shots], axis=2)
        return np.concatenate([x.reshape(len(steps), -1) for x in (support, queries)], axis=1)
