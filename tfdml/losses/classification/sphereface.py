"""SphereFace: a multiplicative angular margin."""

import math
from typing import Unpack

from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole, require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.proxy_loss import ProxyLoss
from tfdml.losses.pairwise.nt_xent import one_positive_among_negatives
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor


def sphereface(pairs: Pairs, *, margin: int = 4, scale: float | str = 64.0) -> Tensor:
    """Values of `SphereFaceLoss`, one per anchor.

    mean_p -log(exp(scale psi(t_ap)) / (exp(scale psi(t_ap)) + sum_n exp(scale cos t_an)))
    psi(t) = (-1)^k cos(margin t) - 2 k for t from k pi / margin to (k + 1) pi / margin
    """
    s = cosine(pairs)
    if isinstance(scale, str):  # "norm"
        logits = norms(pairs.anchors, pairs)[:, None] * ops.where(pairs.positive > 0, psi(s, margin), s)
        return one_positive_among_negatives(logits, pairs)
    return one_positive_among_negatives(s, pairs, scale=scale, change=lambda s: psi(s, margin))


def norms(x, pairs):
    """The norms of the last axis, with gradient 0 at 0."""
    return ops.sqrt(ops.maximum(ops.sum(ops.square(ops.cast(x, pairs.positive.dtype)), axis=-1), 1e-30))


def psi(cosines, margin):
    """(-1)^k cos(margin t) - 2 k, with cos(margin t) as the Chebyshev polynomial of the cosine."""
    before, current = ops.ones_like(cosines), cosines
    for _ in range(margin - 1):
        before, current = current, 2.0 * cosines * current - before
    bounds = [math.cos(k * math.pi / margin) for k in range(1, margin)]
    k = sum((ops.cast(cosines < bound, cosines.dtype) for bound in bounds), ops.zeros_like(cosines))
    return (1.0 - 2.0 * ops.mod(k, 2.0)) * current - 2.0 * k


@serializable
class SphereFaceLoss(ProxyLoss, in_blocks=True):
    """SphereFace loss (angular softmax): the angle of a positive is multiplied.

    mean_p -log(exp(scale psi(t_ap)) / (exp(scale psi(t_ap)) + sum_n exp(scale cos t_an)))
    psi(t) = (-1)^k cos(margin t) - 2 k for t from k pi / margin to (k + 1) pi / margin

    t is the angle between embeddings, which need not be normalized. An anchor without a positive or a negative gives 0.

    Also called: A-softmax.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.SphereFaceLoss(pairing=proxies, margin=2, scale=4.0)
        >>> # log(1 + exp(4 (0.6 - cos(2 acos(0.8)))))
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)
        1.5253

    See also: `ArcFaceLoss` and `CosFaceLoss`, whose additive margins are easier to train.

    Args:
        margin: the whole number that multiplies the angle, 1 or more.
        scale: sharpness of the softmax, above 0; or "norm" for the norm |a| of the embedding, as in the paper, which
            normalizes the proxies only. The embedding must then not be normalized.
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.

    Source: Liu et al., SphereFace: Deep Hypersphere Embedding for Face Recognition, CVPR 2017, section 3, with
    `scale="norm"`; Serrat, Deep Metric Learning, course slides 2021-22, prints that form. The paper blends psi with the
    cosine during training.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 1,
        margin: int = 4,
        scale: float | str = 64.0,
        **options: Unpack[PairOptions],
    ) -> None:
        is_number = isinstance(scale, int | float) and scale > 0
        require(is_number or scale == "norm", f"scale={scale!r}", 'a number above 0, or "norm"')
        settings = {"margin": as_whole("margin", margin, 1), "scale": scale}
        super().__init__(sphereface, classes=classes, per_class=per_class, **settings, **options)
