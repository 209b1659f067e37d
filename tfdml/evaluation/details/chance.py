"""Whether a retrieval is no better than chance."""

import numpy as np

from tfdml.evaluation.record import Evaluation

_LIMIT = 1.645  # standard deviations: one-sided, p = 0.05
_TELLING = 5.0  # standard deviations of a perfect result, so that fewer queries are no reason
AT_CHANCE = "no better than chance: look whether the labels belong to their images"


def is_at_chance(evaluation: Evaluation, gallery_labels: np.ndarray | None = None) -> bool:
    """Whether the nearest neighbors are of the class of their query no more often than random items (p above 0.05).

    Of several models, all are. Without `gallery_labels`, queries are searched among themselves. False where the queries
    are too few to tell.
    """
    if evaluation.items is None:
        raise ValueError("Received an evaluation of rankings or scores, expected one of embeddings.")
    labels, is_own_gallery = evaluation.labels, int(gallery_labels is None)
    classes, counts = np.unique(labels if gallery_labels is None else gallery_labels, return_counts=True)
    chances = (counts[np.searchsorted(classes, labels)] - is_own_gallery) / (evaluation.items - is_own_gallery)
    deviation = np.sqrt((chances * (1 - chances)).sum())
    can_tell = (1 - chances).sum() > _TELLING * deviation
    hits = [values["recall@1"] for values in evaluation.per_query.values()]
    return bool(can_tell and all((each - chances).sum() < _LIMIT * deviation for each in hits))
