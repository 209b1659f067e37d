"""Hierarchical batches: super-classes, classes of each super-class, examples of each class."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require_one_of, require_seed, require_whole
from tfdml.importance.probabilities import PairProbabilities, hierarchical_probabilities, super_classes_of
from tfdml.samplers.base import Sampler
from tfdml.samplers.class_table import ClassTable, class_counts, class_table, drawable_classes
from tfdml.samplers.draws import random_bits, sample_rows, sample_without_replacement


@dataclass(frozen=True, kw_only=True)
class HierarchicalSampler(Sampler):
    """Batches of related classes: S super-classes, C classes of each, m examples of each class.

    The three choices are uniform and without replacement, and batches are independent. Many negatives then share the
    super-class of the anchor, where hard negatives are most likely: other chairs, not lamps. Super-classes with fewer
    than C classes are left out. With C = 1 or S = 1, some pairs are never drawn, and `importance` raises an
    error.

    See also: `HardClassSampler` for related classes without a hierarchy.

    Example:

        >>> labels = np.repeat(np.arange(6), 3)
        >>> sampler = tfdml.samplers.HierarchicalSampler(
        ...     super_classes=[0, 0, 0, 1, 1, 1],
        ...     super_classes_per_batch=1,
        ...     classes_per_super_class=2,
        ...     examples_per_class=2,
        ...     seed=0,
        ... )
        >>> [labels[rows].tolist() for rows in sampler.index_batches(labels)[:2]]
        [[1, 1, 0, 0], [5, 5, 3, 3]]

    Args:
        super_classes: the super-class id of each class: an array indexed by class id, or a dict of class id to
            super-class id. It may contain more classes than the labels.
        super_classes_per_batch: S.
        classes_per_super_class: C, adjacent in the batch.
        examples_per_class: m, adjacent in the batch.
        short_classes: as in `GroupSampler`.
    """

    super_classes: npt.ArrayLike | Mapping[int, int] = field(repr=False)
    super_classes_per_batch: int
    classes_per_super_class: int
    examples_per_class: int
    short_classes: str = "drop"
    seed: int = 0

    def __post_init__(self):
        require_whole("super_classes_per_batch", self.super_classes_per_batch, 1)
        require_whole("classes_per_super_class", self.classes_per_super_class, 1)
        require_whole("examples_per_class", self.examples_per_class, 1)
        require_seed(self.seed)
        require_one_of(("drop", "repeat", "error"), short_classes=self.short_classes)
        object.__setattr__(self, "super_classes", _as_pairs(self.super_classes))

    @property
    def batch_size(self) -> int:
        """Rows in a batch: super-classes times classes times examples."""
        return self.super_classes_per_batch * self.classes_per_super_class * self.examples_per_class

    def prepare(self, labels: npt.ArrayLike) -> tuple[ClassTable, ClassTable]:
        """A `ClassTable` of the drawable classes, and one of their super-classes, with `rows` of the first table."""
        classes = drawable_classes(labels, 0, self.examples_per_class, self.short_classes)
        super_class = super_classes_of(classes.ids, self._super_class_of())
        ids, counts = np.unique(super_class, return_counts=True)
        enough = counts >= self.classes_per_super_class
        if enough.sum() < self.super_classes_per_batch:
            raise ValueError(
                f"Received super_classes_per_batch={self.super_classes_per_batch}, but only {enough.sum()} of "
                f"{len(set(self._super_class_of().values()))} super-classes have at least classes_per_super_class="
                f"{self.classes_per_super_class} classes with examples_per_class={self.examples_per_class} examples. "
                "Lower one of the three, or pass short_classes='repeat'."
            )
        is_drawable = np.isin(super_class, ids[enough])
        return classes.select(is_drawable), class_table(super_class[is_drawable])

    def pair_probabilities(self, labels: npt.ArrayLike) -> PairProbabilities:
        """Q, for B = S C m rows in a batch, G super-classes, and L_g classes of super-class g.

        Q(i, j) = S/G  C/L_g  m (m - 1) / (N_yi (N_yi - 1)) / (B (B - 1))                   where y_i = y_j
        Q(i, j) = S/G  C (C - 1) / (L_g (L_g - 1))  m/N_yi  m/N_yj / (B (B - 1))            in one super-class g
        Q(i, j) = S (S - 1) / (G (G - 1))  C/L_g  C/L_h  m/N_yi  m/N_yj / (B (B - 1))       in super-classes g and h
        """
        classes, _ = self.prepare(labels)
        return hierarchical_probabilities(
            class_counts(classes),
            self._super_class_of(),
            super_classes_per_batch=self.super_classes_per_batch,
            classes_per_super_class=self.classes_per_super_class,
            examples_per_class=self.examples_per_class,
        )

    def _super_class_of(self) -> dict[int, int]:
        return dict(self.super_classes)  # type: ignore[arg-type]  # Since __post_init__ a tuple of pairs.

    def draw(self, table: tuple[ClassTable, ClassTable], steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        classes, super_classes = table
        s, c, m = self.super_classes_per_batch, self.classes_per_super_class, self.examples_per_class
        bits = random_bits(self.seed, steps, s + s * c + s * c * m)
        super_bits, class_bits, row_bits = np.split(bits, [s, s + s * c], axis=1)
        chosen = sample_without_replacement(super_bits, len(super_classes.counts))
        chosen = sample_rows(super_classes, chosen, class_bits.reshape(-1, s, c))
        return sample_rows(classes, chosen, row_bits.reshape(-1, s, c, m)).reshape(-1, s * c * m)


def _as_pairs(super_classes):
    """A tuple of (class id, super-class id), from an array, a dict, or such a tuple."""
    if isinstance(super_classes, Mapping):
        super_classes = tuple(super_classes.items())
    pairs = np.asarray(super_classes)
    if pairs.ndim == 1:
        pairs = np.stack([np.arange(len(pairs)), pairs], axis=1)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not pairs.size or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"Received super_classes of shape {np.shape(super_classes)} and type {pairs.dtype}, expected an array of "
            "integers indexed by class id, or a dict of class id to super-class id."
        )
    return tuple(map(tuple, pairs.tolist()))
