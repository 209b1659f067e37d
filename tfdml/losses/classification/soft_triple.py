"""SoftTriple: softmax over classes that have several centers."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole, require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.proxy_loss import ProxyLoss, by_class, over_classes
from tfdml.losses.pairwise.nt_xent import one_positive_among_negatives
from tfdml.losses.reductions import require_shared_references
from tfdml.pairs import Pairs, cosine, normalized
from tfdml.pairs.base import Tensor


def soft_triple(
    pairs: Pairs,
    *,
    per_class: int = 10,
    margin: float = 0.01,
    scale: float = 20.0,
    temperature: float = 0.1,
    nu: float = 0.2,
) -> Tensor:
    """Values of `SoftTripleLoss`, one per anchor.

    mean_p -log(exp(scale (S_ap - margin)) / (exp(scale (S_ap - margin)) + sum_n exp(scale S_an))) + nu R
    S_ac = sum_k q_k s_ack, with q = softmax_k(s_ack / temperature); R = mean over c and k < l of |w_ck - w_cl| / 2

    The references have `per_class` rows for each class, one class after the other.
    """
    require_shared_references(pairs, "the SoftTriple loss")
    relaxed, classes = _soft_maximum(by_class(cosine(pairs), per_class), temperature), over_classes(pairs, per_class)
    values = one_positive_among_negatives(relaxed, classes, scale=scale, change=lambda s: s - margin)
    return values if per_class == 1 else values + nu * _spread(normalized(pairs).reference_embeddings, per_class)


def _soft_maximum(s, temperature):
    """The mean along the last axis with weights exp(s / temperature)."""
    weights = ops.exp((s - ops.stop_gradient(ops.amax(s, axis=-1, keepdims=True))) / temperature)
    return ops.sum(weights * s, axis=-1) / ops.sum(weights, axis=-1)


def _spread(references, centers):
    """The mean over pairs of centers of a class of half their distance."""
    w = ops.reshape(references, (-1, centers, references.shape[-1]))
    between = ops.sqrt(ops.maximum(2.0 - 2.0 * ops.matmul(w, ops.swapaxes(w, 1, 2)), 1e-12))
    first, second = np.triu_indices(centers, 1)
    return ops.mean(ops.take(ops.reshape(between, (-1, centers**2)), first * centers + second, axis=1)) / 2.0


@serializable
class SoftTripleLoss(ProxyLoss, in_blocks=True):
    """SoftTriple loss: cross-entropy of classes that have several centers each.

    mean_p -log(exp(scale (S_ap - margin)) / (exp(scale (S_ap - margin)) + sum_n exp(scale S_an))) + nu R
    S_ac = sum_k q_k s_ack, with q = softmax_k(s_ack / temperature); R = mean over c and k < l of |w_ck - w_cl| / 2

    s is the cosine similarity, and w_ck is center k of class c. All anchors share their references; another `pairing`
    has `per_class` for each class, one class after the other. An anchor without a positive or a negative gives nu R,
    which is 0 for one center.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.SoftTripleLoss(pairing=proxies, per_class=1, scale=4.0)
        >>> # log(1 + exp(4 (0.6 - (0.8 - 0.01))))
        >>> round(float(loss(np.array([0, 1]), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)
        0.3837

    See also: `NormalizedSoftmaxLoss` has one center per class; `SubCenterArcFaceLoss` takes the nearest center.

    Args:
        classes, per_class: number of classes (or their ids; None for another `pairing`), and K of proxies for each.
        margin: difference of similarities that a positive class must have over the negatives, 0 or more.
        scale: sharpness of the softmax over classes, above 0.
        temperature: gamma of the softmax over the centers of a class, above 0; small values take the nearest center.
        nu: regularization weight of R, 0 or more. It merges centers that a class does not need.

    Source: Qian, Shang, Sun, Hu, Li, Jin, SoftTriple Loss: Deep Metric Learning Without Triplet Sampling, ICCV 2019.
    """

    def __init__(
        self,
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 10,
        margin: float = 0.01,
        scale: float = 20.0,
        temperature: float = 0.1,
        nu: float = 0.2,
        **options: Unpack[PairOptions],
    ) -> None:
        per_class = as_whole("per_class", per_class, 1)
        require(margin >= 0, f"margin={margin}", "a difference of cosines, 0 or more")
        require(scale > 0, f"scale={scale}", "a number above 0")
        require(temperature > 0, f"temperature={temperature}", "a number above 0")
        require(nu >= 0, f"nu={nu}", "0 or more")
        settings = {"margin": margin, "scale": scale, "temperature": temperature, "nu": nu}
        super().__init__(soft_triple, classes=classes, per_class=per_class, **settings, **options)
