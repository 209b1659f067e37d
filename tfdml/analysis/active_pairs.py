"""Share of pairs with a nonzero gradient."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt

from tfdml.analysis.pair_weights import pair_weights, positives_of
from tfdml.typing import Labels

# Relative to the largest weight. Rounding of distances gives pairs without a gradient up to 1e-6 of that weight.
_TOLERANCE = 1e-5 if keras.backend.backend() != "torch" else 1e-3  # there in float32


class ActivePairs(NamedTuple):
    """The result of `active_pairs`."""

    positive: float
    negative: float


def active_pairs(loss: Callable[..., Any], embeddings: npt.ArrayLike, labels: Labels) -> ActivePairs:
    """Shares of the positive and of the negative pairs of a batch with a nonzero weight under a loss.

    #{ij positive: w_ij != 0} / #{ij positive}, and the same for negatives, with the weights w of `pair_weights`

    Weights up to 1e-5 of the largest in the batch count as 0. Pairs that the loss's miner drops, that its `pairing`
    skips, or that satisfy the margin of a hinge are not active.

    Example: distances of negatives are 0.63 and 1.41; only the first is within the margin of 1.

        >>> x, labels = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), np.array([0, 0, 1])
        >>> tfdml.analysis.active_pairs(tfdml.losses.ContrastiveLoss(negative_margin=1.0), x, labels)
        ActivePairs(positive=1.0, negative=0.5)

    Args:
        loss, embeddings, labels: as in `pair_weights`, with its errors; the function scales embeddings to norm 1. A
            loss that samples at random draws once, as in a training step.

    Returns:
        A record: `positive` and `negative`, both in [0, 1]; a share is 0 where there are no such pairs.
    """
    weights = np.abs(pair_weights(loss, embeddings, labels))
    active = weights > _TOLERANCE * weights.max(initial=0.0)
    positive = positives_of(loss, embeddings, labels)
    negative = ~positive & ~np.eye(len(weights), dtype=bool)
    return ActivePairs(_share(active, positive), _share(active, negative))


def _share(active, pairs):
    return float(np.sum(active & pairs) / max(1, np.sum(pairs)))
