"""Relevance that is not equality of classes: labels of any form, compared by a function."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tfdml._core.checks import require
from tfdml.metrics.retrieval.measures import last_of, values_of_ranks
from tfdml.metrics.retrieval.ranks.base import descending_order
from tfdml.metrics.retrieval.relevance import Relevance, as_rows, require_classes
from tfdml.metrics.retrieval.ties import expected_values

Match = Callable[[np.ndarray, np.ndarray], Any]


class MatchedRelevance(Relevance):
    """Relevance by a function of labels of any form, and exclusion by groups."""

    def __init__(self, match, labels, gallery_labels, groups, gallery_groups, num_queries, num_items):
        """Check the labels and groups."""
        require(callable(match), f"match={match!r}", "a function of two arrays of labels, or None")
        one_class = None if gallery_labels is None else np.zeros(num_items or 0, int)
        super().__init__(np.zeros(num_queries, int), one_class, groups, gallery_groups, num_queries, num_items)
        self._match = match
        self._any_labels = self._any_gallery_labels = as_rows(labels, "labels", num_queries)
        if not self.leave_one_out:
            self._any_gallery_labels = as_rows(gallery_labels, "gallery_labels", num_items)

    def grades(self, rows):
        """Grades of the gallery for a slice of queries: `(rows, items)`, 0 for items that are not candidates."""
        labels = self._any_labels[rows]
        grades = np.array(self._match(labels, self._any_gallery_labels))
        _require_grades(grades, (len(labels), len(self._any_gallery_labels)))
        for query, row in enumerate(grades, rows.start):
            row[self.excluded(query)] = 0
        return grades

    def grades_of_lists(self, rows, neighbors, last):
        """Grades of neighbors `(rows, n)`, the number of relevant items, and the `last` highest grades."""
        grades = self.grades(rows)
        best = -np.sort(-grades.astype(np.float64), axis=1)[:, :last]
        return np.take_along_axis(grades, neighbors, axis=1), np.count_nonzero(grades, axis=1), best


def _require_grades(grades, shape):
    is_valid = grades.shape == shape and grades.dtype.kind in "biuf" and bool(((grades >= 0) & (grades < np.inf)).all())
    received = f"a matrix of shape {grades.shape}, {grades.dtype}, from match"
    require(is_valid, received, f"(queries, items) = {shape} booleans or finite grades of at least 0")


def relevance_of(match, average, **options):
    """`Relevance` by classes, or `MatchedRelevance` by `match`."""
    if match is None:
        relevance = Relevance(**options)
        require_classes(relevance)
        return relevance
    require(average != "macro", "average='macro' with match", "'micro', because the queries have no classes")
    return MatchedRelevance(match, **options)


def values_of_grades(scores, grades, cutoffs, ties):
    """Metrics of one query from the scores and grades of its gallery, and whether its best relevant score is shared.

    `scores` are `(items,)` float32, -inf for items that are not candidates; `grades` are not all 0.
    """
    order = descending_order(scores)
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
