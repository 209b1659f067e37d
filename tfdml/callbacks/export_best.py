"""A SavedModel of the best epoch so far."""

import keras

from tfdml.export.saved_model import check_export_path, saved_model


class ExportBest(keras.callbacks.Callback):
    """Write a SavedModel whenever the monitored value improves.

    Put it after the callback that makes the value (`RetrievalEvaluation`). The model is written whole to a temporary
    name and renamed: a run that dies leaves the last good export in place. See `tfdml.export.saved_model` for its
    signatures. Epochs in which the value is not measured (`every=` above 1) are passed over.

    Example:

        tfdml.callbacks.ExportBest("savedmodels/products", monitor="val_map@r")

    Args:
        path: folder of the SavedModel.
        monitor: key of the logs to watch.
        mode: "max" where larger is better, "min" where smaller is.
        best: the value to beat, for a run that goes on from an earlier one; None exports the first.

    Attributes:
        best: the best value so far, or None.

    Raises:
        ValueError: an unknown mode, a path that holds something else, or, at the end of the first epoch, a monitor
            that is not in the logs.
        OSError: `path` cannot be written.
    """

    def __init__(self, path, *, monitor="val_map@r", mode="max", best=None):
        super().__init__()
        if mode not in ("max", "min"):
            raise ValueError(f"Received mode={mode!r}, expected 'max' or 'min'.")
        self.path = check_export_path(path)
        self.monitor = monitor
        self.mode = mode
        self.best = best
        self._seen = False

    def on_epoch_end(self, epoch, logs=None):
        """Export if the value is the best so far."""
        value = (logs or {}).get(self.monitor)
        if value is None and not self._seen:
            raise ValueError(
                f"Received monitor={self.monitor!r}, which is not in the logs; expected one of {sorted(logs or {})}. "
                "ExportBest has to stand after the callback that writes it in the list."
            )
        self._seen = True
        if value is not None and self._improves(float(value)):
            saved_model(self.model, self.path)
            self.best = float(value)

    def _improves(self, value):
        if self.best is None:
            return value == value  # NaN is never the best
        return value > self.best if self.mode == "max" else value < self.best
