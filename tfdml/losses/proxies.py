"""Softmax and ranking losses over proxies: references of the classes that are learned with the network."""

import math
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
from keras import ops

from tfdml._checks import require
from tfdml._serialization import serializable
from tfdml.layers.proxies import Proxies
from tfdml.losses.base import (
    PairLoss,
    PairOptions,
    broadcast_to_anchors,
    count,
    log_sum_exp,
    require_shared_references,
    softplus_sum_exp,
    weighted_mean,
)
from tfdml.losses.softmax import positives_among_negatives
from tfdml.pairs import Pairs, cosine, normalized, squared
from tfdml.pairs.base import Tensor


def normalized_softmax(pairs: Pairs, *, scale: float = 64.0) -> Tensor:
    """Normalized softmax loss (NormFace), one value per anchor: cross-entropy of scaled cosines.

    mean_p -log(exp(scale cos t_ap) / (exp(scale cos t_ap) + sum_n exp(scale cos t_an)))

    Args:
        pairs: `Pairs` of A anchors and R references; t is the angle between embeddings, which need not be normalized.
        scale: sharpness of the softmax.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Wang, Xiang, Cheng, Yuille, NormFace: L2 Hypersphere Embedding for Face Verification, ACM Multimedia 2017.
    The scale is fixed here; the paper also learns it. It is `nt_xent` with a temperature of 1 / scale.
    """
    return positives_among_negatives(scale * cosine(pairs), pairs)


def cosface(pairs: Pairs, *, margin: float = 0.35, scale: float = 64.0) -> Tensor:
    """CosFace loss (large margin cosine loss), one value per anchor: the cosine of a positive minus a margin.

    mean_p -log(exp(scale (cos t_ap - margin)) / (exp(scale (cos t_ap - margin)) + sum_n exp(scale cos t_an)))

    Args:
        pairs: `Pairs` of A anchors and R references; t is the angle between embeddings, which need not be normalized.
        margin: difference of cosines that a positive must have over the negatives.
        scale: sharpness of the softmax.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Wang et al., CosFace: Large Margin Cosine Loss for Deep Face Recognition, CVPR 2018, eq. 4.
    """
    return positives_among_negatives(scale * (cosine(pairs) - margin * _is_positive(pairs)), pairs)


def arcface(pairs: Pairs, *, margin: float = 0.5, scale: float = 64.0) -> Tensor:
    """ArcFace loss (additive angular margin), one value per anchor: a margin is added to the angle of a positive.

    mean_p -log(exp(scale f(t_ap)) / (exp(scale f(t_ap)) + sum_n exp(scale cos t_an)))
    f(t) = cos(t + margin) for t <= pi - margin, cos t - margin sin(margin) beyond

    Args:
        pairs: `Pairs` of A anchors and R references; t is the angle between embeddings, which need not be normalized.
        margin: angle in radians.
        scale: sharpness of the softmax.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Deng, Guo, Xue, Zafeiriou, ArcFace: Additive Angular Margin Loss for Deep Face Recognition, CVPR 2019,
    eq. 3. cos(t + margin) increases beyond pi - margin; f decreases everywhere, as in the authors' code, insightface.
    """
    return positives_among_negatives(scale * _on_positives(_cosine_after_margin, pairs, margin), pairs)


def _cosine_after_margin(cosines, margin):
    """cos(t + margin), and beyond pi - margin a line in the cosine that keeps it decreasing in t."""
    sine = ops.sqrt(ops.maximum(1.0 - ops.square(cosines), 1e-12))
    shifted = cosines * math.cos(margin) - sine * math.sin(margin)
    return ops.where(cosines >= -math.cos(margin), shifted, cosines - margin * math.sin(margin))


def sphereface(pairs: Pairs, *, margin: int = 4, scale: float = 64.0) -> Tensor:
    """SphereFace loss (angular softmax), one value per anchor: the angle of a positive is multiplied.

    mean_p -log(exp(scale psi(t_ap)) / (exp(scale psi(t_ap)) + sum_n exp(scale cos t_an)))
    psi(t) = (-1)^k cos(margin t) - 2 k for t from k pi / margin to (k + 1) pi / margin

    Args:
        pairs: `Pairs` of A anchors and R references; t is the angle between embeddings, which need not be normalized.
        margin: the whole number that multiplies the angle.
        scale: sharpness of the softmax.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Liu et al., SphereFace: Deep Hypersphere Embedding for Face Recognition, CVPR 2017, section 3. The paper
    multiplies by the norm of the embedding in place of a fixed scale, and blends psi with the cosine during training.
    """
    return positives_among_negatives(scale * _on_positives(_psi, pairs, margin), pairs)


