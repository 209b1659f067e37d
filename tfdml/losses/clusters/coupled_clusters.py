"""Coupled clusters: the positives of a class around their mean."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import count, require_shared_references
from tfdml.pairs import Pairs, squared
from tfdml.pairs.base import Tensor


def coupled_clusters(pairs: Pairs, *, margin: float = 0.2) -> Tensor:
    """Values of `CoupledClustersLoss`, one per anchor.

    max(0, |a - c|^2 - min_n |n - c|^2 + margin) / 2
    """
    require_shared_references(pairs, "the coupled clusters loss")
    anchors, references = (ops.cast(x, pairs.positive.dtype) for x in (pairs.anchors, pairs.reference_embeddings))
    members = ops.cast(pairs.positive > 0, pairs.positive.dtype)
    centers = (anchors + ops.matmul(members, references)) / (1.0 + count(members)[:, None])
    to_references = squared(pairs._replace(anchors=centers, references=references))
    nearest_negative = ops.amin(ops.where(pairs.negative > 0, to_references, float("inf")), axis=1)
    to_center = ops.sum(ops.square(anchors - centers), axis=1)
    return ops.where(count(members) > 0, ops.maximum(to_center - nearest_negative + margin, 0.0) / 2, 0.0)


@serializable
class CoupledClustersLoss(PairLoss, in_blocks=True):
    """Coupled clusters loss: the anchor must be nearer to its class center than any negative.

    max(0, |a - c|^2 - min_n |n - c|^2 + margin) / 2

    c is the mean of the anchor and its positives. Embeddings are not normalized. All anchors share their references.
    Only whether a weight is 0 matters. An anchor without a positive or a negative gives 0.

    Also called: CCL.

    Example:

        >>> x = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]])
        >>> loss = tfdml.losses.CoupledClustersLoss(margin=0.5)
        >>> round(float(loss(np.array([0, 0, 1, 1]), x)), 4)  # (0.1 - 0.34 + 0.5) / 2
        0.13

    See also: `CenterLoss` has learned centers; `TripletLoss` compares with single examples.

    Args:
        margin: how much nearer an anchor must be to its center than negatives, in squared distance; 0 or more.

    Source: Liu, Tian, Yang, Pang, Huang, Deep Relative Distance Learning: Tell the Difference Between Similar Vehicles,
    CVPR 2016, eqs. 3 to 5. The paper holds the center constant in the gradient.
    """

    def __init__(self, *, margin: float = 0.2, **options: Unpack[PairOptions]) -> None:
        require(margin >= 0, f"margin={margin}", "a squared distance of 0 or more")
        super().__init__(coupled_clusters, margin=margin, **options)
