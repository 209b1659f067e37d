"""Multi-similarity loss, and RAW: the same loss with valid-triplet mining."""

from typing import Unpack

from tfdml._core.checks import require, require_positive
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import softplus_sum_exp
from tfdml.miners import ValidTriplets
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Miner, Tensor


def multi_similarity(pairs: Pairs, *, alpha: float = 2.0, beta: float = 50.0, threshold: float = 0.5) -> Tensor:
    """Values of `MultiSimilarityLoss`, one per anchor.

    (1/alpha) log(1 + sum_p exp(-alpha (s_ap - threshold))) + (1/beta) log(1 + sum_n exp(beta (s_an - threshold)))
    """
    s = cosine(pairs)
    pull = softplus_sum_exp(-alpha * (s - threshold), pairs.positive) / alpha
    push = softplus_sum_exp(beta * (s - threshold), pairs.negative) / beta
    return pull + push


@serializable
class MultiSimilarityLoss(PairLoss, in_blocks=True):
    """Multi-similarity loss.

    (1/alpha) log(1 + sum_p exp(-alpha (s_ap - threshold))) + (1/beta) log(1 + sum_n exp(beta (s_an - threshold)))

    With `miner=tfdml.miners.ValidTriplets(margin=0.1)` this is the full method of the paper. s is the cosine
    similarity; embeddings need not be normalized. An anchor with neither positives nor negatives gives 0.

    Also called: MS loss.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.MultiSimilarityLoss(alpha=2.0, beta=50.0, threshold=0.5)
        >>> # the mean of log(1 + exp(-0.2)) / 2, 0.2991 + 15 / 50 and 15 / 50
        >>> round(float(loss(labels, embeddings)), 4)
        0.3994

    See also: `BinomialDevianceLoss`, in which the weight of a pair depends on this pair alone.

    Args:
        alpha, beta: sharpness on positives and on negatives, above 0.
        threshold: cosine similarity that separates positives from negatives, in [-1, 1].

    Source: Wang, Han, Huang, Dong, Scott, Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning,
    CVPR 2019, eq. 15. The threshold of 0.5 is from A Unified View of Deep Metric Learning via Gradient Analysis,
    section 6.
    """

    def __init__(
        self, *, alpha: float = 2.0, beta: float = 50.0, threshold: float = 0.5, **options: Unpack[PairOptions]
    ) -> None:
        require_positive(alpha=alpha, beta=beta)
        require(-1 <= threshold <= 1, f"threshold={threshold}", "a cosine similarity in [-1, 1]")
        super().__init__(multi_similarity, alpha=alpha, beta=beta, threshold=threshold, **options)


_VALID_TRIPLETS = ValidTriplets(margin=0.1)


@serializable
class RAWLoss(MultiSimilarityLoss, in_blocks=True):
    """Relative and absolute weights over valid triplets: the multi-similarity loss with the valid-triplet miner.

    Source: A Unified View of Deep Metric Learning via Gradient Analysis, eq. 17 with section 5.1 (RAW + VTHM).

    Also called: RAW + VTHM; the full multi-similarity method, loss and miner.

    See also: `MultiSimilarityLoss`, by default over all pairs: the first to try.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.RAWLoss()
        >>> round(float(loss(labels, embeddings)), 4)
        0.1997

    Args:
        alpha, beta, threshold: as in `MultiSimilarityLoss`.
        miner: valid triplets with the paper's margin of 0.1; None for all pairs.
        **options: `pairing`, `importance`, `match`, `anchors_per_block`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(  # type: ignore[misc]  # miner and name have their own defaults here
        self,
        *,
        alpha: float = 2.0,
        beta: float = 50.0,
        threshold: float = 0.5,
        miner: Miner | None = _VALID_TRIPLETS,
        name: str | None = "raw",
        **options: Unpack[PairOptions],
    ) -> None:
        super().__init__(alpha=alpha, beta=beta, threshold=threshold, miner=miner, name=name, **options)
