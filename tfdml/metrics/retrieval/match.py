"""Relevance that is not equality of classes: labels of any form, compared by a function."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdml._core.checks import require
from tfdml.metrics.retrieval.measures import last_of, values_of_ranks
from tfdml.metrics.retrieval.ranks.counting import falling
from tfdml.metrics.retrieval.relevance import Sides, label_rows, require_classes
from tfdml.metrics.retrieval.ties import expected_values

Match = Callable[[np.ndarray, np.ndarray], Any]


def shared_labels(labels: npt.ArrayLike, gallery_labels: npt.ArrayLike) -> np.ndarray:
    """Number of labels that two items have in common, for `match=`: items with several labels each.

    Args:
        labels: `(A, labels)` booleans, whether item i has label j.
        gallery_labels: `(B, labels)` booleans.

    Returns:
        `(A, B)` float32 whole numbers; 0, not relevant, for an item without a label.

    Raises:
        ValueError: labels that are not two matrices of booleans of the same width.
    """
    a, b = np.asarray(labels), np.asarray(gallery_labels)
    right = a.ndim == b.ndim == 2 and a.dtype == b.dtype == bool and a.shape[1] == b.shape[1]
    expected = "two (n, labels) matrices of booleans with the same number of labels"
    require(right, f"labels of shapes {a.shape} and {b.shape}, {a.dtype} and {b.dtype}", expected)
    return a.astype(np.float32) @ b.T.astype(np.float32)


def shared_levels(labels: npt.ArrayLike, gallery_labels: npt.ArrayLike) -> np.ndarray:
    """Number of levels of a hierarchy that two items have in common, for `match=`, from the coarsest level on.

    Args:
        labels: `(A, levels)` integer ids, the coarsest level first, such as family, genus and species.
        gallery_labels: `(B, levels)` integer ids.

    Returns:
        `(A, B)` integers from 0, which is not relevant, to the number of levels. Ids below a level that differs are not
        compared.

    Raises:
        ValueError: labels that are not two matrices of integers of the same width.
    """
    a, b = np.asarray(labels), np.asarray(gallery_labels)
    right = a.ndim == b.ndim == 2 and a.shape[1] == b.shape[1] and a.dtype.kind in "iu" and b.dtype.kind in "iu"
    expected = "two (n, levels) matrices of integers with the same number of levels"
    require(right, f"labels of shapes {a.shape} and {b.shape}, {a.dtype} and {b.dtype}", expected)
    shared, same = np.zeros((len(a), len(b)), np.int32), np.ones((len(a), len(b)), bool)
    for level, gallery_level in zip(a.T, b.T, strict=True):
        same &= level[:, None] == gallery_level
        shared += same
    return shared


class Matched(Sides):
    """Relevance of gallery items to queries by a function of their labels, and exclusion by groups."""

    def __init__(self, match, labels, gallery_labels, groups, gallery_groups, queries, items):
        """Checks the labels and groups; `items` is None for leave-one-out."""
        require(callable(match), f"match={match!r}", "a function of two arrays of labels, or None")
        one_class = None if gallery_labels is None else np.zeros(items or 0, int)
        super().__init__(np.zeros(queries, int), one_class, groups, gallery_groups, queries, items)
        self._match = match
        self._given = label_rows(labels, "labels", queries)
        self._gallery_given = self._given
        if not self.leave_one_out:
            self._gallery_given = label_rows(gallery_labels, "gallery_labels", items)

    def grades(self, rows):
        """Grades of the gallery for a slice of queries: `(rows, items)`, 0 for items that are not candidates."""
        found = np.array(self._match(self._given[rows], self._gallery_given))
        _require_grades(found, (len(self._given[rows]), len(self._gallery_given)))
        for query, row in enumerate(found, rows.start):
            row[self.excluded(query)] = 0
        return found

    def listed_grades(self, rows, listed, last):
        """Grades of listed gallery rows `(rows, n)`, the number of relevant items, and the `last` highest grades."""
        grades = self.grades(rows)
        best = -np.sort(-grades.astype(np.float64), axis=1)[:, :last]
        return np.take_along_axis(grades, listed, axis=1), np.count_nonzero(grades, axis=1), best


def _require_grades(found, shape):
    right = found.shape == shape and found.dtype.kind in "biuf" and bool(((found >= 0) & (found < np.inf)).all())
    received = f"a matrix of shape {found.shape}, {found.dtype}, from match"
    require(right, received, f"(queries, items) = {shape} booleans or finite grades of at least 0")


def sides_of(match, average, **about):
    """Relevance and exclusion, by classes or by `match`."""
    if match is None:
        sides = Sides(**about)
        require_classes(sides)
        return sides
    if average == "macro":
        raise ValueError("Received average='macro' with match, expected 'micro', because the queries have no classes.")
    return Matched(match, **about)


def values_of_grades(scores, grades, cutoffs, ties):
    """Metrics of one query from the scores and grades of its gallery.

    Args:
        scores: `(items,)` float32, -inf for items that are not candidates.
        grades: `(items,)` numbers, 0 for items that are not relevant, and not all 0.
        cutoffs: `Cutoff`s of `tfdml.metrics.measures`.
        ties: "index" or "expected".

    Returns:
        dict of floats, and whether the best relevant score is also that of an item that is not relevant.
    """
    order = falling(scores)
    scores, grades = scores[order], grades[order]
    hits = np.flatnonzero(grades)
    gains = grades[hits].astype(np.float64)
    best = -np.sort(-gains)[: last_of(cutoffs)]
    is_tied = not grades[scores == scores[hits[0]]].all()
    if ties == "expected":
        above = np.searchsorted(-scores, -scores[hits], "left")
        equal = np.searchsorted(-scores, -scores[hits], "right") - above
        return expected_values(above, equal, len(hits), cutoffs, gains, best), is_tied
    values = values_of_ranks(hits[None] + 1, np.array([len(hits)]), cutoffs, gains[None], best[None])
    return {name: value.item() for name, value in values.items()}, is_tied
