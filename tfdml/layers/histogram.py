"""A histogram that follows the batches of a training."""

from typing import Any

from tfdml._core.backends import ops
from tfdml.layers.base import LossLayer
from tfdml.pairs.base import Tensor


class RunningHistogram(LossLayer):
    """The moving average, `shares` `(bins + 1,)`, of histograms of training batches, each of the weight `momentum`."""

    def __init__(self, bins: int, momentum: float) -> None:
        super().__init__(name="history")
        self.momentum = momentum
        self.shares = self.add_state("shares", (bins + 1,), "float32")

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        return {"bins": self.shares.shape[0] - 1, "momentum": self.momentum}

    def add(self, histogram: Tensor, *, if_true: Tensor) -> None:
        """Mix the histogram of a batch, `(bins + 1,)`, into the average where the scalar `if_true` holds."""
        mixed = ops.cast(mix_histograms(histogram, self.shares, self.momentum), "float32")
        self.shares.assign(ops.where(if_true, mixed, ops.convert_to_tensor(self.shares)))


def mix_histograms(histogram: Tensor, history: Tensor, momentum: float) -> Tensor:
    """The histogram of a batch with the weight `momentum`, mixed into the history; each has the sum 1 or is zeros."""
    mixed = (1.0 - momentum) * ops.cast(ops.convert_to_tensor(history), histogram.dtype) + momentum * histogram
    return mixed / ops.maximum(ops.sum(mixed), 1e-30)
