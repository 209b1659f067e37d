"""A SavedModel of the best epoch so far, which knows its value."""

import json
import math
import warnings
from os import PathLike
from typing import Any, Literal, NamedTuple

import keras

from tfdml._atomic import recovered
from tfdml.export.saved_model import as_export_path, require_export_options, saved_model

RECORD = "best.json"  # in assets.extra, the folder that TensorFlow leaves to others


class _Best(NamedTuple):
    value: float
    epoch: int


class ExportBest(keras.callbacks.Callback):
    """Write a SavedModel whenever the monitored value improves.

    Put it after the callback that makes the value (`RetrievalEvaluation`). The model is written whole to a temporary
    name and renamed: a run that dies leaves the last good export in place. See `tfdml.export.saved_model` for its
    signatures. Epochs in which the value is not measured (`every=` above 1) are passed over.

    The value is kept inside the export, in `assets.extra/best.json` with monitor, mode and epoch (from 0), so the two
    always agree. A run resumes with it: an export is only ever replaced by a better one. When a run begins at an epoch
    that the export has behind it, as a new run over an old folder does, a warning says which value has to be beaten.

    Example:

        tfdml.callbacks.ExportBest("savedmodels/products", monitor="val_map@r")

    Args:
        path: folder of the SavedModel.
        monitor: key of the logs to watch.
        mode: "max" where larger is better, "min" where smaller is.
        best: a value to beat beside that of the export at `path`; None for no other.
        start_over: replace an export that is at `path` already by the first one measured, or the first that beats
            `best`. Leave it out in a run that resumes: `start_over=step == 0`.
        **options: of `tfdml.export.saved_model`, such as `on_error`.

    Attributes:
        best: the best value so far, or None.

    Raises:
        ValueError: an unknown mode; `best` is NaN; a path that holds something else, or, unless `start_over`, an export
            of another monitor or mode, or of an unknown value; or, at the end of the first epoch, a monitor that is not
            in the logs.
        OSError: `path` cannot be written.
    """

    def __init__(
        self,
        path: str | PathLike,
        *,
        monitor: str = "val_map@r",
        mode: Literal["max", "min"] = "max",
        best: float | None = None,
        start_over: bool = False,
        **options: Any,
    ):
        super().__init__()
        if mode not in ("max", "min"):
            raise ValueError(f"Received mode={mode!r}, expected 'max' or 'min'.")
        if best is not None and math.isnan(best):
            raise ValueError(f"Received best={best}, expected a number, which another can be better than, or None.")
        require_export_options(**options)
        self.options = options
        self.path = as_export_path(path)
        self.monitor = monitor
        self.mode = mode
        self.best = best
        self.start_over = start_over
        self._seen = self._exported = False
        self._resume()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Read the value to beat; another run may have exported since."""
        self._earlier = self._resume()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Warn a run that begins before the epoch of the export."""
        if self._earlier and not self._exported and epoch <= self._earlier.epoch:
            warnings.warn(
                f"{str(self.path)!r} holds an export with {self.monitor}={self._earlier.value:.6g} of epoch "
                f"{self._earlier.epoch + 1}, and this run begins with epoch {epoch + 1}: only a better value replaces "
                "it. To replace it by the first one pass start_over=True, or choose another path.",
                stacklevel=2,
            )
        self._earlier = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Export if the value is the best so far."""
        value = (logs or {}).get(self.monitor)
        if value is None and not self._seen:
            raise ValueError(
                f"Received monitor={self.monitor!r}, which is not in the logs; expected one of {sorted(logs or {})}. "
                "ExportBest has to stand after the callback that writes it in the list."
            )
        self._seen = True
        if value is not None and self._improves(float(value)):
            self._export(_Best(float(value), epoch))

    def _export(self, best):
        record = {"monitor": self.monitor, "mode": self.mode, **best._asdict()}
        extra = {**(self.options.get("assets_extra") or {}), RECORD: json.dumps(record, indent=1).encode()}
        saved_model(self.model, self.path, **{**self.options, "assets_extra": extra})
        self.best, self._exported = best.value, True

    def _resume(self):
        """Take the value of the export that is there as the one to beat, if it is better than the one known."""
        stored = None if self.start_over else _stored(self.path, self.monitor, self.mode)
        if stored and self._improves(stored.value):
            self.best = stored.value
        return stored

    def _improves(self, value):
        if self.best is None:
            return not math.isnan(value)
        return value > self.best if self.mode == "max" else value < self.best


def _stored(path, monitor, mode):
    """Value and epoch of the export at `path`, or None where none is."""
    folder = recovered(path)
    if not (folder / "saved_model.pb").exists():
        return None
    advice = "Choose another path, or pass start_over=True to replace it, with best= for a value to beat."
    try:
        record = json.loads((folder / "assets.extra" / RECORD).read_text())
        found, best = (record["monitor"], record["mode"]), _Best(float(record["value"]), int(record["epoch"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"Received path={str(path)!r}, which holds an export without a readable assets.extra/{RECORD}, so that its "
            f"value is not known; expected one that ExportBest wrote. {advice}"
        ) from error
    if found != (monitor, mode):
        raise ValueError(
            f"Received monitor={monitor!r} and mode={mode!r}, but the export in {str(path)!r} is the best by "
            f"{found[0]!r} and {found[1]!r}; expected the same. {advice}"
        )
    return best
