"""Ensembles of learners, columns of one embedding that the losses scale to norm 1: cascades, boosting, divergence."""

import itertools
from collections.abc import Sequence
from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_positive
from tfdml._core.serialization import serializable
from tfdml.losses.base import LossOptions, PairLoss, PairOptions
from tfdml.losses.pairwise.logistic import binomial_deviance
from tfdml.losses.reductions import count
from tfdml.losses.wrappers.base import LossOverBase, as_dims, by_learner, require_base, require_sum_over_pairs
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import require_whole_batch

# Losses whose relative difference is smaller are ties, such as the losses of (i, j) and (j, i) after rounding.
_RELATIVE_TIE = 1e-5


def cascade(pairs: Pairs, *, base: PairLoss, dims: Sequence[int], shares: Sequence[float]) -> Tensor:
    """Values of `CascadeLoss`, one per anchor.

    sum_k base(learner k on H_k),  H_1 = all pairs,  H_k+1 = the pairs of H_k with the largest losses of learner k
    """
    require_whole_batch(pairs, "the cascade", "it selects the hardest pairs of all anchors")
    first, *others = by_learner(pairs, dims)
    total, learner = base.values(first), first
    numbers = [ops.sum(count(weights)) for weights in (pairs.positive, pairs.negative)]
    for share, after in zip(shares, others, strict=True):
        losses = ops.stop_gradient(base.pair_losses(learner))
        weights = (learner.positive, learner.negative)
        hard = [_hardest(losses, w, share * number) for w, number in zip(weights, numbers, strict=True)]
        learner = after._replace(positive=hard[0], negative=hard[1])
        total = total + base.values(learner)
    return total


def _hardest(losses, weights, number):
    """The weights of the pairs with the largest losses above 0, `number` of them, and 0 for all others."""
    candidates = ops.sort(ops.reshape(ops.where(weights > 0, losses, 0.0), (-1,)))
    rank = ops.maximum(ops.cast(ops.round(number), "int32"), 1)
    threshold = ops.take(candidates, ops.shape(candidates)[0] - rank)
    return ops.where((losses > 0) & (losses >= threshold * (1.0 - _RELATIVE_TIE)), weights, 0.0)


def boosted(
    pairs: Pairs, *, dims: Sequence[int], alpha: float = 2.0, beta: float = 50.0, threshold: float = 0.5
) -> Tensor:
    """Values of `BoostedLoss`, one per anchor.

    (1 / M) sum_m binomial deviance of learner m, with the weight w_m of each pair
    w_1 = 1,  w_m+1 = sigmoid(alpha (threshold - S_m)) for positives, sigmoid(beta (S_m - threshold)) for negatives
    S_m = (1 - eta_m) S_m-1 + eta_m s_m,  eta_m = 2 / (m + 1)
    """
    sharpness = {"alpha": alpha, "beta": beta, "threshold": threshold}
    total, similarity, weights = 0.0, 0.0, 1.0
    for m, learner in enumerate(by_learner(pairs, dims), start=1):
        total = total + binomial_deviance(learner.scale(positive=weights, negative=weights), **sharpness)
        similarity = similarity + 2.0 / (m + 1) * (ops.stop_gradient(cosine(learner)) - similarity)
        errors = ops.where(pairs.positive > 0, alpha * (threshold - similarity), beta * (similarity - threshold))
        weights = ops.sigmoid(errors)
    return total / len(dims)


def divergence(
    pairs: Pairs, *, base: PairLoss, dims: Sequence[int], margin: float = 1.0, weight: float = 1.0
) -> Tensor:
    """Values of `DivergenceLoss`, one per anchor.

    sum_m base(learner m) + weight sum_{m < l} max(0, margin - |u_m - u_l|^2)
    """
    learners = by_learner(pairs, dims)
    both = itertools.combinations([learner.anchors for learner in learners], 2)
    near = [ops.relu(margin - ops.sum(ops.square(u - v), axis=1)) for u, v in both]
    compared = ops.cast(count(pairs.positive + pairs.negative) > 0, pairs.positive.dtype)
    return sum(base.values(learner) for learner in learners) + weight * compared * sum(near)


@serializable
class CascadeLoss(LossOverBase):
    """Loss of a hard-aware cascade (HDC): each learner trains on the hardest pairs of the one before.

    sum_k base(learner k on H_k),  H_1 = all pairs,  H_k+1 = the pairs of H_k with the largest losses of learner k

    H_k+1 has the share h_k of the positive pairs of the batch, and the same share of its negative pairs. A pair whose
    loss is not above 0 is not hard; pairs tied with the last one are kept. An anchor without pairs gives 0. A base with
    `anchors_per_block` is an error, because a share of all pairs of the batch is sorted.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0, 1.0, 0.0], [0.6, 0.8, 0.6, 0.8], [0.0, 1.0, 0.0, 1.0]]
        >>> loss = tfdml.losses.CascadeLoss(tfdml.losses.CosineRegressionLoss(), dims=(2, 2), shares=(0.5,))
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of 0.12, 0.4 and 0.48
        0.3333

    See also: `RobustLoss`, hard pairs for one learner.

    Args:
        base: a loss with `pair_losses(pairs)`, such as `ContrastiveLoss`, `MarginLoss` or `BinomialDevianceLoss`. Its
            `pairing`, `miner`, `importance` and `match` are used.
        dims: numbers of columns of the learners, the shallowest first; their sum is the dimension of the embeddings.
        shares: h_1, h_2, ...: shares of the pairs for the second learner, the third, ...; in (0, 1], not increasing.

    Source: Yuan, Yang, Zhang, Hard-Aware Deeply Cascaded Embedding, ICCV 2017, with the contrastive loss and shares of
    0.5 and 0.2. Here the base reduces the pairs of each anchor, usually to their mean.
    """

    def __init__(
        self,
        base: PairLoss,
        *,
        dims: Sequence[int] = (32, 32, 32),
        shares: Sequence[float] = (0.5, 0.2),
        **options: Unpack[LossOptions],
    ) -> None:
        require_sum_over_pairs(base)
        dims, shares = as_dims(dims), tuple(shares)
        require(len(shares) == len(dims) - 1, f"shares={shares} for dims={dims}", "a share per learner but the first")
        falling = list(shares) == sorted(shares, reverse=True) and all(0 < share <= 1 for share in shares)
        require(falling, f"shares={shares}", "numbers in (0, 1], none larger than the one before it")
        super().__init__(cascade, base, {"dims": dims, "shares": shares}, dict(options))