def _psi(cosines, margin):
    """(-1)^k cos(margin t) - 2 k, with cos(margin t) as the Chebyshev polynomial of the cosine."""
    before, current = ops.ones_like(cosines), cosines
    for _ in range(margin - 1):
        before, current = current, 2.0 * cosines * current - before
    bounds = [math.cos(k * math.pi / margin) for k in range(1, margin)]
    k = sum((ops.cast(cosines < bound, cosines.dtype) for bound in bounds), ops.zeros_like(cosines))
    return (1.0 - 2.0 * ops.mod(k, 2.0)) * current - 2.0 * k


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
        out of the first mean.

    Raises:
        ValueError: anchors that do not share references.

    Source: Kim, Kim, Cho, Kwak, Proxy Anchor Loss for Deep Metric Learning, CVPR 2020, eq. 4.
    """
    require_shared_references(pairs, "the proxy anchor loss")
    s, positive, negative = (ops.transpose(part) for part in (cosine(pairs), pairs.positive, pairs.negative))
    pull = softplus_sum_exp(-alpha * (s - margin), positive)
    push = softplus_sum_exp(alpha * (s + margin), negative)
    with_positives = ops.sum(ops.cast(count(positive) > 0, pull.dtype))
    return broadcast_to_anchors(ops.sum(pull) / ops.maximum(with_positives, 1.0) + ops.mean(push), pairs)


def soft_triple(
    pairs: Pairs,
    *,
    centers: int = 10,
    margin: float = 0.01,
    scale: float = 20.0,
    temperature: float = 0.1,
    nu: float = 0.2,
) -> Tensor:
    """SoftTriple loss, one value per anchor: cross-entropy of classes that have several centers each.

    mean_p -log(exp(scale (S_ap - margin)) / (exp(scale (S_ap - margin)) + sum_n exp(scale S_an))) + nu R
    S_ac = sum_k q_k s_ack, with q = softmax_k(s_ack / temperature); R = mean over c and k < l of |w_ck - w_cl| / 2

    Args:
        pairs: `Pairs` of A anchors and the references of C classes, `centers` rows w_ck for each class c, one class
            after the other; s is the cosine similarity.
        centers: number of references for each class, K.
        margin: difference of similarities that a positive class must have over the negatives.
        scale: sharpness of the softmax over classes.
        temperature: gamma of the softmax over the centers of a class; small values take the nearest center.
        nu: regularization weight of R, the distance between the centers of a class, scaled to norm 1. It merges centers
            that a class does not need.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives nu R, which is 0 for one center.

    Raises:
        ValueError: anchors that do not share references, or a number of references that is not a multiple of `centers`.

    Source: Qian, Shang, Sun, Hu, Li, Jin, SoftTriple Loss: Deep Metric Learning Without Triplet Sampling, ICCV 2019.
    """
    require_shared_references(pairs, "the SoftTriple loss")
    s, positive, negative = (_by_class(part, centers) for part in (cosine(pairs), pairs.positive, pairs.negative))
    relaxed = _soft_maximum(s, temperature)
    classes = pairs._replace(positive=ops.max(positive, axis=-1), negative=ops.max(negative, axis=-1))
    values = positives_among_negatives(scale * (relaxed - margin * _is_positive(classes)), classes)
    return values if centers == 1 else values + nu * _spread(normalized(pairs).others, centers)


def _by_class(matrix, centers):
    """The columns of each class: `(A, R)` as `(A, C, centers)`."""
    references = matrix.shape[1]
    require(
        references is None or references % centers == 0,
        f"{references} references with centers={centers}",
        "a multiple of centers: the references of a class stand side by side",
    )
    return ops.reshape(matrix, (ops.shape(matrix)[0], -1, centers))


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


def _on_positives(change, pairs, margin):
    """Cosines, changed by a function of cosine and margin where pairs are positive."""
    s = cosine(pairs)
    return ops.where(pairs.positive > 0, change(s, margin), s)


def _is_positive(pairs):
    return ops.cast(pairs.positive > 0, pairs.positive.dtype)


class ProxyLoss(PairLoss):
    """Base class: a loss over the proxies of `classes`, or over another pairing.

    Args:
        function: computes the values.
        classes, per_class: as in `tfdml.layers.Proxies`; None for a loss with another `pairing`.
        **options: settings of the function and options of `PairLoss`.
    """

    def __init__(
        self, function: Callable[..., Tensor], *, classes: int | None = None, per_class: int = 1, **options: Any
    ) -> None:
        require(
            (classes is None) == ("pairing" in options),
            f"classes={classes} and pairing={options.get('pairing')}",
            "one of them: classes=, the number of classes, or pairing=",
        )
        if classes is not None:
            options["pairing"] = Proxies(classes, per_class=per_class)
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
class NormalizedSoftmaxLoss(ProxyLoss):
    """Normalized softmax loss: see `tfdml.losses.normalized_softmax` for the formula and its source.

    Example:

        loss = tfdml.losses.NormalizedSoftmaxLoss(classes=870)  # trained with an EmbeddingModel

    Args:
        scale: sharpness of the softmax, above 0.
        classes: number of classes, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | None = None,
        per_class: int = 1,
        scale: float = 64.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(scale > 0, f"scale={scale}", "a number above 0")
        super().__init__(normalized_softmax, classes=classes, per_class=per_class, scale=scale, **options)


