"""Proxy anchor: proxies as anchors against the batch."""

from typing import Unpack

from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.proxy_loss import ProxyLoss
from tfdml.losses.reductions import broadcast_to_anchors, count, log_sum_exp, require_shared_references
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import batch_log_add_exp, batch_sum


def proxy_anchor(pairs: Pairs, *, margin: float = 0.1, alpha: float = 32.0) -> Tensor:
    """Values of `ProxyAnchorLoss`, one per anchor.

    mean_r+ log(1 + sum_p exp(-alpha (s_pr - margin))) + mean_r log(1 + sum_n exp(alpha (s_nr + margin)))
    """
    require_shared_references(pairs, "the proxy anchor loss")
    s = cosine(pairs)
    pull = log_sum_exp(-alpha * (s - margin), pairs.positive, axis=0)
    push = log_sum_exp(alpha * (s + margin), pairs.negative, axis=0)
    sums = ops.softplus(batch_log_add_exp(ops.stack([pull, push]), pairs))
    either = pairs.positive + pairs.negative
    number = batch_sum(ops.stack([count(ops.transpose(weights)) for weights in (pairs.positive, either)]), pairs)
    means = ops.sum(sums, axis=1) / ops.maximum(ops.sum(ops.cast(number > 0, s.dtype), axis=1), 1.0)
    return broadcast_to_anchors(ops.sum(means), pairs)


@serializable
class ProxyAnchorLoss(ProxyLoss, in_blocks=True):
    """Proxy anchor loss, a value of the batch: every proxy against the anchors of its class and of others.

    mean_r+ log(1 + sum_p exp(-alpha (s_pr - margin))) + mean_r log(1 + sum_n exp(alpha (s_nr + margin)))

    s is the cosine similarity, p and n are the positive and negative anchors of the proxy r, and r+ is a proxy with
    positives. All anchors share their references. A batch without pairs gives 0; proxies without pairs do not count.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.ProxyAnchorLoss(pairing=proxies, alpha=4.0)
        >>> # log(1 + exp(-4 * 0.7)) + log(1 + exp(4 * 0.7))
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)
        2.9181

    See also: `ProxyNCALoss`, whose anchors are the examples.

    Args:
        margin: slack delta of both sums, 0 or more.
        alpha: sharpness of the sums, above 0.
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.

    Source: Kim, Kim, Cho, Kwak, Proxy Anchor Loss for Deep Metric Learning, CVPR 2020, eq. 4.
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
        super().__init__(proxy_anchor, classes=classes, per_class=per_class, margin=margin, alpha=alpha, **options)
