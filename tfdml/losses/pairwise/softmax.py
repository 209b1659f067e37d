"""Softmax losses: cross-entropy of each anchor's positives against its references."""

import math
from collections.abc import Callable
from typing import Any, Self, Unpack

from keras import ops

from tfdml._core.checks import require
from tfdml._core.serialization import renamed, serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count, log_sum_exp, softplus_sum_exp, weighted_mean
from tfdml.pairs import Pairs, cosine, dot, squared
from tfdml.pairs.base import Tensor


def n_pairs(pairs: Pairs, *, l2: float = 0.0) -> Tensor:
    """N-pair loss, one value per anchor: cross-entropy of each positive among the negatives, on dot products.

    mean_p -log(exp(s_ap) / (exp(s_ap) + sum_n exp(s_an))) + l2 * (|a|^2 + mean_r |r|^2) / 2

    Args:
        pairs: `Pairs` of A anchors and R references, used as they are; s is their dot product. For embeddings of norm 1
            prefer `nt_xent`, which has a temperature.
        l2: weight of the mean squared norm of the embeddings; with 0, norms may grow without bound.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives only the L2 term.

    Source: Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NIPS 2016; eq. 2 of Hong, Park,
    Kim, Deep Metric Learning via Weighted Contrastive Loss. With `pairs.even_against_odd` on batches of two examples
    per class this is Sohn's multi-class N-pair loss.
    """
    values = positives_among_negatives(dot(pairs), pairs)
    if l2 == 0:
        return values
    both = (ops.cast(x, values.dtype) for x in (pairs.anchors, pairs.reference_embeddings))
    anchor_norms, reference_norms = (ops.sum(ops.square(x), axis=-1) for x in both)
    return values + l2 * (anchor_norms + ops.mean(reference_norms)) / 2


def nt_xent(pairs: Pairs, *, temperature: float = 0.07) -> Tensor:
    """Normalized, temperature-scaled cross-entropy, one value per anchor: each positive among the negatives.

    mean_p -log(exp(s_ap / t) / (exp(s_ap / t) + sum_n exp(s_an / t)))

    Args:
        pairs: `Pairs` of A anchors and R references; cosine similarity, so embeddings need not be normalized.
        temperature: t; small values emphasize the hardest negatives.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Chen, Kornblith, Norouzi, Hinton, A Simple Framework for Contrastive Learning of Visual Representations,
    ICML 2020, eq. 1, for any number of positives; InfoNCE of van den Oord et al., 2018. The temperature is that of
    Wu et al., Unsupervised Feature Learning via Non-Parametric Instance Discrimination, CVPR 2018.
    """
    return positives_among_negatives(cosine(pairs) / temperature, pairs)


def sup_con(pairs: Pairs, *, temperature: float = 0.1) -> Tensor:
    """Supervised contrastive loss, one value per anchor: each positive among all other references, positives included.

    mean_p -log(exp(s_ap / t) / sum_r exp(s_ar / t))

    Args:
        pairs: `Pairs` of A anchors and R references; cosine similarity, so embeddings need not be normalized.
        temperature: t.

    Returns:
        `(A,)`, at least log(number of positives). An anchor without positives gives 0.

    Source: Khosla et al., Supervised Contrastive Learning, NeurIPS 2020, eq. 2 (the sum outside of the logarithm).
    """
    s = cosine(pairs) / temperature
    over_all = log_sum_exp(s, pairs.positive + pairs.negative)[:, None]
    return weighted_mean(ops.where(pairs.positive > 0, over_all - s, 0.0), pairs.positive)


