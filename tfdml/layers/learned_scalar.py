"""A number that a loss learns: a temperature, a scale, a bias."""

import math
from typing import Any

import keras

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor


@serializable
class LearnedScalar(LossLayer):
    """A number that `EmbeddingModel` trains together with the embeddings, such as the temperature of a softmax.

    A function `Pairs -> ()`.

    See also: `ScheduledOption` for a number that follows the training step.

    Example:

        >>> temperature = tfdml.layers.LearnedScalar(0.07, log=True, minimum=0.01)
        >>> loss = tfdml.losses.CLIPLoss(temperature=temperature)  # EmbeddingModel trains it
        >>> pairs = tfdml.pairs.all_pairs(np.array([0, 0]), np.eye(2, dtype="float32"))
        >>> round(float(temperature(pairs)), 4), round(float(temperature.weight), 4)  # the weight is log 0.07
        (0.07, -2.6593)

    Args:
        log: train its logarithm, so that the number stays above 0 and a step changes it by a factor.
        minimum: smallest value; each training step raises a smaller one to it. None for no bound.

    Attributes:
        weight: the trained variable, the number or its logarithm.
    """

    saved_arguments = ("initial", "log", "minimum")

    def __init__(self, initial: float, *, log: bool = False, minimum: float | None = None, **options: Any) -> None:
        super().__init__(**options)
        require(not log or initial > 0, f"initial={initial} with log=True", "a number above 0")
        require(minimum is None or not log or minimum > 0, f"minimum={minimum} with log=True", "a number above 0")
        require(minimum is None or minimum <= initial, f"minimum={minimum} for initial={initial}", "at most initial")
        self.initial, self.log, self.minimum = initial, log, minimum
        to_weight = math.log if log else float
        self.weight = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(to_weight(initial)),
            constraint=None if minimum is None else _AtLeast(to_weight(minimum)),
            dtype="float32",
            name="number",
        )

    def call(self, pairs: Pairs) -> Tensor:
        """The number, a scalar."""
        weight = ops.convert_to_tensor(self.weight)
        return ops.exp(weight) if self.log else weight


class _AtLeast(keras.constraints.Constraint):
    """Raise weights below a bound to it."""

    def __init__(self, bound):
        self.bound = bound

    def __call__(self, weight):
        return ops.maximum(weight, self.bound)
