"""The manifold loss: similarities along the graph of a batch and its proxies."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairOptions
from tfdml.losses.classification.proxy_loss import ProxyLoss
from tfdml.losses.reductions import count, require_shared_references, softplus_sum_exp, weighted_mean
from tfdml.pairs import Pairs, cosine, normalized
from tfdml.pairs.base import Tensor
from tfdml.pairs.batch_reductions import require_whole_batch

# Temperature of the similarities in the graph.
_TEMPERATURE = 0.5


def manifold(pairs: Pairs, *, alpha: float = 0.8, margin: float = 5e-4, context_weight: float = 1.0) -> Tensor:
    """Values of `ManifoldLoss`, one per anchor.

    log(1 + sum_n exp(F_an - F_ap + margin)) + context_weight log(1 + sum_n exp(c_an - c_ap + margin))
    F = (1 - alpha) (I - alpha D^-1/2 S D^-1/2)^-1,  S_ij = exp(max(0, s_ij) / 0.5) for i != j
    """
    require_shared_references(pairs, "the manifold loss")
    require_whole_batch(pairs, "the manifold loss", "a random walk visits all anchors of the batch")
    number = ops.shape(pairs.positive)[0]
    walks = _walks(normalized(pairs), alpha)
    intrinsic = _violations(walks[:number, number:], pairs, margin)
    rows = normalized(pairs._replace(anchors=walks[:number], references=walks[number:]))
    return intrinsic + context_weight * _violations(cosine(rows), pairs, margin)


def _walks(pairs, alpha):
    """The similarities F of all anchors and references, `(A + R, A + R)`."""
    nodes = ops.concatenate([pairs.anchors, pairs.reference_embeddings], axis=0)
    itself = ops.eye(ops.shape(nodes)[0], dtype=nodes.dtype)
    s = cosine(pairs._replace(anchors=nodes, references=None))
    s = (1.0 - itself) * ops.exp(ops.relu(s) / _TEMPERATURE)
    scale = ops.rsqrt(ops.sum(s, axis=1))
    system = itself - alpha * scale[:, None] * s * scale
    # TensorFlow raises an error for NaN, which the loss reports by its value.
    return (1.0 - alpha) * ops.inv(ops.where(ops.isfinite(system), system, itself))


def _violations(similarity, pairs, margin):
    """log(1 + sum_n exp(s_an - s_ap + margin)) of each anchor, over the terms with an exponent of 0 or more."""
    to_positives = weighted_mean(similarity, pairs.positive)[:, None]
    exponents = similarity - to_positives + margin
    violating = pairs.drop(negative=(exponents < 0) | (count(pairs.positive)[:, None] == 0))
    return softplus_sum_exp(exponents, violating.negative)


@serializable
class ManifoldLoss(ProxyLoss):
    """Manifold loss: a random walk from the anchor reaches its own proxy more than others.

    log(1 + sum_n exp(F_an - F_ap + margin)) + context_weight log(1 + sum_n exp(c_an - c_ap + margin))
    F = (1 - alpha) (I - alpha D^-1/2 S D^-1/2)^-1,  S_ij = exp(max(0, s_ij) / 0.5) for i != j

    over the negatives n whose exponent is not negative. The nodes of the graph are all anchors and all references, s is
    their cosine similarity, D the diagonal matrix of the row sums of S, and c_ar the cosine of rows a and r of F, the
    contexts of the two nodes. With several positives, F_ap and c_ap are their means.

    An anchor without a positive or a negative gives 0. Time grows with (A + R)^3, memory with (A + R)^2.
    `anchors_per_block` is an error, because the inverse needs the matrix S of the whole batch.

    Also called: manifold proxy loss.

    Example:

        >>> proxies = tfdml.layers.Proxies(2, initializer="identity")  # the axes of the plane
        >>> loss = tfdml.losses.ManifoldLoss(pairing=proxies)
        >>> for labels in ([0, 1], [1, 0]):  # a walk reaches the nearer proxy more often
        ...     round(float(loss(np.array(labels), np.array([[0.8, 0.6], [0.6, 0.8]]))), 4)
        0.0
        1.4039

    See also: `ProxyAnchorLoss` compares similarities with proxies directly, without random walks over the batch.

    Args:
        alpha: share of similarity that a node passes on to its neighbors, in (0, 1).
        margin: how much larger the similarity to the positive must be, 0 or more.
        context_weight: weight of the term of contexts, lambda_C, 0 or more.
        classes, per_class: number of classes (None for another `pairing`), and of proxies for each.

    Source: Aziere, Todorovic, Ensemble Deep Manifold Similarity Learning using Hard Proxies, CVPR 2019.
    """

    def __init__(
        self,
        *,
        classes: int | None = None,
        per_class: int = 1,
        alpha: float = 0.8,
        margin: float = 5e-4,
        context_weight: float = 1.0,
        **options: Unpack[PairOptions],
    ) -> None:
        require(0 < alpha < 1, f"alpha={alpha}", "a share between 0 and 1")
        require(margin >= 0, f"margin={margin}", "0 or more")
        require(context_weight >= 0, f"context_weight={context_weight}", "0 or more")
        settings = {"alpha": alpha, "margin": margin, "context_weight": context_weight}
        super().__init__(manifold, classes=classes, per_class=per_class, **settings, **options)
