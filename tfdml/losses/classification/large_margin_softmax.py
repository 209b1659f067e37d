"""Large-margin softmax: a multiplicative angular margin of embeddings that are not normalized."""

from typing import Unpack

from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole, require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.proxy_loss import ProxyLoss
from tfdml.losses.classification.sphereface import norms, psi
from tfdml.losses.pairwise.nt_xent import one_positive_among_negatives
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor


def large_margin_softmax(pairs: Pairs, *, margin: int = 4, scale: float = 1.0) -> Tensor:
    """Values of `LargeMarginSoftmaxLoss`, one per anchor.

    mean_p -log(exp(scale |a| |p| psi(t_ap)) / (exp(scale |a| |p| psi(t_ap)) + sum_n exp(scale |a| |n| cos t_an)))
    """
    s, size = cosine(pairs), norms(pairs.anchors, pairs)[:, None] * norms(pairs.reference_embeddings, pairs)
    logits = scale * size * ops.where(pairs.positive > 0, psi(s, margin), s)
    return one_positive_among_negatives(logits, pairs)


@serializable
class LargeMarginSoftmaxLoss(ProxyLoss, in_blocks=True):
    """Large-margin softmax loss: dot products, with the angle of a positive multiplied.

    mean_p -log(exp(scale |a| |p| psi(t_ap)) / (exp(scale |a| |p| psi(t_ap)) + sum_n exp(scale |a| |n| cos t_an)))

    Embeddings are not normalized; t is the angle between them, and psi is as in `SphereFaceLoss`. An anchor without a
    positive or a negative gives 0.

    Also called: L-softmax.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.LargeMarginSoftmaxLoss(pairing=proxies, margin=2)
        >>> # log(1 + exp(0.6 - cos(2 acos(0.8))))
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)
        0.8659

    See also: `SphereFaceLoss` is the same on normalized embeddings.

    Args:
        margin: the whole number that multiplies the angle, 1 or more; 1 is the plain softmax without bias.
        scale: factor of all logits, above 0.
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.

    Source: Liu, Wen, Yu, Yang, Large-Margin Softmax Loss for Convolutional Neural Networks, ICML 2016. The paper blends
    psi with the cosine during training, and has no scale.
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
        require(scale > 0, f"scale={scale}", "a number above 0")
        settings = {"margin": as_whole("margin", margin, 1), "scale": scale}
        super().__init__(large_margin_softmax, classes=classes, per_class=per_class, **settings, **options)
