"""ArcFace: an additive angular margin, and its form with several centers for each class."""

import math
from typing import Unpack

from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole, require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.normalized_softmax import Margin, margins_of
from tfdml.losses.classification.proxy_loss import ProxyLoss, by_class, over_classes
from tfdml.losses.pairwise.nt_xent import one_positive_among_negatives
from tfdml.losses.reductions import require_shared_references
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Tensor


def arcface(pairs: Pairs, *, margin: Margin = 0.5, scale: float = 64.0) -> Tensor:
    """Values of `ArcFaceLoss`, one per anchor.

    mean_p -log(exp(scale f(t_ap)) / (exp(scale f(t_ap)) + sum_n exp(scale cos t_an)))
    f(t) = cos(t + margin) for t <= pi - margin, cos t - margin sin(margin) beyond
    """
    return _softmax_after_margin(cosine(pairs), pairs, margin, scale)


def _softmax_after_margin(s, pairs, margin, scale):
    """The ArcFace loss of cosines `(A, R)`."""
    m = margins_of(margin, pairs)
    return one_positive_among_negatives(s, pairs, scale=scale, change=lambda s: _cosine_after_margin(s, m))


def _cosine_after_margin(cosines, margin):
    """cos(t + margin), and beyond pi - margin a line in the cosine that keeps it decreasing in t."""
    cos_margin, sin_margin = ops.cos(margin), ops.sin(margin)
    sine = ops.sqrt(ops.maximum(1.0 - ops.square(cosines), 1e-12))
    shifted = cosines * cos_margin - sine * sin_margin
    return ops.where(cosines >= -cos_margin, shifted, cosines - margin * sin_margin)


def sub_center_arcface(pairs: Pairs, *, per_class: int = 3, margin: Margin = 0.5, scale: float = 64.0) -> Tensor:
    """Values of `SubCenterArcFaceLoss`, one per anchor.

    mean_p -log(exp(scale f(t_ap)) / (exp(scale f(t_ap)) + sum_n exp(scale cos t_an))),  t_ac = min_k t_ack

    The references have `per_class` rows for each class, one class after the other.
    """
    require_shared_references(pairs, "the sub-center ArcFace loss")
    s = ops.amax(by_class(cosine(pairs), per_class), axis=-1)
    return _softmax_after_margin(s, over_classes(pairs, per_class), margin, scale)


@serializable
class ArcFaceLoss(ProxyLoss, in_blocks=True):
    """ArcFace loss (additive angular margin): a margin is added to the angle of a positive.

    mean_p -log(exp(scale f(t_ap)) / (exp(scale f(t_ap)) + sum_n exp(scale cos t_an)))
    f(t) = cos(t + margin) for t <= pi - margin, cos t - margin sin(margin) beyond

    t is the angle between embeddings, which need not be normalized. An anchor without a positive or a negative gives 0.

    Also called: AAM-softmax in speaker verification.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.ArcFaceLoss(pairing=proxies, margin=0.5, scale=4.0)
        >>> # log(1 + exp(4 (0.6 - cos(acos(0.8) + 0.5))))
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)
        1.1317
        >>> loss = tfdml.losses.ArcFaceLoss(classes=870, margin=0.5)  # proxies that EmbeddingModel trains

    See also: `SubCenterArcFaceLoss` for noisy labels, `MagFaceLoss` for images of uneven quality.

    Args:
        margin: angle in radians, from 0 to pi / 2; or a function of `Pairs` that returns an angle or one for each
            anchor, `(A,)`, such as `tfdml.layers.ScheduledOption`.
        scale: sharpness of the softmax, above 0.
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.

    Source: Deng, Guo, Xue, Zafeiriou, ArcFace: Additive Angular Margin Loss for Deep Face Recognition, CVPR 2019, eq.
    3. cos(t + margin) increases beyond pi - margin; f decreases everywhere, as in the authors' code, insightface.
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
        require_angle(margin)
        require(scale > 0, f"scale={scale}", "a number above 0")
        super().__init__(arcface, classes=classes, per_class=per_class, margin=margin, scale=scale, **options)


def require_angle(margin: Margin) -> None:
    """Raise a ValueError unless a margin is an angle, or a function of `Pairs`."""
    if not callable(margin):
        expected = "an angle in radians, from 0 to pi / 2, or a function of Pairs"
        require(0 <= margin <= math.pi / 2, f"margin={margin}", expected)


@serializable
class SubCenterArcFaceLoss(ProxyLoss, in_blocks=True):
    """Sub-center ArcFace loss: the ArcFace loss on the nearest of several centers of each class.

    mean_p -log(exp(scale f(t_ap)) / (exp(scale f(t_ap)) + sum_n exp(scale cos t_an))),  t_ac = min_k t_ack

    t_ack is the angle to center k of class c; f is as in `ArcFaceLoss`. All anchors share their references; another
    `pairing` has `per_class` for each class, one class after the other. An anchor without a positive or a negative
    gives 0.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, per_class=2, initializer="ones")
        >>> loss = tfdml.losses.SubCenterArcFaceLoss(pairing=proxies, per_class=2, margin=0.0, scale=4.0)
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)  # log 2: all centers are equal
        0.6931

    See also: `tfdml.analysis.label_noise`, which lists the examples far from the dominant center of their class.

    Args:
        classes, per_class: number of classes (or their ids; None for another `pairing`), and of proxies for each.
        margin: as in `ArcFaceLoss`.
        scale: sharpness of the softmax, above 0.

    Source: Deng, Guo, Liu, Gong, Zafeiriou, Sub-center ArcFace: Boosting Face Recognition by Large-Scale Noisy Web
    Faces, ECCV 2020.
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
        per_class = as_whole("per_class", per_class, 1)
        require_angle(margin)
        require(scale > 0, f"scale={scale}", "a number above 0")
        settings = {"margin": margin, "scale": scale}
        super().__init__(sub_center_arcface, classes=classes, per_class=per_class, **settings, **options)
