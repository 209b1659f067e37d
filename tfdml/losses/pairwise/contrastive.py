"""Contrastive losses: each pair contributes independently; positives are pulled and negatives pushed up to a margin."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Unpack

import keras
from numpy.typing import ArrayLike

from tfdml._core.backends import custom_gradient, ops
from tfdml._core.checks import require, require_positive
from tfdml._core.serialization import Settings, serializable
from tfdml.losses.base import IndependentPairLoss, IndependentPairOptions
from tfdml.losses.reductions import mean_over_pairs, over_pairs
from tfdml.pairs import Pairs, cosine
from tfdml.pairs.base import Distance, Tensor, in_blocks
from tfdml.pairs.class_values import look_up, positive_counts
from tfdml.pairs.distances import distance_function


@over_pairs(mean_over_pairs)
def contrastive(
    pairs: Pairs, *, positive_margin: float = 0.0, negative_margin: float = 1.0, distance: Distance = "euclidean"
) -> Tensor:
    """Values of `ContrastiveLoss`, one per anchor.

    (1 / pairs) (sum_p max(0, d_ap - positive_margin)^2 + sum_n max(0, negative_margin - d_an)^2)
    """

    @custom_gradient
    def squared_violation(d, positive):
        too_far = ops.relu(d - positive_margin if positive_margin else d)
        violation = ops.where(positive > 0, too_far, ops.minimum(d - negative_margin, 0.0))  # with its slope's sign

        def grad(upstream):
            return 2.0 * upstream * violation, None

        return violation * violation, grad

    return squared_violation(distance_function(distance)(pairs), pairs.positive)


@over_pairs(mean_over_pairs)
def weighted_contrastive(
    pairs: Pairs,
    *,
    positive_cost: Callable[[Tensor], Tensor],
    negative_cost: Callable[[Tensor], Tensor],
    eta: float | Callable[[Pairs], Tensor] = 1.0,
    distance: Distance = "euclidean",
) -> Tensor:
    """Values of `WeightedContrastiveLoss`, one per anchor.

    (1 / pairs) (sum_p g(d_ap) + sum_n eta_an h(d_an))
    """
    d = distance_function(distance)(pairs)
    weight = eta(pairs) if callable(eta) else eta
    return ops.where(pairs.positive > 0, positive_cost(d), weight * negative_cost(d))


@over_pairs(mean_over_pairs)
def balanced_contrastive(
    pairs: Pairs,
    *,
    class_counts: Mapping[int, int] | ArrayLike,
    negatives_per_positive: float = 256.0,
    margin: float = 1.0,
    distance: Distance = "euclidean",
) -> Tensor:
    """Values of `BalancedContrastiveLoss`, one per anchor.

    (1 / pairs) (sum_p d_ap^2 + sum_n eta_an max(0, margin - d_an)^2)
    eta_an = lambda / (L - 1) * (N_a - 1) / N_n
    """
    ids, counts = positive_counts(class_counts)
    counts = counts.astype(keras.backend.standardize_dtype(pairs.positive.dtype))
    anchor_counts, reference_counts = (
        look_up(ids, counts, labels, source="class_counts") for labels in (pairs.anchor_labels, pairs.reference_labels)
    )
    eta = negatives_per_positive / max(len(ids) - 1, 1) * (anchor_counts[:, None] - 1.0) / reference_counts
    d = distance_function(distance)(pairs)
    return ops.where(pairs.positive > 0, ops.square(d), eta * ops.square(ops.maximum(margin - d, 0.0)))


@over_pairs(mean_over_pairs)
def cosine_contrastive(pairs: Pairs, *, threshold: float = 0.5) -> Tensor:
    """Values of `CosineContrastiveLoss`, one per anchor.

    (1 / pairs) (sum_p -s_ap + sum_n max(0, s_an - threshold))
    """
    s = cosine(pairs)
    return ops.where(pairs.positive > 0, -s, ops.maximum(s - threshold, 0.0))


@over_pairs(mean_over_pairs)
def cosine_regression(pairs: Pairs) -> Tensor:
    """Values of `CosineRegressionLoss`, one per anchor.

    (1 / pairs) (sum_p (1 - s_ap)^2 / 2 + sum_n s_an^2 / 2)
    """
    s = cosine(pairs)
    return ops.square(ops.where(pairs.positive > 0, 1.0 - s, s)) / 2


@serializable
@in_blocks
def square(d: Tensor) -> Tensor:
    """g(d) = d^2, the loss of a positive pair in the contrastive loss."""
    return ops.square(d)


@serializable
@in_blocks
@dataclass(frozen=True)
class HingeSquared(Settings):
    """h(d) = max(0, margin - d)^2, the loss of a negative pair in the contrastive loss.

    Example:

        >>> negative_cost = tfdml.losses.HingeSquared(margin=2.0)
        >>> np.asarray(negative_cost(np.array([0.5, 1.0, 2.5])), float).tolist()  # 1.5^2, 1^2 and 0
        [2.25, 1.0, 0.0]

    Args:
        margin: negative pairs farther apart than this have zero loss, above 0.
    """

    margin: float = 1.0

    def __post_init__(self):
        require(self.margin > 0, f"margin={self.margin}", "a distance above 0")

    def __call__(self, d: Tensor) -> Tensor:
        """The loss of a negative pair at each distance."""
        return ops.square(ops.maximum(self.margin - d, 0.0))


_HINGE = HingeSquared(margin=1.0)


@serializable
class ContrastiveLoss(IndependentPairLoss, in_blocks=True):
    """Contrastive loss: positives are pulled within one margin, negatives pushed beyond another.

    (1 / pairs) (sum_p max(0, d_ap - positive_margin)^2 + sum_n max(0, negative_margin - d_an)^2)

    Embeddings are not normalized. An anchor without pairs gives 0. Negative duplicates have gradient 0.

    Also called: pairwise loss, Siamese loss; with `positive_margin`, double-margin contrastive loss.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> loss = tfdml.losses.ContrastiveLoss(negative_margin=2.0)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of (0.25 + 0.25) / 2, (0.25 + 1) / 2 and 0.625
        0.5

    See also: `MarginLoss`, whose gradient does not grow with the violation. `MultiSimilarityLoss` for large batches.

    Args:
        positive_margin: positive pairs closer than this have zero loss; 0 or more.
        negative_margin: negative pairs farther apart than this have zero loss; above `positive_margin`.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Source: Hadsell, Chopra, LeCun, Dimensionality Reduction by Learning an Invariant Mapping, CVPR 2006, eq. 4, without
    its factor 1/2, as a mean over ordered pairs.
    """

    def __init__(
        self,
        *,
        positive_margin: float = 0.0,
        negative_margin: float = 1.0,
        distance: Distance = "euclidean",
        **options: Unpack[IndependentPairOptions],
    ) -> None:
        require(positive_margin >= 0, f"positive_margin={positive_margin}", "a distance of 0 or more")
        require(
            negative_margin > positive_margin,
            f"negative_margin={negative_margin}",
            f"a distance above positive_margin={positive_margin}",
        )
        distance_function(distance)
        super().__init__(
            contrastive, positive_margin=positive_margin, negative_margin=negative_margin, distance=distance, **options
        )


@serializable
class WeightedContrastiveLoss(IndependentPairLoss, in_blocks=True):
    """Weighted contrastive loss.

    (1 / pairs) (sum_p g(d_ap) + sum_n eta_an h(d_an))

    Embeddings are not normalized. An anchor without pairs gives 0.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> loss = tfdml.losses.WeightedContrastiveLoss(negative_cost=tfdml.losses.HingeSquared(margin=2.0), eta=0.5)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of (0.25 + 0.5 * 0.25) / 2, 0.375 and 0.3125
        0.2917

    See also: `BalancedContrastiveLoss`, whose eta follows the sizes of the classes.

    Args:
        positive_cost: g, the loss of a positive pair, an increasing function of an array of distances; d^2 by default.
        negative_cost: h, the loss of a negative pair, a decreasing function of an array of distances; max(0, 1 - d)^2
            by default. Your own functions are saved with the loss if they are registered with Keras.
        eta: weight of negative pairs: a number, 0 or more, or a function of `Pairs` that returns `(A, R)`.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Source: Hong, Park, Kim, Deep Metric Learning via Weighted Contrastive Loss, eq. 10, as the mean of eq. 23.
    """

    def __init__(
        self,
        *,
        positive_cost: Callable[[Tensor], Tensor] = square,
        negative_cost: Callable[[Tensor], Tensor] = _HINGE,
        eta: float | Callable[[Pairs], Tensor] = 1.0,
        distance: Distance = "euclidean",
        **options: Unpack[IndependentPairOptions],
    ) -> None:
        costs = {"positive_cost": positive_cost, "negative_cost": negative_cost}
        for option, value in costs.items():
            require(callable(value), f"{option}={value!r}", "a function of distances")
        require(callable(eta) or eta >= 0, f"eta={eta}", "a number of 0 or more, or a function of Pairs")
        distance_function(distance)
        super().__init__(weighted_contrastive, **costs, eta=eta, distance=distance, **options)


@serializable
class BalancedContrastiveLoss(IndependentPairLoss, in_blocks=True):
    """Balanced contrastive loss: negatives are reweighted to a fixed number per positive pair.

    (1 / pairs) (sum_p d_ap^2 + sum_n eta_an max(0, margin - d_an)^2)
    eta_an = lambda / (L - 1) * (N_a - 1) / N_n

    N_a and N_n are the numbers of training examples in the classes of the anchor and the negative, L the number of
    classes. Embeddings are not normalized. An anchor without pairs gives 0.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]  # distances 0.5, 1.5 and 1
        >>> loss = tfdml.losses.BalancedContrastiveLoss(class_counts=[3, 2], negatives_per_positive=1.0, margin=2.0)
        >>> round(float(loss(labels, embeddings)), 4)  # eta: 2 / 2 for anchors of class 0, 1 / 3 for class 1
        0.3611

    See also: `tfdml.samplers.GroupSampler`, which draws small classes as often as large ones.

    Args:
        class_counts: training examples of each class: an array indexed by class id, or a dict of id to count.
        negatives_per_positive: lambda, above 0; 256 in the paper.
        margin: negative pairs farther apart than this have zero loss, above 0.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.

    Raises:
        ValueError: when called, a label that `class_counts` does not cover; inside a compiled function, NaN.

    Source: Hong, Park, Kim, Deep Metric Learning via Weighted Contrastive Loss, eq. 15. Its eq. 16 prints N_a in the
    denominator; 15 and the derivation have N_n.
    """

    def __init__(
        self,
        *,
        class_counts: Mapping[int, int] | ArrayLike,
        negatives_per_positive: float = 256.0,
        margin: float = 1.0,
        distance: Distance = "euclidean",
        **options: Unpack[IndependentPairOptions],
    ) -> None:
        ids, counts = positive_counts(class_counts)
        require(len(ids) > 0, f"class_counts={class_counts!r}", "a count above 0 for each class")
        require_positive(negatives_per_positive=negatives_per_positive)
        require(margin > 0, f"margin={margin}", "a distance above 0")
        distance_function(distance)
        super().__init__(
            balanced_contrastive,
            class_counts={str(label): int(count) for label, count in zip(ids, counts, strict=True)},
            negatives_per_positive=negatives_per_positive,
            margin=margin,
            distance=distance,
            **options,
        )


@serializable
class CosineContrastiveLoss(IndependentPairLoss, in_blocks=True):
    """Contrastive loss on cosine similarities.

    (1 / pairs) (sum_p -s_ap + sum_n max(0, s_an - threshold))

    s is the cosine similarity; embeddings need not be normalized. The loss is -1 or more. Without pairs it is 0.

    Also called: cosine embedding loss (PyTorch), which adds 1 to the loss of each positive.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.CosineContrastiveLoss(threshold=0.5)
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of (-0.6 + 0) / 2, (-0.6 + 0.3) / 2 and 0.15
        -0.1

    See also: `MarginLoss(distance="cosine")`, which leaves positives alone that are similar enough.

    Args:
        threshold: negative pairs less similar than this have zero loss, in [-1, 1].

    Source: A Unified View of Deep Metric Learning via Gradient Analysis, eq. 5.
    """

    def __init__(self, *, threshold: float = 0.5, **options: Unpack[IndependentPairOptions]) -> None:
        require(-1 <= threshold <= 1, f"threshold={threshold}", "a cosine similarity in [-1, 1]")
        super().__init__(cosine_contrastive, threshold=threshold, **options)


@serializable
class CosineRegressionLoss(IndependentPairLoss, in_blocks=True):
    """Regression of cosine similarities to 1 and 0.

    (1 / pairs) (sum_p (1 - s_ap)^2 / 2 + sum_n s_an^2 / 2)

    s is the cosine similarity; embeddings need not be normalized. An anchor without pairs gives 0.

    Also called: cosine similarity loss (sentence-transformers), without its scores between 0 and 1.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.CosineRegressionLoss()
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of (0.4^2 / 2 + 0) / 2, 0.2 and 0.16
        0.1333

    See also: `CosineContrastiveLoss`, which leaves negatives alone below a threshold.

    Source: Serrat, Deep Metric Learning, course slides 2021-22, "Cosine distance".
    """

    def __init__(self, **options: Unpack[IndependentPairOptions]) -> None:
        super().__init__(cosine_regression, **options)
