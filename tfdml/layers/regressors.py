"""Regressors between the learners of an ensemble."""

import itertools
from collections.abc import Sequence
from typing import Any

import keras

from tfdml._core.backends import ops
from tfdml._core.checks import require, require_whole
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer
from tfdml.pairs.base import Tensor
from tfdml.pairs.products import normalized_rows


@serializable
class Regressors(LossLayer):
    """For every two learners k < m of an ensemble, a small network that maps the embedding of m into the space of k.

    g(u) = W_2 relu(W_1 u + b_1) + b_2,  with columns of W of norm 1, and b scaled to a norm of at most 1

    `AdversarialLoss` trains them to find what two learners have in common.

    Example: three learners have three pairs; W_1, b_1, W_2 and b_2 of the first map three columns to two.

        >>> regressors = tfdml.layers.Regressors([2, 3, 4], units=5, seed=0)
        >>> [tuple(weight.shape) for weight in regressors.networks[0]], len(regressors.networks)
        ([(3, 5), (5,), (5, 2), (2,)], 3)

    Args:
        dims: numbers of columns of the learners, two or more.
        units: number of hidden units.

    Attributes:
        networks: the variables W_1, b_1, W_2 and b_2 of each, in the order (0, 1), (0, 2), ..., (1, 2), ... of k and m.

    Source: Opitz, Waltner, Possegger, Bischof, Deep Metric Learning with BIER: Boosting Independent Embeddings
    Robustly, TPAMI 2018; two layers and 512 units as in the code of its authors; that code penalizes the norms, this
    layer scales them.
    """

    saved_arguments = ("dims", "units", "seed")

    def __init__(self, dims: Sequence[int], *, units: int = 512, seed: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        require(len(dims) > 1, f"dims={dims}", "two numbers of columns or more")
        for dim in dims:
            require_whole("dims", dim, 1)
        require_whole("units", units, 1)
        self.dims, self.units, self.seed = tuple(int(dim) for dim in dims), int(units), seed
        seeds = itertools.count(0 if seed is None else seed)
        self.networks = [
            [*self._dense(self.dims[m], self.units, next(seeds)), *self._dense(self.units, self.dims[k], next(seeds))]
            for k, m in self._combinations()
        ]

    def _combinations(self):
        return itertools.combinations(range(len(self.dims)), 2)

    def _dense(self, inputs, outputs, seed):
        initializer = keras.initializers.RandomNormal(stddev=1.0, seed=None if self.seed is None else seed)
        kernel = self.add_weight(shape=(inputs, outputs), initializer=initializer, dtype="float32", name="kernel")
        return kernel, self.add_weight(shape=(outputs,), initializer="zeros", dtype="float32", name="bias")

    def similarity(self, learners: Sequence[Tensor], *, trained: bool) -> Tensor:
        """The sum over k < m of the mean of (u_k g(u_m))^2 over the columns of k; `trained`: its gradient reaches g."""
        learners = [ops.convert_to_tensor(learner) for learner in learners]
        total = ops.zeros_like(learners[0][:, 0])
        for (k, m), weights in zip(self._combinations(), self.networks, strict=True):
            tensors = [ops.cast(ops.convert_to_tensor(weight), learners[m].dtype) for weight in weights]
            kernel, bias, last_kernel, last_bias = tensors if trained else map(ops.stop_gradient, tensors)
            regressed = _affine(ops.relu(_affine(learners[m], kernel, bias)), last_kernel, last_bias)
            total = total + ops.mean(ops.square(learners[k] * regressed), axis=-1)
        return total


def _affine(x, kernel, bias):
    """x W + b, with columns of W of norm 1 and b of norm 1 at most."""
    kernel = ops.transpose(normalized_rows(ops.transpose(kernel)))
    bias = bias / ops.sqrt(ops.maximum(ops.sum(ops.square(bias)), 1.0))
    return ops.matmul(x, kernel) + bias
