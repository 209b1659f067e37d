"""MagFace: a margin that grows with the norm of the embedding."""

import math
from collections.abc import Sequence
from typing import Unpack

from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.arcface import arcface
from tfdml.losses.classification.proxy_loss import ProxyLoss
from tfdml.losses.reductions import count
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor


def magface(
    pairs: Pairs,
    *,
    norms: Sequence[float] = (10.0, 110.0),
    margins: Sequence[float] = (0.45, 0.8),
    regularization: float = 35.0,
    scale: float = 64.0,
) -> Tensor:
    """Values of `MagFaceLoss`, one per anchor.

    arcface(margin m_a) + regularization (1 / |a| + |a| / U^2)
    m_a = l + (u - l) (|a| - L) / (U - L), with |a| clipped to [L, U]
    """
    (lower, upper), (least, most) = norms, margins
    square = ops.sum(ops.square(ops.cast(pairs.anchors, pairs.positive.dtype)), axis=-1)
    norm = ops.sqrt(ops.clip(square, lower**2, upper**2))
    margin = least + (most - least) * (norm - lower) / (upper - lower)
    values = arcface(pairs, margin=lambda _: margin, scale=scale)
    return values + ops.where(count(pairs.positive) > 0, regularization * (1.0 / norm + norm / upper**2), 0.0)


@serializable
class MagFaceLoss(ProxyLoss, in_blocks=True):
    """MagFace loss: ArcFace with a margin that grows with the norm of the embedding.

    arcface(margin m_a) + regularization (1 / |a| + |a| / U^2)
    m_a = l + (u - l) (|a| - L) / (U - L), with |a| clipped to [L, U]

    The second term rewards large norms, so that the norm of an embedding tells how well it is recognized. Embeddings
    must not be normalized. An anchor without a positive gives 0; one without a negative gives the second term.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.MagFaceLoss(pairing=proxies, scale=4.0)
        >>> # log(1 + exp(4 (0.6 - cos(acos(0.8) + 0.45)))) + 35 (1 / 10 + 10 / 110^2)
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)
        4.5424

    See also: `ArcFaceLoss`, whose margin is the same for all norms.

    Args:
        norms: lower and upper bound of the norms of embeddings, L and U, above 0.
        margins: angles in radians at these norms, l and u, from 0 to pi / 2.
        regularization: weight of the second term, lambda_g, 0 or more.
        scale: sharpness of the softmax, above 0.
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.

    Source: Meng, Zhao, Huang, Zhou, MagFace: A Universal Representation for Face Recognition and Quality Assessment,
    CVPR 2021. Norms are clipped as in the authors' code, whose default, the easy margin, drops the margin for angles
    above pi / 2.
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
        super().__init__(magface, classes=classes, per_class=per_class, **settings, **options)
