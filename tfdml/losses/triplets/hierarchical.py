"""Triplet loss whose margin follows a tree of the classes."""

from typing import Unpack

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.layers.class_tree import ClassTree
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.reductions import over_batch
from tfdml.losses.triplets.triplet import triplet
from tfdml.pairs import Pairs, normalized, squared
from tfdml.pairs.base import Tensor


@over_batch
def hierarchical_triplet(pairs: Pairs, *, tree: ClassTree, margin: float = 0.1) -> Tensor:
    """Values of `HierarchicalTripletLoss`, one per anchor.

    (A / N) sum_p sum_n max(0, d_ap - d_an + margin + H(y_a, y_n) - s(y_a))
    """
    d = squared(normalized(pairs))
    extra = ops.cast(ops.stop_gradient(tree(pairs)), d.dtype)
    d = d - ops.where(pairs.negative > 0, extra, 0.0)
    return triplet.apart(pairs, margin=margin, distance=lambda _: d)  # type: ignore[attr-defined]


@serializable
class HierarchicalTripletLoss(PairLoss, in_blocks=True):
    """Hierarchical triplet loss: the margin grows with the distance of two classes in a tree.

    (A / N) sum_p sum_n max(0, d_ap - d_an + margin + H(y_a, y_n) - s(y_a))

    d is the squared distance of embeddings scaled to norm 1, N the number of triplets in the batch. H(y_a, y_n) is the
    height at which the two classes are merged in the tree, and s(y_a) the mean squared distance within the class of the
    anchor. The margin of a pair of classes grows with their distance in the tree; even sibling classes are separated by
    more than their spread. An anchor without a positive or a negative gives 0.

    Also called: HTL.

    Example:

        >>> labels, embeddings = [0, 0, 1], [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]  # cosines 0.6, 0 and 0.8
        >>> loss = tfdml.losses.HierarchicalTripletLoss(tfdml.layers.ClassTree(labels))  # before any RefreshCenters
        >>> round(float(loss(labels, embeddings)), 4)  # (0.8 - 0.4 + 0.1) / 2
        0.25

    See also: `TripletLoss`: train with it first. `tfdml.samplers.HardClassSampler` draws batches of near classes.

    Args:
        tree: a `tfdml.layers.ClassTree` of the training classes. `EmbeddingModel` saves it, and
            `tfdml.callbacks.RefreshCenters` rebuilds it. Before its first refresh, H and s are 0.
        margin: the constant part of the margin, 0 or more.

    Source: Ge, Huang, Dong, Scott, Deep Metric Learning with Hierarchical Triplet Loss, ECCV 2018, without the factor
    of 1/2.
    """

    def __init__(self, tree: ClassTree, *, margin: float = 0.1, **options: Unpack[PairOptions]) -> None:
        require(isinstance(tree, ClassTree), f"tree={tree!r}", "tfdml.layers.ClassTree(train_labels)")
        require(margin >= 0, f"margin={margin}", "a squared distance of 0 or more")
        super().__init__(hierarchical_triplet, tree=tree, margin=margin, **options)
