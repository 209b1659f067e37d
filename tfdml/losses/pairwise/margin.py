"""The margin loss: pairs against a boundary, fixed or learned."""

from collections.abc import Callable
from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_one_of
from tfdml._core.serialization import serializable
from tfdml.layers.boundaries import same_class
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import mean_over_batch, over_batch
from tfdml.pairs import Pairs, normalized
from tfdml.pairs.base import Distance, Tensor
from tfdml.pairs.distances import distance_function


@over_batch
def margin(
    pairs: Pairs,
    *,
    margin: float = 0.2,
    boundary: float | Callable[[Pairs], Tensor] = 1.2,
    nu: float = 0.0,
    distance: Distance = "euclidean",
    normalize: str = "active",
) -> Tensor:
    """Values of `MarginLoss`, one per anchor.

    (A / N) (sum_p max(0, margin + d_ap - beta_a) + sum_n max(0, margin + beta_a - d_an)) + nu beta_a
    """
    beta = _boundaries(boundary, pairs)
    losses = _margin_pair_losses(pairs, margin, beta, distance)
    mean = mean_over_batch(losses, pairs, normalize)
    return mean.per_anchor(pairs) + nu * ops.cast(beta[:, 0], losses.dtype) if nu and callable(boundary) else mean


_margin = margin  # where an argument has the same name


def _margin_pair_losses(pairs, margin, boundary, distance):
    """The loss of each pair in `margin`, `(A, R)`, as a positive or a negative pair."""
    d = distance_function(distance)(normalized(pairs))
    beta = ops.cast(_boundaries(boundary, pairs), d.dtype)
    return ops.maximum(margin + ops.where(pairs.positive > 0, d - beta, beta - d), 0.0)


def _boundaries(boundary, pairs):
    """The boundary of each anchor as a column, or the number that all of them share."""
    return boundary(pairs)[:, None] if callable(boundary) else boundary


@serializable
class MarginLoss(PairLoss, in_blocks=True):
    """Margin loss: positives must be nearer than a boundary, negatives farther, by a margin.

    (A / N) (sum_p max(0, margin + d_ap - beta_a) + sum_n max(0, margin + beta_a - d_an)) + nu beta_a

    d is the distance of embeddings scaled to norm 1. N is the number of pairs in the batch with a nonzero loss, or of
    all pairs with `normalize="all"`, so that the mean over the A anchors is the paper's loss. An anchor without pairs,
    or every anchor if no pair has a nonzero loss, gives nu beta_a.

    Also called: margin-based loss; distance-weighted margin loss with `miner=tfdml.miners.DistanceWeighted()`.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.MarginLoss(margin=0.2, boundary=0.5, distance="cosine")
        >>> round(float(loss(labels, embeddings)), 4)  # the mean of 0.1 * 3 / 4, 0.45 and 0.375
        0.3

    See also: `TripletLoss`, which needs no boundary, but gives no threshold for "same or not" either.

    Args:
        margin: how far each pair must be from the boundary, 0 or more.
        boundary: the distance beta that separates positives from negatives: a number in [0, 2], or a function of
            `Pairs` that returns one for each anchor, such as `Boundaries`, which `EmbeddingModel` trains and saves.
        nu: regularization weight of a learned boundary, 0 or more. At the optimum of a boundary that all anchors share,
            nu is the share of active positives minus the share of active negatives among the N pairs.
        distance: "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`.
        normalize: "active" divides by the number of pairs with a nonzero loss, "all" by the number of all pairs.

    Source: Wu, Manmatha, Smola, Kraehenbuehl, Sampling Matters in Deep Embedding Learning, ICCV 2017, section 4. With
    `distance="cosine"` and a boundary of 1 - lambda it is the margin loss on similarities, max(0, m + y (lambda - s)),
    of A Simple and Effective Framework for Pairwise Deep Metric Learning, section 3.3.
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        boundary: float | Callable[[Pairs], Tensor] = 1.2,
        nu: float = 0.0,
        distance: Distance = "euclidean",
        normalize: str = "active",
        **options: Unpack[PairOptions],
    ) -> None:
        require(margin >= 0, f"margin={margin}", "a distance of 0 or more")
        if not callable(boundary):
            require(0 <= boundary <= 2, f"boundary={boundary}", "a distance in [0, 2], or Boundaries that are learned")
            require(nu == 0, f"nu={nu} with boundary={boundary}", "nu=0, or boundary=tfdml.layers.Boundaries(...)")
        require(nu >= 0, f"nu={nu}", "0 or more")
        require_one_of(("all", "active"), normalize=normalize)
        distance_function(distance)
        if getattr(boundary, "examples", 0):
            options["match"] = options.get("match") or same_class
        super().__init__(
            _margin, margin=margin, boundary=boundary, nu=nu, distance=distance, normalize=normalize, **options
        )

    def pair_losses(self, pairs: Pairs) -> Tensor:
        """The loss of each pair, `(anchors, references)`, without the term nu * beta."""
        options = {option: self.settings[option] for option in ("margin", "boundary", "distance")}
        return _margin_pair_losses(pairs, **options)
