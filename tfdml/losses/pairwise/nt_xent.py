"""Softmax of one positive among the negatives: NT-Xent, and the losses of the same form."""

import math
from collections.abc import Callable
from typing import Unpack

from tfdml._core.backends import custom_gradient, has_values, ops, row_dots
from tfdml._core.checks import require_positive
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import (
    count,
    divided,
    exponentials,
    log_sum_exp,
    softplus,
    softplus_sum_exp,
    weighted_mean,
)
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor

# Up to this number of pairs, passes over all of them take less time than a condition.
_FEW_PAIRS = 2**14


def nt_xent(pairs: Pairs, *, temperature: float = 0.07) -> Tensor:
    """Values of `NTXentLoss`, one per anchor.

    mean_p -log(exp(s_ap / t) / (exp(s_ap / t) + sum_n exp(s_an / t)))
    """
    return positives_among_negatives(cosine(pairs) / temperature, pairs)


def sup_con(pairs: Pairs, *, temperature: float = 0.1) -> Tensor:
    """Values of `SupConLoss`, one per anchor.

    mean_p -log(exp(s_ap / t) / sum_r exp(s_ar / t))
    """
    s = cosine(pairs) / temperature
    over_all = log_sum_exp(s, pairs.positive + pairs.negative)[:, None]
    return weighted_mean(ops.where(pairs.positive > 0, over_all - s, 0.0), pairs.positive)


def instance(pairs: Pairs, *, scale: float = 64.0) -> Tensor:
    """Values of `InstanceLoss`, one per anchor.

    log(1 + sum_n exp(scale (s_an - 1)))
    """
    return softplus_sum_exp(scale * (cosine(pairs) - 1.0), pairs.negative)


def positives_among_negatives(scores: Tensor, pairs: Pairs) -> Tensor:
    """Softmax cross-entropy of each positive against all negatives, one value per anchor.

    mean_p -log(exp(s_p) / (exp(s_p) + sum_n exp(s_n))), 0 without a p or an n
    """
    return _mean_cross_entropy(scores, pairs.positive, pairs.negative)


