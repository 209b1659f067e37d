"""The training state of the last epoch, so that an interrupted run goes on."""

import keras

from tfdml._files import check_writable, replacing


class Checkpoint(keras.callbacks.Callback):
    """Save the whole training state after every epoch, in one file that is whole at all times.

    `keras.saving.load_model(path)` gives the model back with its optimizer, and the optimizer knows how many steps it
    has taken: an interrupted run goes on from there to the weights it would have had.

    Example:

        if path.exists():
            model = keras.saving.load_model(path)
        step = int(model.optimizer.iterations)
        model.fit(sampler.batches(images, labels, start=step), steps_per_epoch=200,
                  initial_epoch=step // 200, epochs=10, callbacks=[tfdml.callbacks.Checkpoint(path)])

    Args:
        path: file to write, ending in `.keras`.

    Raises:
        ValueError: another suffix.
        OSError: `path` cannot be written.
    """

    def __init__(self, path):
        super().__init__()
        if not str(path).endswith(".keras"):
            raise ValueError(f"Received path={str(path)!r}, expected a file name that ends in '.keras'.")
        self.path = check_writable(path)

    def on_epoch_end(self, epoch, logs=None):
        """Save."""
        with replacing(self.path) as partial:
            self.model.save(partial)