@serializable
class CosFaceLoss(ProxyLoss):
    """CosFace loss: see `tfdml.losses.cosface` for the formula and its source.

    Example:

        loss = tfdml.losses.CosFaceLoss(classes=870, margin=0.35)  # trained with an EmbeddingModel

    Args:
        margin: difference of cosines, 0 or more.
        scale: sharpness of the softmax, above 0.
        classes: number of classes, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | None = None,
        per_class: int = 1,
        margin: float = 0.35,
        scale: float = 64.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(margin >= 0, f"margin={margin}", "a difference of cosines, 0 or more")
        require(scale > 0, f"scale={scale}", "a number above 0")
        super().__init__(cosface, classes=classes, per_class=per_class, margin=margin, scale=scale, **options)


@serializable
class ArcFaceLoss(ProxyLoss):
    """ArcFace loss: see `tfdml.losses.arcface` for the formula and its source.

    Example:

        loss = tfdml.losses.ArcFaceLoss(classes=870, margin=0.5)  # trained with an EmbeddingModel

    Args:
        margin: angle in radians, from 0 to pi / 2.
        scale: sharpness of the softmax, above 0.
        classes: number of classes, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | None = None,
        per_class: int = 1,
        margin: float = 0.5,
        scale: float = 64.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(0 <= margin <= math.pi / 2, f"margin={margin}", "an angle in radians, from 0 to pi / 2")
        require(scale > 0, f"scale={scale}", "a number above 0")
        super().__init__(arcface, classes=classes, per_class=per_class, margin=margin, scale=scale, **options)


@serializable
class SphereFaceLoss(ProxyLoss):
    """SphereFace loss: see `tfdml.losses.sphereface` for the formula and its source.

    Example:

        loss = tfdml.losses.SphereFaceLoss(classes=870, margin=4)  # trained with an EmbeddingModel

    Args:
        margin: the whole number that multiplies the angle, 1 or more.
        scale: sharpness of the softmax, above 0.
        classes: number of classes, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | None = None,
        per_class: int = 1,
        margin: int = 4,
        scale: float = 64.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(int(margin) == margin >= 1, f"margin={margin}", "a whole number, 1 or more")
        require(scale > 0, f"scale={scale}", "a number above 0")
        super().__init__(sphereface, classes=classes, per_class=per_class, margin=int(margin), scale=scale, **options)


@serializable
class ProxyNCALoss(ProxyLoss):
    """ProxyNCA loss: see `tfdml.losses.proxy_nca` for the formula and its source.

    Example:

        loss = tfdml.losses.ProxyNCALoss(classes=870, scale=9.0, positive_in_denominator=True)

    Args:
        scale: sharpness of the softmax, above 0.
        positive_in_denominator: add the positive to the denominator, so that the fraction is a probability.
        classes: number of classes, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | None = None,
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
        classes: number of classes, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | None = None,
        per_class: int = 1,
        margin: float = 0.1,
        alpha: float = 32.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(margin >= 0, f"margin={margin}", "a difference of cosines, 0 or more")
        require(alpha > 0, f"alpha={alpha}", "a number above 0")
        super().__init__(proxy_anchor, classes=classes, per_class=per_class, margin=margin, alpha=alpha, **options)


@serializable
class SoftTripleLoss(ProxyLoss):
    """SoftTriple loss: see `tfdml.losses.soft_triple` for the formula and its source.

    Example:

        loss = tfdml.losses.SoftTripleLoss(classes=98, centers=10)  # trained with an EmbeddingModel

    Args:
        classes: number of classes; None for another `pairing`.
        centers: number of proxies for each class, 1 or more.
        margin: difference of similarities, 0 or more.
        scale: sharpness of the softmax over classes, above 0.
        temperature: of the softmax over the centers of a class, above 0.
        nu: regularization weight of the distance between the centers of a class, 0 or more.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | None = None,
        centers: int = 10,
        margin: float = 0.01,
        scale: float = 20.0,
        temperature: float = 0.1,
        nu: float = 0.2,
        **options: Unpack[PairOptions],
    ) -> None:
        require(int(centers) == centers >= 1, f"centers={centers}", "the number of proxies per class, 1 or more")
        require(margin >= 0, f"margin={margin}", "a difference of cosines, 0 or more")
        require(scale > 0, f"scale={scale}", "a number above 0")
        require(temperature > 0, f"temperature={temperature}", "a number above 0")
        require(nu >= 0, f"nu={nu}", "0 or more")
        settings = {"centers": centers, "margin": margin, "scale": scale, "temperature": temperature, "nu": nu}
        super().__init__(soft_triple, classes=classes, per_class=centers, **settings, **options)
