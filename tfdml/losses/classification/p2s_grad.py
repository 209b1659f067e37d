"""P2SGrad: regression of cosines to class proxies."""

from typing import Unpack

from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.serialization import serializable
from tfdml.losses.base import IndependentPairLoss, IndependentPairOptions
from tfdml.losses.classification.proxy_loss import ProxyLoss
from tfdml.losses.reductions import over_pairs
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor


def _sum_over_pairs(losses, pairs):
    return ops.sum((pairs.positive + pairs.negative) * losses, axis=1)


@over_pairs(_sum_over_pairs)
def p2s_grad(pairs: Pairs) -> Tensor:
    """Values of `P2SGradLoss`, one per anchor.

    sum_p (1 - cos t_ap)^2 / 2 + sum_n (cos t_an)^2 / 2
    """
    s = cosine(pairs)
    return ops.square(ops.where(pairs.positive > 0, 1.0 - s, s)) / 2


@serializable
class P2SGradLoss(IndependentPairLoss, ProxyLoss, in_blocks=True):
    """P2SGrad loss (probability-to-similarity gradient): regression of cosines to 1 and 0.

    sum_p (1 - cos t_ap)^2 / 2 + sum_n (cos t_an)^2 / 2

    Its gradient by a cosine is the cosine minus 1 or 0, where a softmax has the probability minus 1 or 0. t is the
    angle between embeddings, which need not be normalized. An anchor without pairs gives 0.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.P2SGradLoss(pairing=proxies)
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)  # 0.2^2 / 2 + 0.6^2 / 2
        0.2

    See also: `NormalizedSoftmaxLoss`, whose scale has to be chosen; P2SGrad has no hyperparameter.

    Args:
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.

    Source: Zhang et al., P2SGrad: Refined Gradients for Optimizing Deep Face Models, CVPR 2019, which defines the
    gradient; this is its integral. It is the sum over pairs where `CosineRegressionLoss` is the mean.
    """

    def __init__(
        self, *, classes: int | ArrayLike | None = None, per_class: int = 1, **options: Unpack[IndependentPairOptions]
    ) -> None:
        super().__init__(p2s_grad, classes=classes, per_class=per_class, **options)
