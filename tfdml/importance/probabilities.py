"""Pair probabilities Q of batch designs, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_unmasked, require
from tfdml.pairs.class_values import positive_counts


class PairProbabilities(NamedTuple):
    """Q: the probability of each ordered pair of different examples among the pairs of the batches of a design.

    Q depends only on the classes of the examples:

        Q(i, j) = within[y_i]                                         where y_i = y_j
        Q(i, j) = anchor_factors[y_i] . reference_factors[y_j]        otherwise

    Attributes:
        ids: `(classes,)` int64 class ids in ascending order.
        counts: `(classes,)` int64, N_c: number of examples of each class that can be drawn.
        within: `(classes,)` float64; 0 for a class of one example, because it has no pairs.
        anchor_factors, reference_factors: `(classes, terms)` float64; one term if all classes are drawn alike.
        within_error, between_error: standard errors, `(classes,)` and `(classes, classes)`; None if Q is exact.
    """

    ids: np.ndarray
    counts: np.ndarray
    within: np.ndarray
    anchor_factors: np.ndarray
    reference_factors: np.ndarray
    within_error: np.ndarray | None = None
    between_error: np.ndarray | None = None

    @property
    def uniform(self) -> float:
        """P_U = 1 / (N (N - 1)), the probability of every pair under uniform sampling."""
        total = int(self.counts.sum())
        return 1.0 / (total * (total - 1))

    def of(self, labels: npt.ArrayLike) -> np.ndarray:
        """Q of every ordered pair of the examples with `labels` `(examples,)`: `(examples, examples)`, diagonal 0."""
        labels = as_unmasked(labels, "labels")
        rows = np.minimum(np.searchsorted(self.ids, labels), len(self.ids) - 1)
        unknown = np.asarray(labels)[self.ids[rows] != labels]
        if unknown.size:
            raise ValueError(
                f"Received label {unknown[0]}, expected one of the {len(self.ids)} classes that can be drawn."
            )
        between = self.anchor_factors[rows] @ self.reference_factors[rows].T
        q = np.where(rows[:, None] == rows, self.within[rows], between)
        np.fill_diagonal(q, 0.0)
        return q


def group_probabilities(
    class_counts: npt.ArrayLike | dict[int, int], *, classes_per_batch: int, examples_per_class: int
) -> PairProbabilities:
    """Q of m examples of each of n classes: see `GroupSampler.pair_probabilities`."""
    m, n = examples_per_class, classes_per_batch
    ids, counts = _counts(class_counts, at_least=n)
    num_classes, pairs_per_batch = len(ids), max(m * n * (m * n - 1), 1)
    within = n / num_classes * pairs_inside(counts, m) / pairs_per_batch
    between = n * (n - 1) / max(num_classes * (num_classes - 1), 1) * m * m / pairs_per_batch
    return PairProbabilities(ids, counts, within, between / counts[:, None], 1.0 / counts[:, None])


def p_random_probabilities(
    class_counts: npt.ArrayLike | dict[int, int], *, positive_fraction: float
) -> PairProbabilities:
    """Q of pairs of one class with probability p, otherwise of two classes: see `PairSampler.pair_probabilities`."""
    ids, counts = _counts(class_counts, at_least=2)
    num_classes, num_with_pairs = len(ids), int((counts > 1).sum())
    require(num_with_pairs > 0, "classes of one example each", "one with two: there is no positive pair")
    within = positive_fraction / num_with_pairs * pairs_inside(counts, 2) / 2
    between = (1 - positive_fraction) / (num_classes * (num_classes - 1))
    return PairProbabilities(ids, counts, within, between / counts[:, None], 1.0 / counts[:, None])


def uniform_probabilities(class_counts: npt.ArrayLike | dict[int, int]) -> PairProbabilities:
    """Q of uniform batches: P_U = 1 / (N (N - 1)) for every pair."""
    ids, counts = _counts(class_counts, at_least=1)
    total = int(counts.sum())
    require(total >= 2, f"{total} example", "two or more: there is no pair")
    within = np.where(counts > 1, 1, 0) / (total * (total - 1))
    ones = np.ones((len(ids), 1))
    return PairProbabilities(ids, counts, within, ones / total, ones / (total - 1))


def hierarchical_probabilities(
    class_counts: npt.ArrayLike | dict[int, int],
    super_classes: npt.ArrayLike | dict[int, int],
    *,
    super_classes_per_batch: int,
    classes_per_super_class: int,
    examples_per_class: int,
) -> PairProbabilities:
    """Q of related classes: see `HierarchicalSampler.pair_probabilities`."""
    s, c, m = super_classes_per_batch, classes_per_super_class, examples_per_class
    ids, counts = _counts(class_counts, at_least=s * c)
    _, group, sizes = np.unique(super_classes_of(ids, super_classes), return_inverse=True, return_counts=True)
    groups, scale = len(sizes), 1 / max(s * c * m * (s * c * m - 1), 1)
    require(
        groups >= s and sizes.min() >= c,
        f"{groups} super-classes with {sizes.min()} classes at least",
        f"{s} or more with {c} each",
    )
    within = scale * s / groups * c / sizes[group] * pairs_inside(counts, m)
    between = scale * m * m * s * (s - 1) / max(groups * (groups - 1), 1) * np.outer(c / sizes, c / sizes)
    np.fill_diagonal(between, scale * m * m * s / groups * c * (c - 1) / np.maximum(sizes * (sizes - 1), 1))
    is_member = np.eye(groups)[group]
    return PairProbabilities(ids, counts, within, is_member @ between / counts[:, None], is_member / counts[:, None])


def super_classes_of(ids: np.ndarray, super_classes: npt.ArrayLike | dict[int, int]) -> np.ndarray:
    """The super-class id of each class, `(classes,)` int64."""
    super_classes = as_unmasked(super_classes, "super_classes")
    if not isinstance(super_classes, dict):
        super_classes = dict(enumerate(np.asarray(super_classes).tolist()))
    unknown = [label for label in ids.tolist() if label not in super_classes]
    if unknown:
        raise ValueError(
            f"Received super_classes of {len(super_classes)} classes without class {unknown[0]} ({len(unknown)} of "
            f"{len(ids)} classes are missing), expected the super-class of every class."
        )
    return np.array([super_classes[label] for label in ids.tolist()], dtype="int64")


def mixed_probabilities(designs: Sequence[PairProbabilities], weights: Sequence[float]) -> PairProbabilities:
    """Q of a design that draws each batch from one of several designs with these weights, whose sum is 1."""
    ids = np.unique(np.concatenate([q.ids for q in designs]))
    counts, within = np.zeros(len(ids), dtype="int64"), np.zeros(len(ids))
    anchor_factors, reference_factors = [], []
    for q, weight in zip(designs, weights, strict=True):
        rows = np.searchsorted(ids, q.ids)
        other = q.ids[(counts[rows] != 0) & (counts[rows] != q.counts)]
        if other.size:
            raise ValueError(f"Received different numbers of examples of class {other[0]}, expected one.")
        counts[rows] = q.counts
        within[rows] += weight * q.within
        anchor_factors.append(_scattered(weight * q.anchor_factors, rows, len(ids)))
        reference_factors.append(_scattered(q.reference_factors, rows, len(ids)))
    factors = np.concatenate(anchor_factors, axis=1), np.concatenate(reference_factors, axis=1)
    return PairProbabilities(ids, counts, within, *factors)


def _scattered(values, rows, count):
    """`(count, terms)` with the values in these rows and 0 elsewhere."""
    scattered = np.zeros((count, values.shape[1]))
    scattered[rows] = values
    return scattered


def induced_lambda(anchor_count: npt.ArrayLike, negative_count: npt.ArrayLike, classes: int) -> np.ndarray:
    """Effective number of negatives per positive pair in the contrastive loss, for each pair of classes.

    lambda = N_j (L - 1) / (N_i - 1): `negatives_per_positive` of the balanced contrastive loss for a weight of 1.

    Example: an anchor of a class of 5, a negative of a class of 10, of 4 classes: 10 * 3 / 4.

        >>> float(tfdml.importance.induced_lambda(5, 10, classes=4))
        7.5

    Args:
        anchor_count: N_i, number of examples in the class of the anchor, at least 2; a number or an array.
        negative_count: N_j, number of examples in the class of the negative; broadcast against `anchor_count`.
        classes: L.

    Returns:
        float64 of the broadcast shape: `induced_lambda(n[:, None], n, len(n))` covers all pairs of classes.

    Source: Hong, Park and Kim, Deep Metric Learning via Weighted Contrastive Loss, eq. (17).
    """
    anchor_count = as_unmasked(anchor_count, "anchor_count")
    negative_count = as_unmasked(negative_count, "negative_count")
    anchor_count = np.asarray(anchor_count, dtype="float64")
    least = anchor_count.min(initial=2)
    require(least >= 2, f"a class of {least:g} examples as anchors", "2 or more")
    return np.asarray(negative_count, dtype="float64") * (classes - 1) / (anchor_count - 1)


def pairs_inside(counts: np.ndarray, examples: int) -> np.ndarray:
    """Expected number of times that each ordered pair of examples of a class occurs in a batch with the class.

    m (m - 1) / (N (N - 1)) for N = `counts` and m = `examples`; less if a class repeats examples, 0 for one example.
    """
    repeats = examples // counts
    remainder = examples - repeats * counts
    pairs = examples**2 - remainder * (repeats + 1) ** 2 - (counts - remainder) * repeats**2
    return pairs / np.maximum(counts * (counts - 1), 1)


def _counts(class_counts, *, at_least):
    ids, counts = positive_counts(class_counts)
    require(len(ids) >= at_least, f"counts of {len(ids)} classes", f"{at_least} or more")
    return ids, counts
