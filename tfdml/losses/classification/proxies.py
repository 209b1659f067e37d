"""Losses over proxies: references of the classes that are learned with the network."""

from collections.abc import Callable
from typing import Any, Self, Unpack

import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from tfdml._core.checks import require
from tfdml._core.serialization import renamed, serializable
from tfdml.layers.proxies import Proxies
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.pairwise.contrastive import cosine_regression_pair_losses
from tfdml.losses.pairwise.softmax import positives_among_negatives
from tfdml.losses.reductions import (
    broadcast_to_anchors,
    count,
    log_sum_exp,
    require_shared_references,
    softplus_sum_exp,
    weighted_mean,
)
from tfdml.pairs import Pairs, cosine, normalized, squared
from tfdml.pairs.base import Tensor


def proxy_nca(pairs: Pairs, *, scale: float = 1.0, positive_in_denominator: bool = False) -> Tensor:
    """ProxyNCA loss, one value per anchor: the distance of a positive against the negatives.

    mean_p -log(exp(-scale d_ap^2) / sum_n exp(-scale d_an^2))

    Args:
        pairs: `Pairs` of A anchors and R references; d is the distance of embeddings scaled to norm 1.
        scale: sharpness of the softmax, the inverse of a temperature.
        positive_in_denominator: add exp(-scale d_ap^2) to the denominator, so that the fraction is a probability.

    Returns:
        `(A,)`, which may be negative unless the positive is in the denominator. An anchor without a positive or without
        a negative gives 0.

    Source: Movshovitz-Attias, Toshev, Leung, Ioffe, Singh, No Fuss Distance Metric Learning using Proxies, ICCV 2017,
    whose denominator leaves out the positive; Teh, DeVries, Taylor, ProxyNCA++, ECCV 2020, puts it in, with a
    temperature.
    """
    logits = -scale * squared(normalized(pairs))
    if positive_in_denominator:
        return positives_among_negatives(logits, pairs)
    against = log_sum_exp(logits, pairs.negative)[:, None]
    is_compared = ops.logical_and(pairs.positive > 0, against > -float("inf"))
    return weighted_mean(ops.where(is_compared, ops.where(is_compared, against, 0.0) - logits, 0.0), pairs.positive)


def proxy_anchor(pairs: Pairs, *, margin: float = 0.1, alpha: float = 32.0) -> Tensor:
    """Proxy anchor loss, a value of the batch as a whole: every reference against the anchors of its class and others.

    mean_r+ log(1 + sum_p exp(-alpha (s_pr - margin))) + mean_r log(1 + sum_n exp(alpha (s_nr + margin)))

    Args:
        pairs: `Pairs` of A anchors and R references that all anchors share; s is their cosine similarity, p and n are
            the anchors that are positive and negative for the reference r, and r+ a reference with positives.
        margin: slack delta of both sums.
        alpha: sharpness of the sums.

    Returns:
        `(A,)`, the same value for every anchor. A batch without pairs gives 0; a reference without positives is left
        out of the first mean, and one without pairs out of both.

    Raises:
        ValueError: anchors that do not share references.

    Source: Kim, Kim, Cho, Kwak, Proxy Anchor Loss for Deep Metric Learning, CVPR 2020, eq. 4.
    """
    require_shared_references(pairs, "the proxy anchor loss")
    s, positive, negative = (ops.transpose(part) for part in (cosine(pairs), pairs.positive, pairs.negative))
    pull = softplus_sum_exp(-alpha * (s - margin), positive)
    push = softplus_sum_exp(alpha * (s + margin), negative)
    value = _mean_where(count(positive) > 0, pull) + _mean_where(count(positive + negative) > 0, push)
    return broadcast_to_anchors(value, pairs)


def _mean_where(chosen, values):
    """The mean of the chosen values, 0 without any; the values that are not chosen are 0."""
    return ops.sum(values) / ops.maximum(ops.sum(ops.cast(chosen, values.dtype)), 1.0)


def soft_triple(
    pairs: Pairs,
    *,
    per_class: int = 10,
    margin: float = 0.01,
    scale: float = 20.0,
    temperature: float = 0.1,
    nu: float = 0.2,
) -> Tensor:
    """SoftTriple loss, one value per anchor: cross-entropy of classes that have several centers each.

    mean_p -log(exp(scale (S_ap - margin)) / (exp(scale (S_ap - margin)) + sum_n exp(scale S_an))) + nu R
    S_ac = sum_k q_k s_ack, with q = softmax_k(s_ack / temperature); R = mean over c and k < l of |w_ck - w_cl| / 2

    Args:
        pairs: `Pairs` of A anchors and the references of C classes, `per_class` rows w_ck for each class c, one class
            after the other; s is the cosine similarity.
        per_class: number of references for each class, K.
        margin: difference of similarities that a positive class must have over the negatives.
        scale: sharpness of the softmax over classes.
        temperature: gamma of the softmax over the centers of a class; small values take the nearest center.
        nu: regularization weight of R, the distance between the centers of a class, scaled to norm 1. It merges centers
            that a class does not need.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives nu R, which is 0 for one center.

    Raises:
        ValueError: anchors that do not share references, or a number of references that `per_class` does not
            divide.

    Source: Qian, Shang, Sun, Hu, Li, Jin, SoftTriple Loss: Deep Metric Learning Without Triplet Sampling, ICCV 2019.
    """
    require_shared_references(pairs, "the SoftTriple loss")
    relaxed, classes = _soft_maximum(by_class(cosine(pairs), per_class), temperature), over_classes(pairs, per_class)
    values = positives_among_negatives(relaxed, classes, scale=scale, change=lambda s: s - margin)
    return values if per_class == 1 else values + nu * _spread(normalized(pairs).reference_embeddings, per_class)


