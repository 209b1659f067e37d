"""The training state after the last epoch, from which an interrupted run resumes."""

import warnings
from typing import Any

import keras

from tfdml._core.atomic import as_writable_path, atomic_write
from tfdml._core.checks import require
from tfdml.callbacks.base import non_finite_variable
from tfdml.typing import FilePath


class TrainingCheckpoint(keras.callbacks.Callback):
    """Save the training state after every epoch, in one file that is never incomplete.

    `keras.saving.load_model(path)` returns the model with its optimizer, and `model.steps` is the number of batches it
    was trained on: a resumed run ends with the weights of an uninterrupted run. (`optimizer.iterations` differs: it
    does not count steps that loss scaling skips or whose gradients are only accumulated.)

    A state with a variable that is not finite is not saved: the file keeps the last finite state, and a warning says
    so. The check takes a small fraction of the time of writing.

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

    def __init__(self, path: FilePath):
        super().__init__()
        require(str(path).endswith(".keras"), f"path={str(path)!r}", "a file name that ends in '.keras'")
        self.path = as_writable_path(path)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Save, unless the model has diverged."""
        variable = non_finite_variable(self.model)
        if variable is None:
            with atomic_write(self.path) as partial:
                self.model.save(partial)
            return
        file = (
            f"{str(self.path)!r} stays as it is: resume from it"
            if self.path.exists()
            else "there is no file: begin again"
        )
        warnings.warn(
            f"After epoch {epoch + 1} the variable {variable} is not finite. The state is not saved, and {file}, with "
            "a lower learning rate or with clipped gradients.",
            stacklevel=2,
        )
