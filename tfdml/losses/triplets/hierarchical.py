"""Triplet loss whose margin follows a tree of the classes."""

from typing import Unpack

from keras import ops

from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.layers.class_tree import ClassTree
from tfdml.losses.base import PairLoss, PairOptions
from tfdml.losses.triplets.triplet import triplet
from tfdml.pairs import Pairs, normalized, squared
from tfdml.pairs.base import Tensor


def hierarchical_triplet(pairs: Pairs, *, tree: ClassTree, margin: float = 0.1) -> Tensor:
    """Hierarchical triplet loss, one value per anchor: the margin grows with the distance of two classes in a tree.

    (A / N) sum_p sum_n max(0, d_ap - d_an + margin + H(y_a, y_n) - s(y_a))

    d is the squared distance of embeddings scaled to norm 1, N the number of triplets in the batch. H(y_a, y_n) is the
    height at which the two classes are merged in the tree, and s(y_a) the mean squared distance within the class of the
    anchor: near classes, which are hard to tell apart, should be farther apart than they are within, and others by as
    much more as they are farther away.

    Args:
        pairs: `Pairs` of A anchors and R references.
        tree: a `tfdml.layers.ClassTree`. Before its first refresh, H and s are 0.
        margin: the constant part of the margin.

    Returns:
        `(A,)`. An anchor without a positive or without a negative gives 0.

    Source: Ge, Huang, Dong, Scott, Deep Metric Learning with Hierarchical Triplet Loss, ECCV 2018, without the factor
    of 1/2.
    """
    d = squared(normalized(pairs))
    extra = ops.cast(ops.stop_gradient(tree(pairs)), d.dtype)
    return triplet(pairs, margin=margin, distance=lambda pairs: d - ops.where(pairs.negative > 0, extra, 0.0))


@serializable
class HierarchicalTripletLoss(PairLoss):
    """Hierarchical triplet loss: see `tfdml.losses.hierarchical_triplet` for the formula and its source.

    Example:

        tree = tfdml.layers.ClassTree(train.labels)
        loss = tfdml.losses.HierarchicalTripletLoss(tree)  # with callbacks=[RefreshCenters(tree, train)] in `fit`

    Args:
        tree: a `tfdml.layers.ClassTree` of the training classes, which `EmbeddingModel` saves.
        margin: the constant part of the margin, 0 or more.
        **options: `pairing`, `miner`, `importance`, `match`, `name`, `reduction`, `dtype` of `PairLoss`.
    """

    def __init__(self, tree: ClassTree, *, margin: float = 0.1, **options: Unpack[PairOptions]) -> None:
        require(isinstance(tree, ClassTree), f"tree={tree!r}", "tfdml.layers.ClassTree(train_labels)")
        require(margin >= 0, f"margin={margin}", "a squared distance of 0 or more")
        super().__init__(hierarchical_triplet, tree=tree, margin=margin, **options)
