"""Base class of the callbacks that evaluate after some epochs."""

import time
from typing import Any

from tfdml._checks import require, require_whole
from tfdml.callbacks._base import Callback


class Scheduled(Callback):
    """Writes the numbers of `_values_after(epoch)` into the logs, as `every` and `share` say.

    Args:
        every: number of epochs between two evaluations; the first and the last epoch are always evaluated.
        share: maximum share of the time of `fit`, above 0 and below 1; None for no limit.
        prefix: prefix of each name.
    """

    def __init__(self, *, every: int, share: float | None, prefix: str) -> None:
        super().__init__()
        require_whole("every", every, 1)
        require(share is None or 0 < share < 1, f"share={share!r}", "a number above 0 and below 1, or None")
        self.every, self.share, self.prefix = every, share, prefix

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Begin to measure time."""
        self._times = _Times()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Evaluate after the epochs that `every` and `share` select."""
        if logs is None:
            return
        if self._is_due(epoch):
            with self._times:
                values = self._values_after(epoch)
            logs.update({f"{self.prefix}{name}": value for name, value in values.items()})
        if self.share is not None:
            logs[f"{self.prefix}time_share"] = self._times.share()

    def _is_due(self, epoch):
        if not self._times.number or epoch + 1 == self.params.get("epochs"):
            return True
        has_time = self.share is None or self._times.share_after_another() <= self.share
        return (epoch + 1) % self.every == 0 and has_time

    def _values_after(self, epoch: int) -> dict[str, float]:
        """The numbers of the model in training, without the prefix."""
        raise NotImplementedError


class _Times:
    """How long the evaluations of a run take; a context in which one of them takes place.

    Attributes:
        number: number of evaluations so far.
        taken, previous: seconds of all of them, and of the previous one.
    """

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.number, self.taken, self.previous = 0, 0.0, 0.0

    def __enter__(self) -> None:
        self._entered = time.monotonic()

    def __exit__(self, *error: Any) -> None:
        self.previous = time.monotonic() - self._entered
        self.taken += self.previous
        self.number += 1

    def share(self) -> float:
        """Share of the time since the run began that evaluations took."""
        return self.taken / max(time.monotonic() - self.start, 1e-9)

    def share_after_another(self) -> float:
        """The same after one more evaluation that takes as long as the previous one."""
        return (self.taken + self.previous) / max(time.monotonic() - self.start + self.previous, 1e-9)
