"""How many pairs of a batch teach anything."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfdml.analysis.pair_weights import pair_weights, positives_of

# As a share of the largest weight. Losses of euclidean distances shorten squared norms by 1e-6, which gives pairs
# without weight up to 1e-6 of the largest.
_TOLERANCE = 1e-5


class ActivePairs(NamedTuple):
    """The share of the positive and of the negative pairs that have a weight, in [0, 1]."""

    positive: float
    negative: float


def active_pairs(loss: Callable[..., Any], labels: npt.ArrayLike, embeddings: npt.ArrayLike) -> ActivePairs:
    """The shares of the positive and of the negative pairs of a batch whose weight under a loss is not 0.

    #{ij positive: w_ij != 0} / #{ij positive}, and the same of negatives, with the weights w of `pair_weights`

    A weight is 0 up to 1e-5 of the largest weight of the batch. Pairs that the loss's miner drops or its `pairing`
    passes over are not active, and a hinge leaves out the pairs that stand well.

    Args:
        loss, labels, embeddings: as in `pair_weights`; embeddings are scaled to norm 1. A loss that chooses by chance
            draws once, as in a step of training.

    Returns:
        `ActivePairs(positive, negative)`; a share is 0 where there are no such pairs.

    Raises:
        ValueError: as `pair_weights`.
    """
    weights = np.abs(pair_weights(loss, labels, embeddings))
    active = weights > _TOLERANCE * weights.max(initial=0.0)
    positive = positives_of(loss, labels, embeddings)
    negative = ~positive & ~np.eye(len(weights), dtype=bool)
    return ActivePairs(_share(active, positive), _share(active, negative))


def _share(active, pairs):
    return float(np.sum(active & pairs) / max(1, np.sum(pairs)))
