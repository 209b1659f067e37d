"""Normalized softmax (NormFace): cosines to class proxies."""

from collections.abc import Callable
from typing import TypeAlias, Unpack

from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.proxy_loss import ProxyLoss
from tfdml.losses.pairwise.nt_xent import one_positive_among_negatives
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor

Margin: TypeAlias = float | Callable[[Pairs], Tensor]


def normalized_softmax(pairs: Pairs, *, scale: float = 64.0) -> Tensor:
    """Values of `NormalizedSoftmaxLoss`, one per anchor.

    mean_p -log(exp(scale cos t_ap) / (exp(scale cos t_ap) + sum_n exp(scale cos t_an)))
    """
    return one_positive_among_negatives(cosine(pairs), pairs, scale=scale)


def margins_of(margin, pairs):
    """The margin of each anchor as a column, or the number that all of them share."""
    values = margin(pairs) if callable(margin) else margin
    return ops.reshape(ops.cast(values, pairs.positive.dtype), (-1, 1))


@serializable
class NormalizedSoftmaxLoss(ProxyLoss, in_blocks=True):
    """Normalized softmax loss (NormFace): cross-entropy of scaled cosines.

    mean_p -log(exp(scale cos t_ap) / (exp(scale cos t_ap) + sum_n exp(scale cos t_an)))

    t is the angle between embeddings, which need not be normalized. An anchor without a positive or a negative gives 0.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.NormalizedSoftmaxLoss(pairing=proxies, scale=4.0)
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)  # log(1 + exp(4 (0.6 - 0.8)))
        0.3711

    See also: `CosFaceLoss` and `ArcFaceLoss` add a margin; `NTXentLoss` is the softmax over a batch.

    Args:
        scale: sharpness of the softmax, above 0.
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.

    Source: Wang, Xiang, Cheng, Yuille, NormFace: L2 Hypersphere Embedding for Face Verification, ACM Multimedia 2017.
    The scale is fixed here; the paper also learns it. It is `NTXentLoss` with a temperature of 1 / scale.
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
