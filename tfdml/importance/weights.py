"""Importance weights: with them the loss of a batch is an unbiased estimate of the full loss."""

from typing import Any, Self

import keras
import numpy as np

from tfdml._core.backends import ops
from tfdml._core.serialization import serializable
from tfdml.importance.probabilities import PairProbabilities
from tfdml.pairs import Pairs
from tfdml.pairs.base import in_blocks
from tfdml.pairs.class_values import look_up

_CLASSES_PER_CHUNK = 1024  # Classes compared with all others at once.


@serializable
@in_blocks
class ImportanceWeights:
    """Multiply the weight of each pair by W(i, j)^delta = (P_U / Q(i, j))^delta: a function `Pairs -> Pairs`.

    For a loss that is a mean over pairs, such as the contrastive losses, the expected value and gradient then equal the
    ones over all pairs of the training set. In losses that are not linear in their pairs, the weights apply inside the
    sums.

    Example: nine of ten drawn pairs are positive, against four of twelve in the set.

        >>> sampler = tfdml.samplers.PairSampler(pairs_per_batch=2, positive_fraction=0.9)
        >>> q = sampler.pair_probabilities([0, 0, 1, 1])
        >>> weights = tfdml.importance.ImportanceWeights(q)  # or sampler.importance([0, 0, 1, 1])
        >>> loss = tfdml.losses.ContrastiveLoss(importance=weights)
        >>> pairs = weights(tfdml.pairs.all_pairs(np.array([0, 0, 1, 1]), np.eye(4, dtype="float32")))
        >>> ops.convert_to_numpy(pairs.positive + pairs.negative)[0].round(4)  # 1/12 over 0.9/4, and over 0.1/8
        array([0.    , 0.3704, 6.6667, 6.6667], dtype=float32)

    Args:
        probabilities: `PairProbabilities` Q of the batches.
        delta: exponent of the weights: 1 removes the bias, 0 turns the weights off.

    Raises:
        ValueError: Q is 0 for some pair of the training set: no weight corrects this.

    Source: Hong, Park and Kim, Deep Metric Learning via Weighted Contrastive Loss, eqs. (21) to (25) and section 6.2.
    """

    def __init__(self, probabilities: PairProbabilities, delta: float = 1.0):
        _require_possible(probabilities)
        self.probabilities = q = probabilities
        self.delta = float(delta)
        w = np.divide(q.uniform, q.within, out=np.zeros_like(q.within), where=q.within > 0)  # P_U / Q.
        self._within = w**self.delta
        self._anchor_factors = q.anchor_factors / q.uniform  # Inner products with the reference factors are Q / P_U.

    def __call__(self, pairs: Pairs) -> Pairs:
        """`pairs` with reweighted positives and negatives; unknown classes raise, or give NaN if compiled."""
        within = self._look_up(self._within, pairs, pairs.anchor_labels)[:, None]
        anchors = self._look_up(self._anchor_factors, pairs, pairs.anchor_labels)
        references = self._look_up(self.probabilities.reference_factors, pairs, pairs.reference_labels)
        between = ops.where(pairs.negative > 0, _inner_products(anchors, references), 1.0)
        return pairs.scale(positive=within, negative=between**-self.delta)

    def _look_up(self, table, pairs, labels):
        """The values of the classes of `labels`, in the dtype of the weights of `pairs`."""
        dtype = keras.backend.standardize_dtype(pairs.positive.dtype)
        return look_up(self.probabilities.ids, table.astype(dtype), labels, source="the importance of the sampler")

    def get_config(self) -> dict[str, Any]:
        """The probabilities and delta as plain values."""
        arrays = {name: array.tolist() for name, array in self.probabilities._asdict().items() if array is not None}
        return {"probabilities": arrays, "delta": self.delta}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The weights that `get_config` describes."""
        arrays = {name: np.array(values) for name, values in config["probabilities"].items()}
        return cls(PairProbabilities(**arrays), config["delta"])


def _inner_products(anchors, references):
    """`(A, R)` inner products of `(A, terms)` and `(R, terms)`, or `(A, R, terms)` of the references of each anchor."""
    if len(references.shape) == 3:
        return ops.sum(anchors[:, None] * references, axis=-1)
    return ops.matmul(anchors, ops.transpose(references))


def _require_possible(q):
    impossible = q.ids[(q.counts > 1) & (q.within <= 0)]
    if impossible.size:
        raise ValueError(
            f"Received a batch design that never draws two examples of class {impossible[0]}, expected one that can "
            "draw every pair: no weight can make up for pairs that are never drawn."
        )
    for start in range(0, len(q.ids), _CLASSES_PER_CHUNK):
        chunk = slice(start, start + _CLASSES_PER_CHUNK)
        is_impossible = q.anchor_factors[chunk] @ q.reference_factors.T <= 0
        is_impossible &= q.ids[chunk, None] != q.ids
        if is_impossible.any():
            a, b = np.argwhere(is_impossible)[0]
            raise ValueError(
                f"Received a batch design that never draws class {q.ids[start + a]} together with class {q.ids[b]}, "
                "expected one that can draw every pair: no weight can make up for pairs that are never drawn."
            )
