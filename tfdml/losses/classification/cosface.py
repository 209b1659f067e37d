"""CosFace: an additive margin of cosines."""

from typing import Unpack

from numpy.typing import ArrayLike

from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.normalized_softmax import Margin, margins_of
from tfdml.losses.classification.proxy_loss import ProxyLoss
from tfdml.losses.pairwise.nt_xent import one_positive_among_negatives
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor


def cosface(pairs: Pairs, *, margin: Margin = 0.35, scale: float = 64.0) -> Tensor:
    """Values of `CosFaceLoss`, one per anchor.

    mean_p -log(exp(scale (cos t_ap - margin)) / (exp(scale (cos t_ap - margin)) + sum_n exp(scale cos t_an)))
    """
    s, m = cosine(pairs), margins_of(margin, pairs)
    return one_positive_among_negatives(s, pairs, scale=scale, change=lambda s: s - m)


@serializable
class CosFaceLoss(ProxyLoss, in_blocks=True):
    """CosFace loss (large margin cosine loss): the cosine of a positive minus a margin.

    mean_p -log(exp(scale (cos t_ap - margin)) / (exp(scale (cos t_ap - margin)) + sum_n exp(scale cos t_an)))

    t is the angle between embeddings, which need not be normalized. An anchor without a positive or a negative gives 0.

    Also called: AM-softmax (additive margin softmax), LMCL.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.CosFaceLoss(pairing=proxies, margin=0.35, scale=4.0)
        >>> # log(1 + exp(4 (0.6 - (0.8 - 0.35))))
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)
        1.0375

    See also: `ArcFaceLoss` has the margin in angles; `NormalizedSoftmaxLoss` has none.

    Args:
        margin: difference of cosines that a positive must have over the negatives, 0 or more; or a function of `Pairs`
            that returns a number or one for each anchor, `(A,)`, such as `tfdml.layers.ScheduledOption`.
        scale: sharpness of the softmax, above 0.
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.

    Source: Wang et al., CosFace: Large Margin Cosine Loss for Deep Face Recognition, CVPR 2018, eq. 4.
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
