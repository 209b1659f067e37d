"""Base class of callbacks that refresh the state of a sampler from the current embeddings."""

from typing import Any

import keras
import numpy as np

from tfdml.callbacks._base import Callback, embed


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


def embedded(model: keras.Model, images: Any, rows: np.ndarray, batch_size: int) -> np.ndarray:
    """Embeddings `(rows, dim)` of some rows of `images`, computed in batches."""
    parts = [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
    return np.concatenate([embed(model, images[part], len(part)) for part in parts])
