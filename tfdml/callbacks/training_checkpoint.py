"""The training state after the last epoch, from which an interrupted run resumes."""

import warnings
from typing import Any

import keras

from tfdml._core.atomic import as_writable_path, atomic_write
from tfdml._core.checks import require
from tfdml.callbacks.base import non_finite_variable
from tfdml.models.devices import in_one_process, process, require_readable, variables_of, wait_for_all_processes
from tfdml.typing import FilePath


class TrainingCheckpoint(keras.callbacks.Callback):
    """Save the training state after every epoch, in one `.keras` file that is never incomplete.

    `keras.saving.load_model(path)` returns the model with its optimizer, and `model.steps` is the number of batches it
    was trained on: a resumed run ends with the weights of an uninterrupted run. (`optimizer.iterations` differs: it
    does not count steps that loss scaling skips or whose gradients are only accumulated.)

    A state with a variable that is not finite is not saved, with a warning: the file keeps the last finite state.

    Where `keras.distribution` divides a run over several processes, process 0 writes the file, and all processes read
    it: on several machines it is on a shared file system, or copied to all of them before the run is resumed.

    In a program that is started again after an interruption:

        if path.exists():
            model = keras.saving.load_model(path)
        model.fit(sampler.batches(images, labels, start=model.steps), steps_per_epoch=200,
                  initial_epoch=model.steps // 200, epochs=10, callbacks=[tfdml.callbacks.TrainingCheckpoint(path)])

    See also: `ExportBest` for the model to serve.

    Example: a run of two steps that another one continues.

        >>> inputs = keras.Input((2,))
        >>> model = tfdml.models.EmbeddingModel(inputs, tfdml.layers.Mahalanobis()(inputs))
        >>> model.compile("adam", loss=tfdml.losses.ContrastiveLoss())
        >>> x, labels = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.array([0, 0, 1])
        >>> checkpoint = tfdml.callbacks.TrainingCheckpoint("run.keras")
        >>> _ = model.fit(x, labels, epochs=2, verbose=0, callbacks=[checkpoint])
        >>> resumed = keras.saving.load_model("run.keras")
        >>> resumed.steps
        2

    Raises:
        ValueError: when training begins, a variable that no process has as a whole.
    """

    def __init__(self, path: FilePath):
        super().__init__()
        require(str(path).endswith(".keras"), f"path={str(path)!r}", "a file name that ends in '.keras'")
        self.path = as_writable_path(path)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Raise an error for a model that this process cannot save."""
        require_readable(variables_of(self.model))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Save, unless the model has diverged."""
        variable = non_finite_variable(self.model)  # computed by all processes together
        if process()[0] == 0:
            self._save(epoch, variable)
        wait_for_all_processes()  # which may read the file next

    def _save(self, epoch, variable):
        if variable is None:
            with in_one_process(variables_of(self.model)), atomic_write(self.path) as partial:
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
            stacklevel=3,
        )
