"""Importance weights: what makes the loss of a batch an unbiased estimate of the full loss."""

from typing import Any, Self

import keras
import numpy as np
from keras import ops

from tfdml._serialization import serializable
from tfdml.importance.probabilities import PairProbabilities
from tfdml.pairs import Pairs
from tfdml.pairs.class_values import look_up

_ROWS = 1024  # Classes compared with all others at once.


@serializable
class ImportanceWeights:
    """Multiplies the weight of each pair by W(i, j)^delta = (P_U / Q(i, j))^delta: a function `Pairs -> Pairs`.

    A loss that is a mean over pairs, such as the contrastive losses, then has in the mean over batches the value and
    the gradient that it has on all pairs of the training set. Losses that are not linear in their pairs are corrected
    inside their sums.

    Example:

        loss = tfdml.losses.ContrastiveLoss(importance=sampler.importance(train_labels))

    Args:
        probabilities: `PairProbabilities` Q of the batches.
        delta: exponent of the weights: 1 removes the bias, 0 turns the weights off.

    Raises:
        ValueError: Q is 0 for a pair that the training set has: no weight can make up for that.

    Source: Hong, Park and Kim, Deep Metric Learning via Weighted Contrastive Loss, eqs. (21) to (25) and section 6.2.
    """

    def __init__(self, probabilities: PairProbabilities, delta: float = 1.0):
        _require_possible(probabilities)
        self.probabilities = probabilities
        self.delta = float(delta)

    def __call__(self, pairs: Pairs) -> Pairs:
        """Pairs with weights multiplied; a class that was not counted is an error, or NaN in a compiled function."""
        q = self.probabilities
        dtype = keras.backend.standardize_dtype(pairs.positive.dtype)
        w = np.divide(q.uniform, q.within, out=np.zeros_like(q.within), where=q.within > 0)

        def values(table, labels):
            return look_up(q.ids, table.astype(dtype), labels, source="the importance of the sampler")

        left = values(q.left / q.uniform, pairs.anchor_labels)
        right = values(q.right, pairs.reference_labels)
        if len(right.shape) == 3:
            between = ops.sum(left[:, None] * right, axis=-1)
        else:
            between = ops.matmul(left, ops.transpose(right))
        negative = ops.where(pairs.negative > 0, between, 1.0) ** -self.delta
        positive = values(w**self.delta, pairs.anchor_labels)[:, None]
        return pairs.scale(positive=positive, negative=negative)

    def get_config(self) -> dict[str, Any]:
        """The probabilities and delta as plain values."""
        arrays = {name: array.tolist() for name, array in self.probabilities._asdict().items() if array is not None}
        return {"probabilities": arrays, "delta": self.delta}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The weights that `get_config` described."""
        arrays = {name: np.array(values) for name, values in config["probabilities"].items()}
        return cls(PairProbabilities(**arrays), config["delta"])


def _require_possible(q):
    """Raise a ValueError where a pair of the training set is never drawn."""
    impossible = (q.counts > 1) & (q.within <= 0)
    if impossible.any():
        raise ValueError(
            f"Received a batch design that never draws two examples of class {q.ids[impossible][0]}, expected one that "
            "can draw every pair: no weight can make up for pairs that never come."
        )
    for start in range(0, len(q.ids), _ROWS):
        never = q.left[start : start + _ROWS] @ q.right.T <= 0
        never &= q.ids[start : start + _ROWS, None] != q.ids
        if never.any():
            a, b = np.argwhere(never)[0]
            raise ValueError(
                f"Received a batch design that never draws class {q.ids[start + a]} together with class {q.ids[b]}, "
                "expected one that can draw every pair: no weight can make up for pairs that never come."
            )
