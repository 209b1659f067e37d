"""The training state after the last epoch, from which an interrupted run resumes."""

import os
import warnings
from typing import Any

import keras

from tfdml._core.atomic import as_writable_path, atomic_write
from tfdml.callbacks.base import variable_not_finite


class TrainingCheckpoint(keras.callbacks.Callback):
    """Save the complete training state after every epoch, in one file that is complete at all times.

    `keras.saving.load_model(path)` returns the model with its optimizer, and `model.steps` is the number of batches it
    was trained on: a resumed run ends with the weights of an uninterrupted run. (`optimizer.iterations` differs: it
    does not count steps that loss scaling skips or whose gradients are only accumulated.)

    A state with a variable that is not finite is not saved: the file keeps the last finite one, and a warning says so.
    Each variable is looked at once per epoch, which takes a small part of the time of writing it.

    Example:

        if path.exists():
            model = keras.saving.load_model(path)
        model.fit(sampler.batches(images, labels, start=model.steps), steps_per_epoch=200,
                  initial_epoch=model.steps // 200, epochs=10, callbacks=[tfdml.callbacks.TrainingCheckpoint(path)])

    Args:
        path: file to write, ending in `.keras`.

    Raises:
        ValueError: `path` has another suffix.
        OSError: `path` cannot be written.

    Warns:
        UserWarning: at the end of an epoch, a variable that is not finite.
    """

    def __init__(self, path: str | os.PathLike[str]):
        super().__init__()
        if not str(path).endswith(".keras"):
            raise ValueError(f"Received path={str(path)!r}, expected a file name that ends in '.keras'.")
        self.path = as_writable_path(path)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Save, unless the model has diverged."""
        broken = variable_not_finite(self.model)
        if broken is None:
            with atomic_write(self.path) as partial:
                self.model.save(partial)
            return
        file = (
            f"{str(self.path)!r} stays as it is: resume from it"
            if self.path.exists()
            else "there is no file: begin again"
        )
        warnings.warn(
            f"After epoch {epoch + 1} the variable {broken} is not finite. The state is not saved, and {file}, with a "
            "lower learning rate or with clipped gradients.",
            stacklevel=2,
        )
