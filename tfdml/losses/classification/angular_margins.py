"""Softmax losses with margins on the sphere, over proxies: learned references of the classes."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, TypeAlias, Unpack

import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from tfdml._core.checks import require
from tfdml._core.serialization import renamed, serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.proxies import ProxyLoss, by_class, over_classes
from tfdml.losses.pairwise.softmax import positives_among_negatives
from tfdml.losses.reductions import count, require_shared_references
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor

Margin: TypeAlias = float | Callable[[Pairs], Tensor]


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
    return positives_among_negatives(cosine(pairs), pairs, scale=scale)


def cosface(pairs: Pairs, *, margin: Margin = 0.35, scale: float = 64.0) -> Tensor:
    """CosFace loss (large margin cosine loss), one value per anchor: the cosine of a positive minus a margin.

    mean_p -log(exp(scale (cos t_ap - margin)) / (exp(scale (cos t_ap - margin)) + sum_n exp(scale cos t_an)))

    Args:
        pairs: `Pairs` of A anchors and R references; t is the angle between embeddings, which need not be normalized.
        margin: difference of cosines that a positive must have over the negatives: a number, or a function of `Pairs`
            that returns a number or one for each anchor, `(A,)`, such as `Scheduled`.
        scale: sharpness of the softmax.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Wang et al., CosFace: Large Margin Cosine Loss for Deep Face Recognition, CVPR 2018, eq. 4.
    """
    s, m = cosine(pairs), _margins(margin, pairs)
    return positives_among_negatives(s, pairs, scale=scale, change=lambda s: s - m)


def arcface(pairs: Pairs, *, margin: Margin = 0.5, scale: float = 64.0) -> Tensor:
    """ArcFace loss (additive angular margin), one value per anchor: a margin is added to the angle of a positive.

    mean_p -log(exp(scale f(t_ap)) / (exp(scale f(t_ap)) + sum_n exp(scale cos t_an)))
    f(t) = cos(t + margin) for t <= pi - margin, cos t - margin sin(margin) beyond

    Args:
        pairs: `Pairs` of A anchors and R references; t is the angle between embeddings, which need not be normalized.
        margin: angle in radians: a number, or a function of `Pairs` that returns a number or one for each anchor,
            `(A,)`, such as `Scheduled`.
        scale: sharpness of the softmax.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Deng, Guo, Xue, Zafeiriou, ArcFace: Additive Angular Margin Loss for Deep Face Recognition, CVPR 2019,
    eq. 3. cos(t + margin) increases beyond pi - margin; f decreases everywhere, as in the authors' code, insightface.
    """
    return _softmax_after_margin(cosine(pairs), pairs, margin, scale)


def _softmax_after_margin(s, pairs, margin, scale):
    """The ArcFace loss of cosines `(A, R)`."""
    m = _margins(margin, pairs)
    return positives_among_negatives(s, pairs, scale=scale, change=lambda s: _cosine_after_margin(s, m))


def _margins(margin, pairs):
    """The margin of each anchor as a column, or the number that all of them share."""
    values = margin(pairs) if callable(margin) else margin
    return ops.reshape(ops.cast(values, pairs.positive.dtype), (-1, 1))


def _cosine_after_margin(cosines, margin):
    """cos(t + margin), and beyond pi - margin a line in the cosine that keeps it decreasing in t."""
    cos_margin, sin_margin = ops.cos(margin), ops.sin(margin)
    sine = ops.sqrt(ops.maximum(1.0 - ops.square(cosines), 1e-12))
    shifted = cosines * cos_margin - sine * sin_margin
    return ops.where(cosines >= -cos_margin, shifted, cosines - margin * sin_margin)


def sub_center_arcface(pairs: Pairs, *, per_class: int = 3, margin: Margin = 0.5, scale: float = 64.0) -> Tensor:
    """Sub-center ArcFace loss, one value per anchor: the ArcFace loss on the nearest of several centers of each class.

    mean_p -log(exp(scale f(t_ap)) / (exp(scale f(t_ap)) + sum_n exp(scale cos t_an))),  t_ac = min_k t_ack

    Args:
        pairs: `Pairs` of A anchors and the references of C classes, `per_class` rows for each class, one class
            after the other; t_ack is the angle to center k of class c, and f that of `arcface`.
        per_class: number of references for each class.
        margin: as in `arcface`.
        scale: sharpness of the softmax.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Raises:
        ValueError: anchors that do not share references, or a number of references that `per_class` does not
            divide.

    Source: Deng, Guo, Liu, Gong, Zafeiriou, Sub-center ArcFace: Boosting Face Recognition by Large-Scale Noisy Web
    Faces, ECCV 2020.
    """
    require_shared_references(pairs, "the sub-center ArcFace loss")
    s = ops.max(by_class(cosine(pairs), per_class), axis=-1)
    return _softmax_after_margin(s, over_classes(pairs, per_class), margin, scale)


def magface(
    pairs: Pairs,
    *,
    norms: Sequence[float] = (10.0, 110.0),
    margins: Sequence[float] = (0.45, 0.8),
    regularization: float = 35.0,
    scale: float = 64.0,
) -> Tensor:
    """MagFace loss, one value per anchor: ArcFace with a margin that grows with the norm of the embedding.

    arcface(margin m_a) + regularization (1 / |a| + |a| / U^2)
    m_a = l + (u - l) (|a| - L) / (U - L), with |a| clipped to [L, U]

    The second term rewards large norms, so that the norm of an embedding tells how well it is recognized.

    Args:
        pairs: `Pairs` of A anchors and R references; the norms of the anchors matter, so they must not be normalized.
        norms: lower and upper bound of the norms, L and U.
        margins: angles in radians at these bounds, l and u.
        regularization: weight of the second term, lambda_g.
        scale: sharpness of the softmax.

    Returns:
        `(A,)`. An anchor without a positive gives 0; one without a negative gives the second term.

    Source: Meng, Zhao, Huang, Zhou, MagFace: A Universal Representation for Face Recognition and Quality Assessment,
    CVPR 2021. Norms are clipped as in the authors' code, which has a gradient of 0 outside of the bounds. Beyond
    pi - m the margin is continued as in `arcface`; their default, the easy margin, drops it for angles above pi / 2.
    """
    (lower, upper), (least, most) = norms, margins
    square = ops.sum(ops.square(ops.cast(pairs.anchors, pairs.positive.dtype)), axis=-1)
    norm = ops.sqrt(ops.clip(square, lower**2, upper**2))
    margin = least + (most - least) * (norm - lower) / (upper - lower)
    values = arcface(pairs, margin=lambda _: margin, scale=scale)
    return values + ops.where(count(pairs.positive) > 0, regularization * (1.0 / norm + norm / upper**2), 0.0)


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
    return positives_among_negatives(cosine(pairs), pairs, scale=scale, change=lambda s: _psi(s, margin))


def _psi(cosines, margin):
    """(-1)^k cos(margin t) - 2 k, with cos(margin t) as the Chebyshev polynomial of the cosine."""
    before, current = ops.ones_like(cosines), cosines
    for _ in range(margin - 1):
        before, current = current, 2.0 * cosines * current - before
    bounds = [math.cos(k * math.pi / margin) for k in range(1, margin)]
    k = sum((ops.cast(cosines < bound, cosines.dtype) for bound in bounds), ops.zeros_like(cosines))
    return (1.0 - 2.0 * ops.mod(k, 2.0)) * current - 2.0 * k


def large_margin_softmax(pairs: Pairs, *, margin: int = 4, scale: float = 1.0) -> Tensor:
    """Large-margin softmax loss, one value per anchor: dot products, with the angle of a positive multiplied.

    mean_p -log(exp(scale |a| |p| psi(t_ap)) / (exp(scale |a| |p| psi(t_ap)) + sum_n exp(scale |a| |n| cos t_an)))

    Args:
        pairs: `Pairs` of A anchors and R references, used as they are (not normalized); t is the angle between
            embeddings, and psi that of `sphereface`.
        margin: the whole number that multiplies the angle; 1 is the plain softmax without bias.
        scale: factor of all logits.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Liu, Wen, Yu, Yang, Large-Margin Softmax Loss for Convolutional Neural Networks, ICML 2016. The paper blends
    psi with the cosine during training, and has no scale.
    """
    s, size = cosine(pairs), _norms(pairs.anchors, pairs)[:, None] * _norms(pairs.reference_embeddings, pairs)
    logits = scale * size * ops.where(pairs.positive > 0, _psi(s, margin), s)
    return positives_among_negatives(logits, pairs)


def _norms(x, pairs):
    """The norms of the last axis, with gradient 0 at 0."""
    return ops.sqrt(ops.maximum(ops.sum(ops.square(ops.cast(x, pairs.positive.dtype)), axis=-1), 1e-30))


@serializable
class NormalizedSoftmaxLoss(ProxyLoss):
    """Normalized softmax loss: see `tfdml.losses.normalized_softmax` for the formula and its source.

    Example:

        loss = tfdml.losses.NormalizedSoftmaxLoss(classes=870)  # trained with an EmbeddingModel

    Args:
        scale: sharpness of the softmax, above 0.
        classes: number of classes, or their ids, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
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
        margin: difference of cosines, 0 or more; or a function of `Pairs`, such as `tfdml.layers.Scheduled`.
        scale: sharpness of the softmax, above 0.
        classes: number of classes, or their ids, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 1,
        margin: Margin = 0.35,
        scale: float = 64.0,
        **options: Unpack[PairOptions],
    ) -> None:
        if not callable(margin):
            require(margin >= 0, f"margin={margin}", "a difference of cosines, 0 or more, or a function of Pairs")
        require(scale > 0, f"scale={scale}", "a number above 0")
        super().__init__(cosface, classes=classes, per_class=per_class, margin=margin, scale=scale, **options)


