"""A learned similarity that depends on where two embeddings are."""

from typing import Any

import keras
import numpy as np

from tfdml._core.backends import ops
from tfdml._core.checks import as_whole, require
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer
from tfdml.pairs.base import Tensor
from tfdml.pairs.products import normalized_rows


@serializable
class PositionDependentMetric(LossLayer):
    """Learned similarity of two embeddings, from their difference and their mean (PDDM).

    S(x, y) = w_s . c + b_s,  c = relu(W_c [u'; v'] + b_c),  u' = relu(W_u u + b_u),  v' = relu(W_v v + b_v)
    u = |x - y| and v = (x + y) / 2, each scaled to norm 1

    A function of two tensors of rows `(..., dim)`. `EmbeddingModel` makes the weights at `compile`, other code at the
    first call, outside of functions that JAX compiles. A model exports the embeddings, not the
    similarity: it trains them, and retrieval uses their cosine similarity.

    Example: two pairs of rows; the similarity is the same in both orders.

        >>> metric = tfdml.layers.PositionDependentMetric(units=3, seed=0)
        >>> loss = tfdml.losses.PDDMLoss()  # has such a layer, which EmbeddingModel trains
        >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0]], "float32"), np.array([[0.0, 1.0], [1.0, 1.0]], "float32")
        >>> metric.build((None,), (None, 2))
        >>> ops.shape(metric(x, y)), bool(ops.all(metric(x, y) == metric(y, x)))
        ((2,), True)

    Args:
        units: number of units of the layers u', v' and c, at least 1; None for the dimension of the embeddings.

    Source: Huang, Loy, Tang, Local Similarity-Aware Deep Feature Embedding, NIPS 2016.
    """

    saved_arguments = ("units", "seed")

    def __init__(self, *, units: int | None = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.units, self.seed = None if units is None else as_whole("units", units, 1), seed
        self.built = False

    def build(self, labels_shape: Any, embeddings_shape: Any) -> None:
        """Make the weights for embeddings of shape `(batch, dim)`."""
        dim = embeddings_shape[-1]
        units = self.units or dim
        self.difference, self.mean = self._dense("difference", dim, units, 0), self._dense("mean", dim, units, 1)
        self.joint, self.score = self._dense("joint", 2 * units, units, 2), self._dense("score", units, 1, 3)
        self.built = True

    def _dense(self, name, inputs, units, seed_offset):
        seed = None if self.seed is None else self.seed + seed_offset
        kernel = self.add_weight(shape=(inputs, units), initializer=keras.initializers.HeNormal(seed), name=name)
        return kernel, self.add_weight(shape=(units,), initializer="zeros", name=f"{name}_bias")

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """The similarity of the rows of two tensors, `(...)`; the first call makes the weights."""
        if not self.built:
            self.build(np.shape(x), np.shape(x))
        dim, received = self.difference[0].shape[0], x.shape[-1]
        expected = f"dimension {dim}: make a new metric for a network of another dimension"
        require(received == dim, f"embeddings of dimension {received} for a metric of dimension {dim}", expected)
        return self.call(x, y)

    def call(self, x: Tensor, y: Tensor) -> Tensor:
        """The similarity of the rows of two tensors, `(...)`."""
        u = ops.relu(_affine(normalized_rows(ops.abs(x - y)), self.difference))
        v = ops.relu(_affine(normalized_rows((x + y) / 2.0), self.mean))
        c = ops.relu(_affine(ops.concatenate([u, v], axis=-1), self.joint))
        return _affine(c, self.score)[..., 0]

    def get_build_config(self) -> dict[str, Any] | None:
        """The dimension of the embeddings, or None before the layer is built."""
        return {"dim": self.difference[0].shape[0]} if self.built else None

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Make the weights for embeddings of the saved dimension."""
        if config:
            self.build((None,), (None, config["dim"]))


def _affine(x, weights):
    kernel, bias = (ops.cast(ops.convert_to_tensor(weight), x.dtype) for weight in weights)
    return ops.matmul(x, kernel) + bias
