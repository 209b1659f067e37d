"""Uncertainty sets: how far the weights of pairs in a robust loss may be from uniform."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

from tfdml._core.backends import ops, while_loop
from tfdml._core.checks import as_whole, require, require_positive
from tfdml._core.serialization import Settings, serializable
from tfdml.layers.base import Seeded
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor, in_blocks
from tfdml.pairs.batch_reductions import (
    batch_largest,
    batch_max,
    batch_sum,
    num_anchors_of_batch,
    require_whole_batch,
)
from tfdml.pairs.sampling import systematic_sample

__all__ = ["KL", "GroupedKL", "Maximal", "TopK", "TopKBalanced", "Variance"]

# Losses whose relative difference is smaller are ties, such as the losses of (i, j) and (j, i) after rounding.
_RELATIVE_TIE = 1e-5


@serializable
@in_blocks
@dataclass(frozen=True)
class TopK(Settings):
    """The mean of the k largest losses: sum p = 1, 0 <= p <= 1 / k.

    Losses equal to the k-th largest share the remaining weight, so that the order of the batch does not matter. If
    fewer than k pairs have a loss above 0, the mean is over those.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1], [[0.0], [0.5], [1.5]])
        >>> losses = np.float32([[0.0, 0.25, 0.25], [0.25, 0.0, 1.0], [0.25, 1.0, 0.0]])  # of the pairs
        >>> np.asarray(tfdml.losses.uncertainty.TopK(2)(losses, pairs), float).round(4).tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.5], [0.0, 0.5, 0.0]]

    Args:
        k: number of ordered pairs, 1 or more; all pairs, if a batch has fewer. The paper sets k to twice the number of
            images in the batch, for unordered pairs; for ordered pairs, this is four times that number.

    Source: A Simple and Effective Framework for Pairwise Deep Metric Learning, section 3.2, DRO-TopK.
    """

    k: int

    def __post_init__(self):
        object.__setattr__(self, "k", as_whole("k", self.k, 1))

    def __call__(self, losses: Tensor, pairs: Pairs) -> Tensor:
        """p*, `(A, R)`."""
        return _shares(_largest(losses, self.k, pairs), pairs)


@serializable
@in_blocks
@dataclass(frozen=True)
class TopKBalanced(Settings):
    """The mean over the k / 2 positives and the k / 2 negatives with the largest losses.

    Tied losses share the weight, and pairs with zero loss are left out, as in `TopK`. If fewer than k / 2 remain, all
    are taken.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1], [[0.0], [0.5], [1.5]])
        >>> losses = np.float32([[0.0, 0.25, 0.25], [0.25, 0.0, 1.0], [0.25, 1.0, 0.0]])  # of the pairs
        >>> p = tfdml.losses.uncertainty.TopKBalanced(2)(losses, pairs)  # two tied positives, two tied negatives
        >>> np.asarray(p, float).round(4).tolist()
        [[0.0, 0.25, 0.0], [0.25, 0.0, 0.25], [0.0, 0.25, 0.0]]

    Args:
        k: an even number of ordered pairs, 2 or more; all pairs, if a batch has fewer.

    Source: A Simple and Effective Framework for Pairwise Deep Metric Learning, section 3.2, DRO-TopK-PN.
    """

    k: int

    def __post_init__(self):
        object.__setattr__(self, "k", as_whole("k", self.k, 2))
        require(self.k % 2 == 0, f"k={self.k}", "an even number of pairs, 2 or more")

    def __call__(self, losses: Tensor, pairs: Pairs) -> Tensor:
        """p*, `(A, R)`."""
        by_sign = (ops.where(weights > 0, losses, 0.0) for weights in (pairs.positive, pairs.negative))
        return _shares(sum(_largest(signed, self.k // 2, pairs) for signed in by_sign), pairs)


@serializable
class KL(Seeded):
    """Weights that grow exponentially with the loss: p proportional to exp(l / gamma).

    The maximum of sum_ij p_ij l_ij - gamma KL(p || uniform). It is near the largest loss for a small gamma, near the
    mean for a large one.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1], [[0.0], [0.5], [1.5]])
        >>> losses = np.float32([[0.0, 0.25, 0.25], [0.25, 0.0, 1.0], [0.25, 1.0, 0.0]])  # of the pairs
        >>> p = tfdml.losses.uncertainty.KL(gamma=1.0)(losses, pairs)  # exp(0.25), exp(1) / 10.57
        >>> np.asarray(p, float).round(4).tolist()
        [[0.0, 0.1214, 0.1214], [0.1214, 0.0, 0.2571], [0.1214, 0.2571, 0.0]]

    Args:
        gamma: temperature in units of the loss, above 0.
        num_samples: None for all pairs with these weights; or, as in the paper, the number of pairs to sample with
            these probabilities, whose mean has the same expectation. Sampling is systematic: a pair is drawn
            num_samples * p times, rounded up or down.
        seed: seed of the sampling: an integer, or None for a random seed. `EmbeddingModel` saves the state.

    Source: A Simple and Effective Framework for Pairwise Deep Metric Learning, section 3.2, DRO-KL.
    """

    def __init__(
        self, gamma: float = 0.1, *, num_samples: int | None = None, seed: int | None = None, **options: Any
    ) -> None:
        super().__init__(seed=seed, draws=num_samples is not None, **options)
        require_positive(gamma=gamma)
        self.gamma = gamma
        self.num_samples = None if num_samples is None else as_whole("num_samples", num_samples, 1)
        self.in_blocks = num_samples is None

    def call(self, losses: Tensor, pairs: Pairs) -> Tensor:
        """p*, `(A, R)`, or the share of the draws that each pair received."""
        scores = ops.where(losses > 0, losses / self.gamma, -float("inf"))
        p = _shares(ops.exp(scores - ops.maximum(batch_max(ops.amax(scores), pairs), 0.0)), pairs)
        if self.num_samples is None:
            return p
        require_whole_batch(pairs, f"num_samples={self.num_samples}", "it draws from all pairs of the batch")
        draws = systematic_sample(ops.reshape(p, (1, -1)), float(self.num_samples), self.uniform((1, 1), p.dtype))
        return ops.reshape(_shares(draws, pairs), ops.shape(losses))

    def get_config(self) -> dict[str, Any]:
        """The settings, for Keras."""
        return {**super().get_config(), "gamma": self.gamma, "num_samples": self.num_samples}


@serializable
@in_blocks
@dataclass(frozen=True)
class GroupedKL(Settings):
    """`KL` within each group: the positives of an anchor, and its negatives. The loss is the mean over anchors.

    Over the margin loss on similarities, with a margin so large that every pair has a loss above 0, it has the gradient

    * of the lifted structure loss log sum_p e^-s + log sum_n e^s for gamma = 1, and of HAP2S for its temperature;
    * of the multi-similarity loss for gamma = 1 / alpha, negative_gamma = 1 / beta, and `pseudo_loss` = the margin.

    With smaller margins, `keep_zero_losses=True` gives the gradient of gamma log sum_p e^(l / gamma) + gamma log sum_n
    e^(l / gamma): for gamma = 1, the gradient of the lifted structure loss of similarities that are clipped where l
    becomes 0.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1], [[0.0], [0.5], [1.5]])
        >>> losses = np.float32([[0.0, 0.25, 0.25], [0.25, 0.0, 1.0], [0.25, 1.0, 0.0]])  # of the pairs
        >>> p = tfdml.losses.uncertainty.GroupedKL(1.0)(losses, pairs)  # each sign sums to 1 / 3
        >>> np.asarray(p, float).round(4).tolist()
        [[0.0, 0.3333, 0.3333], [0.3333, 0.0, 0.3333], [0.1069, 0.2264, 0.0]]

    Args:
        gamma: temperature in units of the loss, above 0.
        negative_gamma: temperature of negatives; None for gamma.
        pseudo_loss: None, or the loss of a pseudo pair in each group, 0 in the paper. It takes its share of the weight
            and adds nothing to the loss.
        keep_zero_losses: whether a pair whose loss is 0 takes its share of the weight, exp(0), as in eq. 7. By default
            it does not, as in the experiments of the paper.

    Source: A Simple and Effective Framework for Pairwise Deep Metric Learning, eqs. 7 and 23. There the pseudo pair
    has zero loss, which moves the thresholds of the multi-similarity loss to lambda + m and lambda - m.
    """

    gamma: float = 1.0
    _: KW_ONLY
    negative_gamma: float | None = None
    pseudo_loss: float | None = None
    keep_zero_losses: bool = False

    def __post_init__(self):
        require_positive(gamma=self.gamma)
        if self.negative_gamma is not None:
            require_positive(negative_gamma=self.negative_gamma)

    def __call__(self, losses: Tensor, pairs: Pairs) -> Tensor:
        """p*, `(A, R)`: the softmax of each group, divided by the number of anchors.

        p_ar = exp(l_ar / gamma) / (sum_k exp(l_ak / gamma) + exp(pseudo_loss / gamma)) / A

        k runs over the pairs of a that have the sign of r and a loss above 0, or over all pairs of that sign with
        `keep_zero_losses`; gamma is the temperature of that sign.
        One matrix of exponentials holds both groups: one matrix per group takes a quarter more time.
        """
        is_positive, gammas = pairs.positive > 0, (self.gamma, self.negative_gamma or self.gamma)
        groups = (is_positive, pairs.negative > 0)
        logits = ops.where(is_positive, *(losses / gamma for gamma in gammas))
        has_share = ops.logical_or(*groups) if self.keep_zero_losses else losses > 0
        logits = ops.where(has_share, logits, -float("inf"))
        pseudo_logits = [-float("inf") if self.pseudo_loss is None else self.pseudo_loss / gamma for gamma in gammas]
        tops = [_top(logits, group, pseudo) for group, pseudo in zip(groups, pseudo_logits, strict=True)]
        exps = ops.exp(logits - ops.where(is_positive, *tops))
        pseudo_logits = [pseudo - top for pseudo, top in zip(pseudo_logits, tops, strict=True)]
        totals = [_total(exps, group, pseudo) for group, pseudo in zip(groups, pseudo_logits, strict=True)]
        return exps / ops.where(is_positive, *totals) / ops.cast(num_anchors_of_batch(pairs), losses.dtype)


def _top(logits, group, pseudo_logit):
    """The largest logit of each row in a group or of its pseudo pair, `(A, 1)`; 0 in an empty group."""
    top = ops.amax(ops.where(group, logits, -float("inf")), axis=1, keepdims=True)
    return ops.maximum(top, pseudo_logit if math.isfinite(pseudo_logit) else 0.0)


def _total(exps, group, pseudo_logit):
    """The sum of each row in a group and of its pseudo pair, `(A, 1)`; 1 where it is 0."""
    total = ops.sum(ops.where(group, exps, 0.0), axis=1, keepdims=True) + ops.exp(pseudo_logit)
    return ops.where(total > 0, total, 1.0)


@serializable
@dataclass(frozen=True)
class Variance(Settings):
    """Mean plus spread of the losses: p within a ball around the uniform weights.

    sum_ij (n p_ij - 1)^2 <= 2 rho for the n pairs with a loss above 0. The maximum is mean(l) + sqrt(2 rho var(l) / n)
    as long as every p is 0 or more; beyond that, the pairs with the smallest losses get weight 0.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1], [[0.0], [0.5], [1.5]])
        >>> losses = np.float32([[0.0, 0.25, 0.25], [0.25, 0.0, 1.0], [0.25, 1.0, 0.0]])  # of the pairs
        >>> p = tfdml.losses.uncertainty.Variance(rho=0.5)(losses, pairs)
        >>> np.asarray(p, float).round(4).tolist()
        [[0.0, 0.1186, 0.1186], [0.1186, 0.0, 0.2629], [0.1186, 0.2629, 0.0]]

    Args:
        rho: size of the ball, above 0.

    Source: A Simple and Effective Framework for Pairwise Deep Metric Learning, section 3.1; Namkoong, Duchi,
    Variance-based Regularization with Convex Objectives, NIPS 2017.
    """

    rho: float = 1.0

    def __post_init__(self):
        require_positive(rho=self.rho)

    def __call__(self, losses: Tensor, pairs: Pairs) -> Tensor:
        """p*, `(A, R)`."""
        require_whole_batch(pairs, "Variance", "it leaves pairs out one after the other")
        n = ops.maximum(ops.sum(ops.cast(losses > 0, losses.dtype)), 1.0)

        def weights(remains):
            """For the m pairs that remain, p = 1 / m + c (l - mean), sum p = 1 and sum p^2 = (1 + 2 rho / n) / n."""
            mask = ops.cast(remains, losses.dtype)
            m = ops.maximum(ops.sum(mask), 1.0)
            mean = ops.sum(mask * losses) / m
            centered = mask * (losses - mean)
            spread = ops.sum(ops.square(centered))
            is_spread = spread > m * ops.square(_RELATIVE_TIE * mean)
            excess = ops.maximum((m - n) / (m * n) + 2.0 * self.rho / ops.square(n), 0.0)
            return mask / m + ops.where(is_spread, ops.sqrt(excess / ops.where(is_spread, spread, 1.0)), 0.0) * centered

        def drop_negative(remains, p):
            remains = remains & (p > 0)
            return remains, weights(remains)

        def has_negative(remains, p):
            return ops.any(remains & (p <= 0))

        remains = losses > 0
        _, p = while_loop(has_negative, drop_negative, (remains, weights(remains)))
        return _shares(p, pairs)


@serializable
@in_blocks
@dataclass(frozen=True)
class Maximal(Settings):
    """The largest loss alone: sum p = 1. Tied pairs share the weight.

    Example:

        >>> pairs = tfdml.pairs.all_pairs([0, 0, 1], [[0.0], [0.5], [1.5]])
        >>> losses = np.float32([[0.0, 0.25, 0.25], [0.25, 0.0, 1.0], [0.25, 1.0, 0.0]])  # of the pairs
        >>> np.asarray(tfdml.losses.uncertainty.Maximal()(losses, pairs), float).round(4).tolist()  # two are tied
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.5], [0.0, 0.5, 0.0]]

    Source: A Simple and Effective Framework for Pairwise Deep Metric Learning, section 3.1; Shalev-Shwartz, Wexler,
    Minimizing the Maximal Loss: How and Why, ICML 2016.
    """

    def __call__(self, losses: Tensor, pairs: Pairs) -> Tensor:
        """p*, `(A, R)`."""
        largest = batch_max(ops.amax(losses), pairs)
        is_largest = losses >= largest * (1.0 - _RELATIVE_TIE)
        return _shares(ops.cast((losses > 0) & is_largest, losses.dtype), pairs)


def _largest(losses, k, pairs):
    """1 for each of the k largest losses above 0; losses tied with the k-th share the rest of k: `(A, R)`."""
    threshold = _threshold(losses, k, pairs)
    above = ops.cast(losses > threshold * (1.0 + _RELATIVE_TIE), losses.dtype)
    equal = ops.cast((losses > 0) & (losses >= threshold * (1.0 - _RELATIVE_TIE)), losses.dtype) - above
    num_above, num_equal = ops.unstack(batch_sum(ops.stack([ops.sum(above), ops.sum(equal)]), pairs), 2)
    return above + equal * (k - num_above) / ops.maximum(num_equal, 1.0)


def _threshold(losses, k, pairs):
    """The k-th largest loss of the batch, 0 if it has fewer."""
    values = ops.reshape(losses, (-1,))
    size = values.shape[0]
    if pairs.block is None:
        return _kth_largest(values if size and size >= k else ops.pad(values, ((0, k),)), k)
    missing = ops.full((max(0, k - (size or 0)),), -float("inf"), dtype=losses.dtype)
    return ops.maximum(batch_largest(ops.sort(ops.concatenate([missing, values]))[-k:], k, pairs)[0], 0.0)


def _kth_largest(values, k):
    """The k-th largest of a vector.

    A block whose maximum is not among the k largest block maxima contains none of the k largest values. That leaves k
    blocks, and so on. Sorting all values takes thirty times as long under XLA.
    """
    size = values.shape[0]
    if size is None:  # a graph without XLA, in which this is fast
        return ops.top_k(values, k)[0][-1]
    while size >= 16 * k:
        length = min(size // (8 * k), 64)
        blocks = ops.reshape(ops.pad(values, (0, -size % length), constant_values=0.0), (length, -1))
        best = ops.argsort(-ops.amax(blocks, axis=0))[:k]
        values = ops.reshape(ops.take(blocks, best, axis=1), (-1,))
        size = length * k
    return ops.sort(values)[-k]


def _shares(weights, pairs):
    """Weights divided by their sum over the batch; all 0 where that is 0."""
    total = batch_sum(ops.sum(weights), pairs)
    return weights / ops.where(total > 0, total, 1.0)


def __dir__():
    return __all__