@serializable
class ArcFaceLoss(ProxyLoss):
    """ArcFace loss: see `tfdml.losses.arcface` for the formula and its source.

    Example:

        loss = tfdml.losses.ArcFaceLoss(classes=870, margin=0.5)  # trained with an EmbeddingModel

    Args:
        margin: angle in radians, from 0 to pi / 2; or a function of `Pairs`, such as `tfdml.layers.Scheduled`.
        scale: sharpness of the softmax, above 0.
        classes: number of classes, or their ids, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 1,
        margin: Margin = 0.5,
        scale: float = 64.0,
        **options: Unpack[PairOptions],
    ) -> None:
        _require_angle(margin)
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
        classes: number of classes, or their ids, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 1,
        margin: int = 4,
        scale: float = 64.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(int(margin) == margin >= 1, f"margin={margin}", "a whole number, 1 or more")
        require(scale > 0, f"scale={scale}", "a number above 0")
        super().__init__(sphereface, classes=classes, per_class=per_class, margin=int(margin), scale=scale, **options)


def _require_angle(margin):
    if not callable(margin):
        expected = "an angle in radians, from 0 to pi / 2, or a function of Pairs"
        require(0 <= margin <= math.pi / 2, f"margin={margin}", expected)


class Outliers(NamedTuple):
    """What `SubCenterArcFaceLoss.outliers` finds.

    Attributes:
        rows: numbers of the examples that are far from the dominant center of their class, in ascending order.
        dominant: `(classes,)`, the number of the dominant center of each class, -1 for a class without examples.
    """

    rows: np.ndarray
    dominant: np.ndarray


@serializable
class SubCenterArcFaceLoss(ProxyLoss):
    """Sub-center ArcFace loss: see `tfdml.losses.sub_center_arcface` for the formula and its source.

    Example:

        loss = tfdml.losses.SubCenterArcFaceLoss(classes=870, per_class=3)  # trained with an EmbeddingModel
        noisy = loss.outliers(train.labels, embeddings).rows

    Args:
        classes: number of classes, or their ids; None for another `pairing`.
        per_class: number of proxies for each class, 1 or more.
        margin: angle in radians, from 0 to pi / 2; or a function of `Pairs`, such as `tfdml.layers.Scheduled`.
        scale: sharpness of the softmax, above 0.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 3,
        margin: Margin = 0.5,
        scale: float = 64.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(
            int(per_class) == per_class >= 1, f"per_class={per_class}", "the number of proxies per class, 1 or more"
        )
        _require_angle(margin)
        require(scale > 0, f"scale={scale}", "a number above 0")
        settings = {"per_class": per_class, "margin": margin, "scale": scale}
        super().__init__(sub_center_arcface, classes=classes, proxies_per_class=per_class, **settings, **options)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The loss that `get_config` describes."""
        return super().from_config(renamed(config, centers="per_class"))

    def outliers(self, labels: ArrayLike, embeddings: ArrayLike, *, angle_degrees: float = 75.0) -> Outliers:
        """Examples that are probably labeled wrong: those far from the dominant center of their class.

        The dominant center of a class is the nearest center of most of its examples. Noise gathers around the others.
        The paper trains a second time, without the outliers and with one center per class.

        Args:
            labels: `(examples,)` class ids of the proxies.
            embeddings: `(examples, dim)` embeddings of a trained model, such as `model.predict(images)`.
            angle_degrees: examples at a larger angle to the dominant center are outliers.

        Returns:
            `Outliers(rows, dominant)`, NumPy arrays; no rows for no examples.

        Raises:
            ValueError: a label outside the classes, or a loss that is not built.
        """
        require(self.proxies.built, "a loss without proxies yet", "a trained one: compile an EmbeddingModel with it")
        labels, x = np.asarray(labels).reshape(-1), np.asarray(embeddings, "float32")
        classes, centers = self.proxies.classes, self.settings["per_class"]
        inside = bool(np.isin(labels, self.proxies.ids).all())
        require(inside, "labels outside the classes of the proxies", f"one of the ids of {classes} classes")
        places = np.searchsorted(self.proxies.ids, labels)
        cosines = _cosines_to_own_centers(places, x, ops.convert_to_numpy(self.proxies.vectors), centers)
        votes = np.zeros((classes, centers), "int64")
        np.add.at(votes, (places, cosines.argmax(axis=1)), 1)
        dominant = np.where(votes.any(axis=1), votes.argmax(axis=1), -1)
        far = cosines[np.arange(len(x)), dominant[places]] < math.cos(math.radians(angle_degrees))
        return Outliers(np.flatnonzero(far), dominant)


def _cosines_to_own_centers(places, x, vectors, centers):
    """The cosines of each example and the centers of its class, `(examples, centers)`."""
    unit, w = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-15) for rows in (x, vectors))
    return np.stack([np.einsum("nd,nd->n", unit, w[places * centers + k]) for k in range(centers)], axis=1)


@serializable
class MagFaceLoss(ProxyLoss):
    """MagFace loss: see `tfdml.losses.magface` for the formula and its source.

    Example:

        loss = tfdml.losses.MagFaceLoss(classes=870)  # for a model without normalization at its end

    Args:
        norms: lower and upper bound of the norms of embeddings, above 0.
        margins: angles in radians at these norms, from 0 to pi / 2.
        regularization: weight of the term that rewards large norms, 0 or more.
        scale: sharpness of the softmax, above 0.
        classes: number of classes, or their ids, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 1,
        norms: Sequence[float] = (10.0, 110.0),
        margins: Sequence[float] = (0.45, 0.8),
        regularization: float = 35.0,
        scale: float = 64.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(0 < norms[0] < norms[1], f"norms={norms}", "two numbers above 0, the lower one first")
        require(0 <= margins[0] <= margins[1] <= math.pi / 2, f"margins={margins}", "two angles from 0 to pi / 2")
        require(regularization >= 0, f"regularization={regularization}", "0 or more")
        require(scale > 0, f"scale={scale}", "a number above 0")
        settings = {"norms": list(norms), "margins": list(margins), "regularization": regularization, "scale": scale}
        super().__init__(magface, classes=classes, proxies_per_class=per_class, **settings, **options)


@serializable
class LargeMarginSoftmaxLoss(ProxyLoss):
    """Large-margin softmax loss: see `tfdml.losses.large_margin_softmax` for the formula and its source.

    Example:

        loss = tfdml.losses.LargeMarginSoftmaxLoss(classes=870, margin=2)  # for embeddings that are not normalized

    Args:
        margin: the whole number that multiplies the angle, 1 or more.
        scale: factor of all logits, above 0.
        classes: number of classes, or their ids, each with its own proxies; None for another `pairing`.
        per_class: number of proxies for each class.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 1,
        margin: int = 4,
        scale: float = 1.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(int(margin) == margin >= 1, f"margin={margin}", "a whole number, 1 or more")
        require(scale > 0, f"scale={scale}", "a number above 0")
        settings = {"margin": int(margin), "scale": scale}
        super().__init__(large_margin_softmax, classes=classes, proxies_per_class=per_class, **settings, **options)
