"""ProxyNCA: neighborhood component analysis over class proxies."""

from typing import Unpack

from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.proxy_loss import ProxyLoss
from tfdml.losses.pairwise.nt_xent import one_positive_among_negatives
from tfdml.losses.reductions import log_sum_exp, weighted_mean
from tfdml.pairs import Pairs, normalized, squared
from tfdml.pairs.base import Tensor


def proxy_nca(pairs: Pairs, *, scale: float = 1.0, positive_in_denominator: bool = False) -> Tensor:
    """Values of `ProxyNCALoss`, one per anchor.

    mean_p -log(exp(-scale d_ap^2) / sum_n exp(-scale d_an^2))
    """
    logits = -scale * squared(normalized(pairs))
    if positive_in_denominator:
        return one_positive_among_negatives(logits, pairs)
    against = log_sum_exp(logits, pairs.negative)[:, None]
    is_compared = ops.logical_and(pairs.positive > 0, against > -float("inf"))
    return weighted_mean(ops.where(is_compared, ops.where(is_compared, against, 0.0) - logits, 0.0), pairs.positive)


@serializable
class ProxyNCALoss(ProxyLoss, in_blocks=True):
    """ProxyNCA loss: the distance of a positive against the negatives.

    mean_p -log(exp(-scale d_ap^2) / sum_n exp(-scale d_an^2))

    d is the distance of embeddings scaled to norm 1. The loss may be negative unless the positive is in the
    denominator. An anchor without a positive or a negative gives 0.

    Also called: Proxy-NCA; Proxy-NCA++ with `positive_in_denominator=True` and a larger `scale`.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.ProxyNCALoss(pairing=proxies, scale=4.0)
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)  # 4 (0.4 - 0.8)
        -1.6

    See also: `ProxyAnchorLoss` takes proxies as anchors; `NCALoss` is the same over a batch.

    Args:
        scale: sharpness of the softmax, the inverse of a temperature, above 0.
        positive_in_denominator: add exp(-scale d_ap^2) to the denominator, so that the fraction is a probability.
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.

    Source: Movshovitz-Attias, Toshev, Leung, Ioffe, Singh, No Fuss Distance Metric Learning using Proxies, ICCV 2017,
    whose denominator leaves out the positive; Teh, DeVries, Taylor, ProxyNCA++, ECCV 2020, puts it in, with a
    temperature.
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