def nca(pairs: Pairs, *, log: bool = False) -> Tensor:
    """Neighborhood components analysis, one value per anchor: the probability that a random neighbor has another class.

    p_ar = exp(-d_ar^2) / sum_r exp(-d_ar^2), r != a;   1 - sum_p p_ap, or -log sum_p p_ap with `log`

    Args:
        pairs: `Pairs` of A anchors and R references, used as they are. Embeddings of norm 1 give a nearly flat softmax,
            because their squared distances are at most 4; multiply them by a scale.
        log: the negative log-likelihood, whose gradient does not vanish for anchors far from their class.

    Returns:
        `(A,)`. An anchor without positives gives 0.

    Source: Goldberger, Roweis, Hinton, Salakhutdinov, Neighborhood Components Analysis, NIPS 2004, eqs. 2 to 4 and 6.
    Serrat's slides print k != j under the sum; the right condition is k != i.
    """
    logits = -squared(pairs)
    among_positives = log_sum_exp(logits, pairs.positive)
    gap = ops.where(count(pairs.positive) > 0, log_sum_exp(logits, pairs.negative) - among_positives, -float("inf"))
    return ops.softplus(gap) if log else ops.sigmoid(gap)


def tuplet_margin(pairs: Pairs, *, margin_degrees: float = 5.73, scale: float = 64.0) -> Tensor:
    """Tuplet margin loss, one value per anchor: each positive, with an angular margin, among the negatives.

    mean_p log(1 + sum_n exp(scale (cos t_an - cos(t_ap - margin))))

    Args:
        pairs: `Pairs` of A anchors and R references; t is the angle between embeddings, which need not be normalized.
        margin_degrees: slack m, in degrees.
        scale: sharpness.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Yu, Tao, Deep Metric Learning with Tuplet Margin Loss, ICCV 2019, eq. 6.
    """
    s = cosine(pairs)
    sine = ops.sqrt(ops.maximum(1.0 - ops.square(s), 1e-12))
    slack = math.radians(margin_degrees)
    relaxed = ops.where(pairs.positive > 0, s * math.cos(slack) + sine * math.sin(slack), s)
    return positives_among_negatives(scale * relaxed, pairs)


def instance(pairs: Pairs, *, scale: float = 64.0) -> Tensor:
    """Instance loss, one value per anchor: every example is a class of its own, told from the references of others.

    log(1 + sum_n exp(scale (s_an - 1)))

    It is the softmax cross-entropy of the anchor's similarity to itself, 1, and of those to its negatives.

    Args:
        pairs: `Pairs` of A anchors and R references; cosine similarity, so embeddings need not be normalized. Positives
            are ignored: they neither attract nor repel.
        scale: sharpness of the softmax, gamma.

    Returns:
        `(A,)`. An anchor without negatives gives 0.

    Source: Zheng, Zheng, Garrett, Yang, Xu, Shen, Dual-Path Convolutional Image-Text Embeddings with Instance Loss, ACM
    TOMM 2020, in the form of pytorch-metric-learning, whose classifier weights are the embeddings of the batch. The
    paper learns the weights: `NormalizedSoftmaxLoss(classes=number_of_examples)`, with numbers of examples as labels.
    """
    return softplus_sum_exp(scale * (cosine(pairs) - 1.0), pairs.negative)