@serializable
class BoostedLoss(PairLoss, in_blocks=True):
    """Loss of boosted embeddings (BIER): more weight on errors of the learners before.

    (1 / M) sum_m binomial deviance of learner m, with the weight w_m of each pair
    w_1 = 1,  w_m+1 = sigmoid(alpha (threshold - S_m)) for positives, sigmoid(beta (S_m - threshold)) for negatives
    S_m = (1 - eta_m) S_m-1 + eta_m s_m,  eta_m = 2 / (m + 1)

    s_m is the cosine similarity of learner m, and S_m the similarity of the ensemble of the first m learners. The
    weights are the negative derivative of the deviance log(1 + exp(-z)) by z at S_m, and constants in the gradient. An
    anchor without pairs gives 0.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0, 1.0, 0.0], [0.6, 0.8, 0.6, 0.8], [0.0, 1.0, 0.0, 1.0]]
        >>> loss = tfdml.losses.BoostedLoss(dims=(2, 2))  # tfdml.models.ensemble takes its dims and shares
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of 0.4337, 15.4337 and 7.5
        7.7891

    See also: `BinomialDevianceLoss`, the loss of one learner.

    Args:
        dims: numbers of columns of the M learners, in sum the dimension; the paper gives later learners more.
        alpha, beta: sharpness on positives and on negatives, above 0.
        threshold: cosine similarity that separates positives from negatives, in [-1, 1].

    Attributes:
        shares: share of each learner in the similarity of the ensemble, 2 m / (M (M + 1)); their sum is 1.

    Source: Opitz, Waltner, Possegger, Bischof, BIER - Boosting Independent Embeddings Robustly, ICCV 2017; weights
    without the sharpness, and the factor 1 / M, as in the code of its authors.
    """

    def __init__(
        self,
        *,
        dims: Sequence[int] = (16, 32, 48),
        alpha: float = 2.0,
        beta: float = 50.0,
        threshold: float = 0.5,
        **options: Unpack[PairOptions],
    ) -> None:
        require_positive(alpha=alpha, beta=beta)
        require(-1 <= threshold <= 1, f"threshold={threshold}", "a cosine similarity in [-1, 1]")
        self.dims = as_dims(dims)
        super().__init__(boosted, dims=self.dims, alpha=alpha, beta=beta, threshold=threshold, **options)

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of each learner in the similarity of the ensemble."""
        learners = len(self.dims)
        return tuple(2 * m / (learners * (learners + 1)) for m in range(1, learners + 1))


@serializable
class DivergenceLoss(LossOverBase, in_blocks=True):
    """Loss of diverse learners (ABE): the base loss of each, and a push between them.

    sum_m base(learner m) + weight sum_{m < l} max(0, margin - |u_m - u_l|^2)

    u_m is the embedding of the anchor by learner m. An anchor without pairs gives 0.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0, 1.0, 0.0], [0.6, 0.8, 0.6, 0.8], [0.0, 1.0, 0.0, 1.0]]
        >>> base = tfdml.losses.CosineRegressionLoss()  # 0.1333 for each learner; they are equal: a push of 1
        >>> loss = tfdml.losses.DivergenceLoss(base, dims=(2, 2))
        >>> round(float(loss(labels, embeddings)), 4)
        1.2667

    See also: `BoostedLoss` and `CascadeLoss`, in which learners differ by the pairs they learn from.

    Args:
        base: any loss over pairs. Its `pairing`, `miner`, `importance` and `match` are used.
        dims: numbers of columns of the learners, all equal; their sum is the dimension of the embeddings.
        margin: squared distance from which two learners are far enough apart, in (0, 4].
        weight: weight of the push between learners, 0 or more.

    Source: Kim, Goyal, Chawla, Lee, Kwon, Attention-based Ensemble for Deep Metric Learning, ECCV 2018.
    """

    def __init__(
        self,
        base: PairLoss,
        *,
        dims: Sequence[int] = (16, 16, 16, 16),
        margin: float = 1.0,
        weight: float = 1.0,
        **options: Unpack[LossOptions],
    ) -> None:
        require_base(base)
        dims = as_dims(dims)
        require(len(dims) > 1 and len(set(dims)) == 1, f"dims={dims}", "two equal numbers of columns or more")
        require(0 < margin <= 4, f"margin={margin}", "a squared distance of unit vectors, in (0, 4]")
        require(weight >= 0, f"weight={weight}", "0 or more")
        super().__init__(divergence, base, {"dims": dims, "margin": margin, "weight": weight}, dict(options))
