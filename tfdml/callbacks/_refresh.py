"""Base class of callbacks that refresh the state of a sampler from the current embeddings."""

from typing import Any

from tfdml.callbacks._base import Callback


class Refresh(Callback):
    """Calls `self.refresh(model)` when training begins and after every `every` epochs, except the last one."""

    every = 1

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Refresh, before the first batch is drawn."""
        self.refresh(self.model)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Refresh every `every` epochs, unless this epoch is the last one."""
        if (epoch + 1) % self.every == 0 and epoch + 1 < self.params["epochs"]:
            self.refresh(self.model)
