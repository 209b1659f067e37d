"""A tree of classes that are near each other in the embedding space."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import as_ids, as_vectors, require, require_whole
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor
from tfdml.pairs.class_values import look_up
from tfdml.pairs.products import l2_normalize

_FARTHEST = 4.0  # Largest squared distance of unit vectors.


@serializable
class ClassTree(LossLayer):
    """Margins between classes from a tree that merges near classes at low levels.

    A function `Pairs -> (anchors, references)`: H(y_a, y_r) - s(y_a)

    s(y) is the mean squared distance of two examples of class y, and H the height of the lowest level of the tree with
    both classes in one node. Two nodes merge at level l if the mean squared distance of two of their classes is below
    h_l = h_0 + l (4 - h_0) / levels, for l = 0 to levels - 1, and all at the top, at height 4; h_0 is the mean of s
    over the classes. The tree scales embeddings to norm 1.

    `tfdml.callbacks.RefreshCenters` calls `refresh`; before, all values are 0. `.keras` files keep the tree.

    Example: classes 0 and 1 are near each other, class 2 is far; two equal examples of each, so that s = h_0 = 0.

        >>> tree = tfdml.layers.ClassTree([0, 1, 2], levels=4)
        >>> x, labels = np.repeat([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]], 2, axis=0), np.repeat([0, 1, 2], 2)
        >>> tree.refresh(x, labels)  # squared distances: 0.4 of classes 0 and 1, 4 and 3.6 to class 2
        >>> pairs = tfdml.pairs.all_pairs(labels[::2], x[::2].astype("float32"))
        >>> ops.convert_to_numpy(tree(pairs)).round(4)  # of the heights 0, 1, 2, 3 and 4
        array([[0., 1., 4.],
               [1., 0., 4.],
               [4., 4., 0.]], dtype=float32)

    Args:
        class_ids: class ids, in any order and with repetitions. Later labels outside of them are a ValueError; a
            compiled function cannot raise, and its loss is NaN.
        levels: number of levels below the top.

    Attributes:
        ids: `(classes,)` int64 class ids in ascending order.
        nodes: variable `(classes, levels)`, the node of each class at each level.
        spreads: variable `(classes,)`, s of each class.
        lowest: variable, h_0.

    Source: Ge, Huang, Dong, Scott, Deep Metric Learning with Hierarchical Triplet Loss, ECCV 2018.
    """

    saved_arguments = ("levels",)

    def __init__(self, class_ids: ArrayLike, *, levels: int = 16, **options: Any) -> None:
        super().__init__(**options)
        require_whole("levels", levels, 1)
        self.ids, self.levels = np.unique(as_ids(class_ids, "class_ids")), levels
        self.nodes = self.add_state("nodes", (len(self.ids), levels), "float32")
        self.spreads = self.add_state("spreads", (len(self.ids),), "float32")
        self.lowest = self.add_state("lowest", (), "float32")

    def call(self, pairs: Pairs) -> Tensor:
        """H(y_a, y_r) - s(y_a) of each pair, `(anchors, references)`."""
        anchors, references = (
            ops.unstack(look_up(self.ids, self.nodes, labels, source="class_ids"), self.levels, axis=-1)
            for labels in (pairs.anchor_labels, pairs.reference_labels)
        )
        level = sum(ops.cast(a[:, None] != r, "float32") for a, r in zip(anchors, references, strict=True))
        height = self.lowest + level * (_FARTHEST - self.lowest) / self.levels
        spread = look_up(self.ids, self.spreads, pairs.anchor_labels, source="class_ids")
        return height - spread[:, None]

    def refresh(self, embeddings: ArrayLike, labels: ArrayLike) -> None:
        """Build the tree from embeddings `(examples, dim)` and labels `(examples,)` of exactly the classes `ids`.

        Time grows with the square of the number of classes, memory with the number.
        """
        x = l2_normalize(as_vectors(embeddings, "embeddings").astype(np.float64))
        ids, class_index, counts = np.unique(as_ids(labels, "labels", len(x)), return_inverse=True, return_counts=True)
        is_same = np.array_equal(ids, self.ids)
        require(is_same, f"labels of {len(ids)} classes", f"exactly the {len(self.ids)} classes of this tree")
        centers, variances = _moments(x, class_index, counts)
        spreads = np.where(counts > 1, 2 * variances * counts / np.maximum(counts - 1, 1), np.nan)
        lowest = np.nanmean(spreads) if (counts > 1).any() else 0.0
        heights = lowest + np.arange(self.levels) * (_FARTHEST - lowest) / self.levels
        order, distances = _minimum_spanning_tree(centers, variances)
        nodes = np.empty((len(order), self.levels))  # adjacent in Prim's order; a distance of a height begins another
        nodes[order] = np.cumsum(distances[:, None] >= heights, axis=0)
        self.nodes.assign(nodes)
        self.spreads.assign(np.where(counts > 1, spreads, lowest))
        self.lowest.assign(lowest)

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        return {**super().get_config(), "class_ids": self.ids.tolist()}


def _moments(x, class_index, counts):
    """Mean `(classes, dim)` of the rows of each class, and their mean squared distance to it `(classes,)`."""
    centers = np.zeros((len(counts), x.shape[1]))
    np.add.at(centers, class_index, x)
    centers /= counts[:, None]
    return centers, np.bincount(class_index, ((x - centers[class_index]) ** 2).sum(axis=1)) / counts


def _minimum_spanning_tree(centers, variances):
    """Classes in the order of Prim's algorithm, each with its mean squared distance to the visited ones, inf for 0."""
    squares = (centers**2).sum(axis=1) + variances
    order, distances = np.zeros(len(centers), np.int64), np.full(len(centers), np.inf)
    to_visited, is_unvisited = np.full(len(centers), np.inf), np.ones(len(centers), bool)
    for i in range(1, len(centers)):
        last = order[i - 1]
        is_unvisited[last] = False
        to_last = squares + squares[last] - 2 * centers @ centers[last]
        to_visited = np.where(is_unvisited, np.minimum(to_visited, to_last), np.inf)
        order[i] = to_visited.argmin()
        distances[i] = to_visited[order[i]]
    return order, distances
