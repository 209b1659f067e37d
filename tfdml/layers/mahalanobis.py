"""A learned Mahalanobis metric, as the linear map that makes it euclidean."""

from typing import Any

import keras
import numpy as np

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_seed, require_whole
from tfdml._core.serialization import serializable
from tfdml.pairs.base import Tensor


@serializable
class Mahalanobis(keras.layers.Layer):
    """The linear map x -> x L, whose euclidean distance is the metric (x - y)^T A (x - y) with A = L L^T.

    A is positive semidefinite for any L, without a projection. Losses, search and export see the mapped vectors. On
    fixed features it is a model by itself.

    Example: L doubles the first feature.

        >>> metric = tfdml.layers.Mahalanobis()
        >>> metric.build((None, 2))
        >>> _ = metric.weight.assign([[2.0, 0.0], [0.0, 1.0]])
        >>> ops.convert_to_numpy(metric(np.array([[3.0, 4.0]], "float32")))
        array([[6., 4.]], dtype=float32)

    Args:
        rank: number of columns of L, at most the number of features: the dimension of the output. None for all.
        normalize_trace: scale A so that its trace is the number of features, as for the identity. Otherwise a loss with
            a margin may let distances grow.
        initializer: a Keras initializer of L, `(features, rank)`; None for the identity, and for an orthogonal
            projection where the rank is lower.
        seed: of that projection.

    Attributes:
        weight: the variable L; None before the layer is built.
        matrix: A as an array, `(features, features)`.

    Source: Xing, Ng, Jordan, Russell, Distance Metric Learning with Application to Clustering with Side-Information,
    NIPS 2002, with A; Weinberger, Saul, JMLR 2009, with the map.
    """

    def __init__(
        self,
        *,
        rank: int | None = None,
        normalize_trace: bool = False,
        initializer: str | keras.initializers.Initializer | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if rank is not None:
            require_whole("rank", rank, 1)
        if seed is not None:
            require_seed(seed)
        self.rank, self.normalize_trace, self.seed = rank, normalize_trace, seed
        self.initializer = None if initializer is None else keras.initializers.get(initializer)
        self.weight: Any = None

    def build(self, input_shape: Any) -> None:
        """Make L for features of shape `(..., features)`."""
        features = input_shape[-1]
        rank = features if self.rank is None else self.rank
        require(rank <= features, f"rank={rank} for {features} features", f"a rank from 1 to {features}, or None")
        identity, projection = keras.initializers.Identity(), keras.initializers.Orthogonal(seed=self.seed)
        self.weight = self.add_weight(
            shape=(features, rank),
            initializer=self.initializer or (identity if rank == features else projection),
            name="weight",
        )

    def call(self, x: Tensor) -> Tensor:
        """The mapped features, `(..., rank)`."""
        return ops.matmul(x, ops.cast(self._map(), x.dtype))

    def _map(self):
        """L, scaled if `normalize_trace`."""
        weight = ops.convert_to_tensor(self.weight)
        if not self.normalize_trace:
            return weight
        trace = ops.sum(ops.square(ops.cast(weight, "float32")))
        return weight * ops.cast(ops.rsqrt(ops.maximum(trace / weight.shape[0], 1e-30)), weight.dtype)

    @property
    def matrix(self) -> np.ndarray:
        """A = L L^T."""
        require(self.weight is not None, "a layer that is not built", "features first: call it, or build a model")
        projection = ops.convert_to_numpy(self._map()).astype("float64")
        return projection @ projection.T

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """The shape of the mapped features."""
        return (*input_shape[:-1], input_shape[-1] if self.rank is None else self.rank)

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        initializer = self.initializer and keras.initializers.serialize(self.initializer)
        settings = {"rank": self.rank, "normalize_trace": self.normalize_trace, "seed": self.seed}
        return {**super().get_config(), **settings, "initializer": initializer}
