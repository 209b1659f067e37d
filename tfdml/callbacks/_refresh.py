"""When, and by what, callbacks keep something fresh that samplers draw by."""

import keras
import numpy as np


class Refresh(keras.callbacks.Callback):
    """Calls `self.refresh(model)` when training begins and after every `every` epochs, except the last one."""

    every = 1

    def on_train_begin(self, logs=None):
        """Refresh, before the first batch is drawn."""
        self.refresh(self.model)

    def on_epoch_end(self, epoch, logs=None):
        """Refresh, where it is this epoch's turn and another one follows."""
        if (epoch + 1) % self.every == 0 and epoch + 1 < self.params["epochs"]:
            self.refresh(self.model)


def embedded(model, images, rows, batch_size):
    """What a model makes of some rows of a source of images, a batch at a time."""
    starts = range(0, len(rows), batch_size)
    return np.concatenate([model.predict_on_batch(images[rows[i : i + batch_size]]) for i in starts])