def by_class(matrix: Tensor, per_class: int) -> Tensor:
    """The columns of each class: `(A, R)` as `(A, C, per_class)`."""
    references = matrix.shape[1]
    require(
        references is None or references % per_class == 0,
        f"{references} references with per_class={per_class}",
        "a multiple of per_class: the references of a class are adjacent",
    )
    return ops.reshape(matrix, (ops.shape(matrix)[0], -1, per_class))


def over_classes(pairs: Pairs, per_class: int) -> Pairs:
    """The weights of anchors and classes, `(A, C)`: the largest weight of the centers of each class."""
    positive, negative = (
        ops.max(by_class(weights, per_class), axis=-1) for weights in (pairs.positive, pairs.negative)
    )
    return pairs._replace(positive=positive, negative=negative)


def _soft_maximum(s, temperature):
    """The mean along the last axis with weights exp(s / temperature)."""
    weights = ops.exp((s - ops.stop_gradient(ops.max(s, axis=-1, keepdims=True))) / temperature)
    return ops.sum(weights * s, axis=-1) / ops.sum(weights, axis=-1)


def _spread(references, centers):
    """The mean over pairs of centers of a class of half their distance."""
    w = ops.reshape(references, (-1, centers, references.shape[-1]))
    between = ops.sqrt(ops.maximum(2.0 - 2.0 * ops.matmul(w, ops.swapaxes(w, 1, 2)), 1e-12))
    first, second = np.triu_indices(centers, 1)
    return ops.mean(ops.take(ops.reshape(between, (-1, centers**2)), first * centers + second, axis=1)) / 2.0


def p2s_grad(pairs: Pairs) -> Tensor:
    """P2SGrad loss (probability-to-similarity gradient), one value per anchor: regression of cosines to 1 and 0.

    sum_p (1 - cos t_ap)^2 / 2 + sum_n (cos t_an)^2 / 2

    Its gradient by a cosine is the cosine minus 1 or 0, where a softmax has the probability minus 1 or 0. So it has
    neither a scale nor a margin.

    Args:
        pairs: `Pairs` of A anchors and R references; t is the angle between embeddings, which need not be normalized.

    Returns:
        `(A,)`. An anchor without pairs gives 0.

    Source: Zhang et al., P2SGrad: Refined Gradients for Optimizing Deep Face Models, CVPR 2019, which defines the
    gradient; this is its integral. It is the sum over pairs where `cosine_regression` is the mean.
    """
    return ops.sum((pairs.positive + pairs.negative) * cosine_regression_pair_losses(pairs), axis=1)


def center(pairs: Pairs) -> Tensor:
    """Center loss, one value per anchor: half the squared distance to the center of its class.

    mean_p |a - p|^2 / 2

    Args:
        pairs: `Pairs` of A anchors and R references, used as they are (not normalized).

    Returns:
        `(A,)`. An anchor without positives gives 0.

    Source: Wen, Zhang, Li, Qiao, A Discriminative Feature Learning Approach for Deep Face Recognition, ECCV 2016. Here
    centers have the gradient of the loss and the optimizer of the model. The paper moves each center of the batch by
    alpha times the sum of the differences to its examples divided by 1 plus their number.
    """
    return weighted_mean(squared(pairs), pairs.positive) / 2


