"""Target neighbors: the positives that are nearest in features that do not change."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import as_ids, as_vectors, require, require_whole
from tfdml._core.serialization import serializable
from tfdml.pairs import Pairs
from tfdml.pairs.base import in_blocks
from tfdml.pairs.class_values import look_up


@serializable
@in_blocks
class TargetNeighbors:
    """Keep the positives of an example that are in its list of target neighbors, and all negatives.

    Labels have two columns, the class id and the index of the example, 0 to examples - 1, as for `layers.Boundaries`
    per example. `LMNNLoss` then compares class ids by itself; other losses need `match=layers.boundaries.same_class`.

    Example:

        >>> features = [[0.0], [1.0], [3.0], [7.0]]
        >>> targets = tfdml.miners.TargetNeighbors.nearest(features, [0, 0, 0, 1], k=1)
        >>> targets.neighbors.tolist()  # row 3 has no other example of its class
        [[1], [0], [1], [-1]]
        >>> labels = np.array([[0, 0], [0, 1], [0, 2], [1, 3]])  # class ids and examples
        >>> pairs = tfdml.pairs.all_pairs(labels, features, match=tfdml.layers.boundaries.same_class)
        >>> np.asarray(targets(pairs).positive, int).tolist()
        [[0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]

    Args:
        neighbors: `(examples, k)` indices of the target neighbors of each example, -1 for none.

    Source: Weinberger, Saul, Distance Metric Learning for Large Margin Nearest Neighbor Classification, JMLR 2009.
    """

    def __init__(self, *, neighbors: ArrayLike) -> None:
        self.neighbors = np.asarray(neighbors)
        require(
            self.neighbors.ndim == 2 and self.neighbors.size > 0 and self.neighbors.dtype.kind in "iu",
            f"neighbors of shape {self.neighbors.shape} and dtype {self.neighbors.dtype}",
            "(examples, k) integers, such as TargetNeighbors.nearest(features, labels)",
        )

    @classmethod
    def nearest(cls, features: ArrayLike, labels: ArrayLike, *, k: int = 3) -> Self:
        """The k nearest examples of the same class, fewer in a smaller one, by euclidean distance.

        Features are `(examples, dim)`, labels `(examples,)` integer class ids.
        """
        require_whole("k", k, 1)
        x = as_vectors(features, "features")
        ids = as_ids(labels, "labels", len(x))
        neighbors = np.full((len(x), k), -1)
        for label in np.unique(ids):
            rows = np.flatnonzero(ids == label)
            nearest = rows[_order(x[rows])[:, :k]]
            neighbors[rows, : nearest.shape[1]] = nearest
        return cls(neighbors=neighbors)

    def __call__(self, pairs: Pairs) -> Pairs:
        """`Pairs -> Pairs`."""
        for labels in (pairs.anchor_labels, pairs.reference_labels):
            received = f"labels of shape {tuple(labels.shape)}"
            require(len(labels.shape) == 2 and labels.shape[1] == 2, received, "(batch, 2), class ids and examples")
        anchors, references = pairs.anchor_labels[:, 1], ops.cast(pairs.reference_labels[:, 1], "float32")
        table = self.neighbors.astype("float32")
        targets = look_up(np.arange(len(table)), table, anchors, source="neighbors")
        is_target = ops.any(targets[:, None, :] == references[None, :, None], axis=-1)
        return pairs.drop(positive=ops.logical_not(is_target))

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        return {"neighbors": self.neighbors.tolist()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The miner that `get_config` describes."""
        return cls(**config)


def _order(x):
    """The other rows by their distance from each row, the nearest first: `(rows, rows - 1)`."""
    squares = np.sum(np.square(x, dtype="float64"), axis=1)
    d = squares[:, None] + squares - 2.0 * x.astype("float64") @ x.T
    np.fill_diagonal(d, -np.inf)
    return np.argsort(d, axis=1, kind="stable")[:, 1:]
