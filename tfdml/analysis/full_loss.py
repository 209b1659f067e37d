"""The loss on all ordered pairs of a training set, exactly and in chunks."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from keras import ops

from tfdml._core.checks import require
from tfdml.analysis._embeddings import require_matrix
from tfdml.losses import PairLoss
from tfdml.pairs import Pairs, pairs_with
from tfdml.typing import Labels

_PAIRS_PER_CHUNK = 2**23  # A few matrices of 32 MiB at the same time.


def full_loss(loss: PairLoss, embeddings: npt.ArrayLike, labels: Labels) -> float:
    """The mean of a loss over all anchors of a set, each against all other examples of the set.

    For the contrastive losses that is the mean over all ordered pairs,

    1 / (N (N - 1)) sum_ij Y_ij g(d_ij) + (1 - Y_ij) eta_ij h(d_ij)

    The loss of a batch with the importance weights of its sampler is an unbiased estimate of this mean.

    Example: points on a line. Four ordered positives are at 1, and two negatives, at 1, are within the margin of 2.

        >>> x, labels = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
        >>> loss = tfdml.losses.ContrastiveLoss(negative_margin=2.0)
        >>> round(tfdml.analysis.full_loss(loss, x, labels), 4)  # (4 * 1 + 2 * (2 - 1)^2) / 12
        0.5

    Args:
        loss: a `PairLoss` whose value for an anchor depends on the pairs of that anchor alone: contrastive, logistic,
            multi-similarity, NCA, ... Losses that divide by a count over the batch (triplet, lifted structure) are not
            means over anchors. It ignores `importance`, because the set is not a sample. It must not have a miner.
        embeddings: `(examples, dim)` array.
        labels: `(examples,)` integer class ids, or labels that the loss's `match` accepts.

    Returns:
        A float; 0 for a set without pairs. Time grows with the square of the number of examples. Memory does not: it
        compares 2^23 pairs at a time, in float32, and sums in float64.

    Source: Hong, Park and Kim, Deep Metric Learning via Weighted Contrastive Loss, eq. (10) as the mean of eq. (23).
    """
    require(loss.miner is None, f"a loss with miner={loss.miner!r}", "one of all pairs: pass it without miner")
    embeddings, labels = np.asarray(embeddings), np.asarray(labels)
    require_matrix(embeddings, "loss, embeddings, labels")
    total = 0.0
    for pairs in pairs_in_chunks(embeddings, labels, loss.match):
        total += np.sum(ops.convert_to_numpy(loss.values(pairs)), dtype="float64")
    return float(total / len(labels))


def pairs_in_chunks(
    embeddings: np.ndarray, labels: np.ndarray, match: Callable[..., Any] | None = None
) -> Iterator[Pairs]:
    """All ordered pairs of a set, as `Pairs` of one chunk of anchors at a time against all examples."""
    chunk = max(1, _PAIRS_PER_CHUNK // max(1, len(labels)))
    for start in range(0, len(labels), chunk):
        rows = slice(start, start + chunk)
        pairs = pairs_with(labels[rows], embeddings[rows], labels, embeddings, match=match)
        is_other = np.ones(tuple(pairs.positive.shape), dtype="float32")
        np.fill_diagonal(is_other[:, start:], 0.0)
        yield pairs.scale(positive=is_other, negative=is_other)
