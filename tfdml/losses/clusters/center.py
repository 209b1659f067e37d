"""Center loss: the squared distance to the center of the class."""

from typing import Unpack

from numpy.typing import ArrayLike

from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.proxy_loss import ProxyLoss
from tfdml.losses.reductions import weighted_mean
from tfdml.pairs import Pairs, squared
from tfdml.pairs.base import Tensor


def center(pairs: Pairs) -> Tensor:
    """Values of `CenterLoss`, one per anchor.

    mean_p |a - p|^2 / 2
    """
    return weighted_mean(squared(pairs), pairs.positive) / 2


@serializable
class CenterLoss(ProxyLoss, in_blocks=True):
    """Center loss: half the squared distance to the center of the class.

    mean_p |a - p|^2 / 2

    Embeddings are not normalized. An anchor without positives gives 0.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.CenterLoss(pairing=proxies)
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)  # (0.2^2 + 0.6^2) / 2
        0.2

    See also: Add it to a softmax loss by `WeightedSumLoss`; alone it collapses the embeddings.

    Args:
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.

    Source: Wen, Zhang, Li, Qiao, A Discriminative Feature Learning Approach for Deep Face Recognition, ECCV 2016. Here
    centers have the gradient of the loss and the optimizer of the model, in place of an update rule.
    """

    def __init__(
        self, *, classes: int | ArrayLike | None = None, per_class: int = 1, **options: Unpack[PairOptions]
    ) -> None:
        super().__init__(center, classes=classes, per_class=per_class, **options)