def positives_among_negatives(
    scores: Tensor, pairs: Pairs, *, scale: float = 1.0, change: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Softmax cross-entropy of each positive against all negatives, one value per anchor.

    mean_p -log(exp(l_p) / (exp(l_p) + sum_n exp(l_n))),  l_n = scale s_n,  l_p = scale change(s_p)

    Args:
        scores: `(A, R)` similarities s.
        pairs: `Pairs` of A anchors and R references.
        scale: sharpness of the softmax.
        change: function of the scores of positives, `(A, R)` or `(A, 1)`, which returns the same shape; None for none.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.
    """
    against = log_sum_exp(scale * scores, pairs.negative)[:, None]
    total = ops.sum(pairs.positive, axis=1, keepdims=True)

    def mean(scores, positive):
        scores = ops.where(positive > 0, scores, 0.0)
        logits = scale * (scores if change is None else change(scores))
        return weighted_mean(ops.softplus(against - logits), positive)

    def mean_of_one():
        own = ops.sum(pairs.positive * scores, axis=1, keepdims=True) / ops.where(total > 0, total, 1.0)
        return mean(own, total)

    # With at most one positive per anchor, as over proxies, all but the negatives is done on one column.
    at_most_one = ops.all(total == ops.max(pairs.positive, axis=1, keepdims=True))
    return ops.cond(at_most_one, mean_of_one, lambda: mean(scores, pairs.positive))


@serializable
class NPairsLoss(PairLoss):
    """N-pair loss: see `tfdml.losses.n_pairs` for the formula and its source.

    Example:

        loss = tfdml.losses.NPairsLoss()  # any labels
        loss = tfdml.losses.NPairsLoss(pairing=tfdml.pairs.even_against_odd)  # the paper's two examples per class

    Args:
        l2: weight of the mean squared norm of the embeddings, 0 or more.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, *, l2: float = 0.0, **options: Unpack[PairOptions]) -> None:
        require(l2 >= 0, f"l2={l2}", "a number of 0 or more")
        super().__init__(n_pairs, l2=l2, **options)


@serializable
class NTXentLoss(PairLoss):
    """Normalized, temperature-scaled cross-entropy: see `tfdml.losses.nt_xent` for the formula and its source.

    Example:

        loss = tfdml.losses.NTXentLoss(temperature=0.07)

    Args:
        temperature: above 0.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, *, temperature: float = 0.07, **options: Unpack[PairOptions]) -> None:
        require(temperature > 0, f"temperature={temperature}", "a number above 0")
        super().__init__(nt_xent, temperature=temperature, **options)


@serializable
class SupConLoss(PairLoss):
    """Supervised contrastive loss: see `tfdml.losses.sup_con` for the formula and its source.

    Example:

        loss = tfdml.losses.SupConLoss(temperature=0.1)

    Args:
        temperature: above 0.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, *, temperature: float = 0.1, **options: Unpack[PairOptions]) -> None:
        require(temperature > 0, f"temperature={temperature}", "a number above 0")
        super().__init__(sup_con, temperature=temperature, **options)


@serializable
class NCALoss(PairLoss):
    """Neighborhood components analysis: see `tfdml.losses.nca` for the formula and its source.

    Example:

        loss = tfdml.losses.NCALoss(log=True)

    Args:
        log: use the negative log-likelihood instead of the expected error.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, *, log: bool = False, **options: Unpack[PairOptions]) -> None:
        super().__init__(nca, log=log, **options)


@serializable
class TupletMarginLoss(PairLoss):
    """Tuplet margin loss: see `tfdml.losses.tuplet_margin` for the formula and its source.

    Example:

        loss = tfdml.losses.TupletMarginLoss(margin_degrees=5.73, scale=64.0)

    Args:
        margin_degrees: angular margin between the positive and the negatives, in [0, 180) degrees.
        scale: above 0.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, *, margin_degrees: float = 5.73, scale: float = 64.0, **options: Unpack[PairOptions]) -> None:
        require(0 <= margin_degrees < 180, f"margin_degrees={margin_degrees}", "degrees in [0, 180)")
        require(scale > 0, f"scale={scale}", "a number above 0")
        super().__init__(tuplet_margin, margin_degrees=margin_degrees, scale=scale, **options)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The loss that `get_config` describes; files of earlier versions have `margin`."""
        return super().from_config(renamed(config, margin="margin_degrees"))


@serializable
class InstanceLoss(PairLoss):
    """Instance loss: see `tfdml.losses.instance` for the formula and its source.

    Example:

        loss = tfdml.losses.InstanceLoss(scale=64.0)

    Args:
        scale: above 0.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, *, scale: float = 64.0, **options: Unpack[PairOptions]) -> None:
        require(scale > 0, f"scale={scale}", "a number above 0")
        super().__init__(instance, scale=scale, **options)