class ProxyLoss(PairLoss):
    """Base class: a loss over the proxies of `classes`, or over another pairing.

    Args:
        function: computes the values.
        classes: as in `tfdml.layers.Proxies`; None for a loss with another `pairing`.
        proxies_per_class: `per_class` of `tfdml.layers.Proxies`.
        **options: settings of the function and options of `PairLoss`.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        *,
        classes: int | ArrayLike | None = None,
        proxies_per_class: int = 1,
        **options: Any,
    ) -> None:
        require(
            (classes is None) == ("pairing" in options),
            f"classes={classes!r} and pairing={options.get('pairing')}",
            "one of them: classes=, the number of classes or their ids, or pairing=",
        )
        if classes is not None:
            options["pairing"] = Proxies(classes, per_class=proxies_per_class)
        super().__init__(function, **options)

    @property
    def proxies(self) -> Proxies:
        """The proxies, which `EmbeddingModel` trains and saves.

        Raises:
            AttributeError: a pairing without proxies.
        """
        if not isinstance(self.pairing, Proxies):
            raise AttributeError(f"Received pairing={self.pairing!r}, expected proxies. Make the loss with classes=.")
        return self.pairing


@serializable
class ProxyNCALoss(ProxyLoss):
    """ProxyNCA loss: see `tfdml.losses.proxy_nca` for the formula and its source.

    Example:

        loss = tfdml.losses.ProxyNCALoss(classes=870, scale=9.0, positive_in_denominator=True)

    Args:
        scale: sharpness of the softmax, above 0.
        positive_in_denominator: add the positive to the denominator, so that the fraction is a probability.
        classes: number of classes, or their ids, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 1,
        scale: float = 1.0,
        positive_in_denominator: bool = False,
        **options: Unpack[PairOptions],
    ) -> None:
        require(scale > 0, f"scale={scale}", "a number above 0")
        super().__init__(
            proxy_nca,
            classes=classes,
            per_class=per_class,
            scale=scale,
            positive_in_denominator=positive_in_denominator,
            **options,
        )


@serializable
class ProxyAnchorLoss(ProxyLoss):
    """Proxy anchor loss: see `tfdml.losses.proxy_anchor` for the formula and its source.

    Example:

        loss = tfdml.losses.ProxyAnchorLoss(classes=870)  # trained with an EmbeddingModel

    Args:
        margin: slack of both sums, 0 or more.
        alpha: sharpness of the sums, above 0.
        classes: number of classes, or their ids, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 1,
        margin: float = 0.1,
        alpha: float = 32.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(margin >= 0, f"margin={margin}", "a difference of cosines, 0 or more")
        require(alpha > 0, f"alpha={alpha}", "a number above 0")
        super().__init__(
            proxy_anchor, classes=classes, proxies_per_class=per_class, margin=margin, alpha=alpha, **options
        )


@serializable
class SoftTripleLoss(ProxyLoss):
    """SoftTriple loss: see `tfdml.losses.soft_triple` for the formula and its source.

    Example:

        loss = tfdml.losses.SoftTripleLoss(classes=98, per_class=10)  # trained with an EmbeddingModel

    Args:
        classes: number of classes, or their ids; None for another `pairing`.
        per_class: number of proxies for each class, 1 or more.
        margin: difference of similarities, 0 or more.
        scale: sharpness of the softmax over classes, above 0.
        temperature: of the softmax over the centers of a class, above 0.
        nu: regularization weight of the distance between the centers of a class, 0 or more.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 10,
        margin: float = 0.01,
        scale: float = 20.0,
        temperature: float = 0.1,
        nu: float = 0.2,
        **options: Unpack[PairOptions],
    ) -> None:
        require(
            int(per_class) == per_class >= 1, f"per_class={per_class}", "the number of proxies per class, 1 or more"
        )
        require(margin >= 0, f"margin={margin}", "a difference of cosines, 0 or more")
        require(scale > 0, f"scale={scale}", "a number above 0")
        require(temperature > 0, f"temperature={temperature}", "a number above 0")
        require(nu >= 0, f"nu={nu}", "0 or more")
        settings = {"per_class": per_class, "margin": margin, "scale": scale, "temperature": temperature, "nu": nu}
        super().__init__(soft_triple, classes=classes, proxies_per_class=per_class, **settings, **options)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The loss that `get_config` describes."""
        return super().from_config(renamed(config, centers="per_class"))


@serializable
class P2SGradLoss(ProxyLoss):
    """P2SGrad loss: see `tfdml.losses.p2s_grad` for the formula and its source.

    Example:

        loss = tfdml.losses.P2SGradLoss(classes=870)  # trained with an EmbeddingModel

    Args:
        classes: number of classes, or their ids, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self, *, classes: int | ArrayLike | None = None, per_class: int = 1, **options: Unpack[PairOptions]
    ) -> None:
        super().__init__(p2s_grad, classes=classes, proxies_per_class=per_class, **options)

    def pair_losses(self, pairs: Pairs) -> Tensor:
        """The loss of each pair, which makes it a base of `RobustLoss`."""
        return cosine_regression_pair_losses(pairs)


@serializable
class CenterLoss(ProxyLoss):
    """Center loss: see `tfdml.losses.center` for the formula and its source.

    Example:

        loss = tfdml.losses.CenterLoss(classes=870)  # beside a loss that keeps classes apart

    Args:
        classes: number of classes, or their ids, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self, *, classes: int | ArrayLike | None = None, per_class: int = 1, **options: Unpack[PairOptions]
    ) -> None:
        super().__init__(center, classes=classes, proxies_per_class=per_class, **options)