def one_positive_among_negatives(
    scores: Tensor, pairs: Pairs, *, scale: float = 1.0, change: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """`positives_among_negatives` of scale * scores, of scale * change(scores) for a positive.

    With at most one positive per anchor, as over proxies, all but the negatives is done on one column of many pairs.
    """
    has_few = None not in scores.shape and math.prod(scores.shape) <= _FEW_PAIRS
    if change is None and (has_few or not has_values()):
        return positives_among_negatives(scores if scale == 1.0 else scale * scores, pairs)
    log_sum_negatives = log_sum_exp(scale * scores, pairs.negative)[:, None]

    def logits(scores, positive):
        score = ops.where(positive > 0, scores, 0.0)
        return scale * (change(score) if change else score)

    if has_few or not has_values():
        return _mean_softplus(log_sum_negatives, logits(scores, pairs.positive), pairs.positive)

    def mean(scores, positive):  # not `_mean_softplus`, as TensorFlow loses its gradient in a condition under XLA
        return weighted_mean(ops.softplus(log_sum_negatives - logits(scores, positive)), positive)

    def mean_of_one():
        score = ops.sum(pairs.positive * scores, axis=1, keepdims=True) / ops.where(total > 0, total, 1.0)
        return mean(score, total)

    total = ops.sum(pairs.positive, axis=1, keepdims=True)
    at_most_one = ops.all(total == ops.amax(pairs.positive, axis=1, keepdims=True))
    return ops.cond(at_most_one, mean_of_one, lambda: mean(scores, pairs.positive))


@custom_gradient
def _mean_cross_entropy(scores, positive, negative):
    """`_mean_softplus` of the `log_sum_exp` over the negatives and of the scores."""
    exp, top = exponentials(scores, negative, 1)
    terms = negative * exp
    total = ops.sum(terms, axis=1, keepdims=True)
    number = ops.maximum(count(positive), 1.0)
    differences = ops.log(total) + top - scores
    losses = softplus(differences)

    def grad(upstream):
        share = (upstream / number)[:, None]
        slopes = share * positive * ops.sigmoid(differences)
        by_total = divided(ops.sum(slopes, axis=1, keepdims=True), total)
        return by_total * terms - slopes, lambda: share * losses, lambda: by_total * exp

    return row_dots(positive, losses) / number, grad


@custom_gradient
def _mean_softplus(log_sum_negatives, logits, positive):
    """weighted_mean(softplus(log_sum_negatives - logits), positive); its gradient takes few passes over the matrix."""
    number = ops.maximum(count(positive), 1.0)[:, None]
    differences = log_sum_negatives - logits
    losses = softplus(differences)

    def grad(upstream):
        share = upstream[:, None] / number
        slopes = share * positive * ops.sigmoid(differences)
        return ops.sum(slopes, axis=1, keepdims=True), -slopes, lambda: share * losses

    return row_dots(positive, losses) / number[:, 0], grad


@serializable
class NTXentLoss(PairLoss, in_blocks=True):
    """Normalized, temperature-scaled cross-entropy: each positive among the negatives.

    mean_p -log(exp(s_ap / t) / (exp(s_ap / t) + sum_n exp(s_an / t)))

    s is the cosine similarity; embeddings need not be normalized. An anchor without a positive or a negative gives 0.

    Also called: InfoNCE with in-batch negatives, SimCLR loss, multiple negatives ranking loss.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.NTXentLoss(temperature=0.5)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of log(1 + exp((0 - 0.6) / 0.5)), 0.913 and 0
        0.3921

    See also: `SupConLoss`, whose positives compete with each other. `CosFaceLoss`, a softmax over classes.

    Args:
        temperature: t, above 0; small values emphasize the hardest negatives.

    Source: Chen, Kornblith, Norouzi, Hinton, A Simple Framework for Contrastive Learning of Visual Representations,
    ICML 2020, eq. 1, for any number of positives; InfoNCE of van den Oord et al., 2018. The temperature is from Wu et
    al., Unsupervised Feature Learning via Non-Parametric Instance Discrimination, CVPR 2018.
    """

    def __init__(self, *, temperature: float = 0.07, **options: Unpack[PairOptions]) -> None:
        require_positive(temperature=temperature)
        super().__init__(nt_xent, temperature=temperature, **options)


@serializable
class SupConLoss(PairLoss, in_blocks=True):
    """Supervised contrastive loss: each positive among all other references, positives included.

    mean_p -log(exp(s_ap / t) / sum_r exp(s_ar / t))

    s is the cosine similarity; embeddings need not be normalized. The loss is at least log(number of positives). An
    anchor without positives gives 0.

    Also called: SupCon, its L_out.

    Example:

        >>> labels, embeddings = [0, 0, 0], [[1.0, 0.0]] * 3  # two positives with the same similarity: log(2)
        >>> loss = tfdml.losses.SupConLoss(temperature=0.1)
        >>> round(float(loss(labels, embeddings)), 4)
        0.6931

    See also: `NTXentLoss`, whose minimum is 0 for any number of positives: prefer it for two views.

    Args:
        temperature: t, above 0.

    Source: Khosla et al., Supervised Contrastive Learning, NeurIPS 2020, eq. 2 (the sum outside of the logarithm).
    """

    def __init__(self, *, temperature: float = 0.1, **options: Unpack[PairOptions]) -> None:
        require_positive(temperature=temperature)
        super().__init__(sup_con, temperature=temperature, **options)


@serializable
class InstanceLoss(PairLoss, in_blocks=True):
    """Instance loss: each example is its own class; the other references are its negatives.

    log(1 + sum_n exp(scale (s_an - 1)))

    It is the softmax cross-entropy over the anchor's similarity to itself, 1, and to its negatives. s is the cosine
    similarity; embeddings need not be normalized. Positives are ignored. An anchor without negatives gives 0.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.InstanceLoss(scale=1.0)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of log(1 + exp(0 - 1)), 0.5981 and 0.7824
        0.5646

    See also: `NTXentLoss`, which also pulls positives. `NormalizedSoftmaxLoss`, with learned weights per class.

    Args:
        scale: sharpness of the softmax, gamma, above 0.

    Source: Zheng, Zheng, Garrett, Yang, Xu, Shen, Dual-Path Convolutional Image-Text Embeddings with Instance Loss, ACM
    TOMM 2020, in the form of pytorch-metric-learning, whose classifier weights are the embeddings of the batch. The
    paper learns the weights: `NormalizedSoftmaxLoss(classes=number_of_examples)`, with numbers of examples as labels.
    """

    def __init__(self, *, scale: float = 64.0, **options: Unpack[PairOptions]) -> None:
        require_positive(scale=scale)
        super().__init__(instance, scale=scale, **options)
