"""Losses that treat each pair by itself."""

from keras import ops

from tfdml.losses.base import PairLoss, mean_over_pairs, require, serializable
from tfdml.pairs import distance_function


def contrastive(pairs, *, positive_margin=0.0, negative_margin=1.0, distance="euclidean"):
    """Contrastive loss, one value per anchor: positives are pulled within one margin, negatives pushed beyond another.

    (1 / pairs) (sum_p max(0, d_ap - positive_margin)^2 + sum_n max(0, negative_margin - d_an)^2)

    Args:
        pairs: `Pairs` of A anchors and R references, used as they are (not normalized).
        positive_margin: distance under which a positive pair costs nothing.
        negative_margin: distance beyond which a negative pair costs nothing.
        distance: "euclidean", "squared" (the double-margin form on squared distances), "cosine" (1 - s), or a
            function of `Pairs`.

    Returns:
        `(A,)`. An anchor without pairs gives 0; duplicates of another class cost negative_margin^2 with gradient 0.

    Source: Hadsell, Chopra, LeCun, Dimensionality Reduction by Learning an Invariant Mapping, CVPR 2006, eq. 4, without
    its factor 1/2; the mean over ordered pairs is eq. 23 of Hong, Park, Kim, Deep Metric Learning via Weighted
    Contrastive Loss.
    """
    d = distance_function(distance)(pairs)
    violation = ops.where(pairs.positive > 0, d - positive_margin, negative_margin - d)
    return mean_over_pairs(ops.square(ops.maximum(violation, 0.0)), pairs)


@serializable
class ContrastiveLoss(PairLoss):
    """Contrastive loss: see `tfdml.losses.contrastive` for the formula and its source.

    Example:

        model.compile(optimizer="adam", loss=tfdml.losses.ContrastiveLoss(negative_margin=0.5))

    Args:
        positive_margin: distance under which a positive pair costs nothing; 0 or more.
        negative_margin: distance beyond which a negative pair costs nothing; above `positive_margin`.
        distance: "euclidean", "squared", "cosine", or a function of `Pairs`.
        **options: `pairing`, `miner`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, *, positive_margin=0.0, negative_margin=1.0, distance="euclidean", **options):
        require(positive_margin >= 0, f"positive_margin={positive_margin}", "a distance of 0 or more")
        require(
            negative_margin > positive_margin,
            f"negative_margin={negative_margin}",
            f"a distance above positive_margin={positive_margin}",
        )
        distance_function(distance)
        settings = {"positive_margin": positive_margin, "negative_margin": negative_margin, "distance": distance}
        super().__init__(contrastive, settings, **options)
