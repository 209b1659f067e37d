"""Whether a retrieval is no better than chance."""

import numpy as np

from tfdml.evaluation.report.records import Evaluation

_LIMIT = 1.645  # standard deviations: one-sided, p = 0.05
_TELLING = 5.0  # standard deviations of a perfect result, so that fewer queries are no reason
AT_CHANCE = "no better than chance: look whether the labels belong to their images"


def is_at_chance(evaluation: Evaluation, gallery_labels: np.ndarray | None = None) -> bool:
    """Whether the nearest neighbors are of the class of their query no more often than random items (p above 0.05).

    Without `gallery_labels`, queries are searched among themselves. False where the queries are too few to tell.
    """
    labels, hits = evaluation.per_query.labels, evaluation.per_query.values["recall@1"]
    is_own_gallery = int(gallery_labels is None)
    classes, counts = np.unique(labels if gallery_labels is None else gallery_labels, return_counts=True)
    chances = (counts[np.searchsorted(classes, labels)] - is_own_gallery) / (evaluation.items - is_own_gallery)
    deviation = np.sqrt((chances * (1 - chances)).sum())
    can_tell = (1 - chances).sum() > _TELLING * deviation
    return bool(can_tell and (hits - chances).sum() < _LIMIT * deviation)
