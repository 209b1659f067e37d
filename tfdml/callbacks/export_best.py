"""SavedModel of the best epoch so far, stored together with its value."""

import json
import math
import warnings
from typing import Any, Literal, NamedTuple

import keras

from tfdml._core.atomic import recovered
from tfdml._core.checks import require_number, require_one_of
from tfdml.callbacks.base import non_finite_variable
from tfdml.export.saved_model import as_export_path, require_export_options, require_tensorflow, saved_model
from tfdml.typing import FilePath

RECORD = "best.json"  # in assets.extra, which TensorFlow reserves for other software
_ADVICE = "Choose another path, or pass start_over=True to replace it, with best= for a value to beat."


class _Best(NamedTuple):
    value: float
    epoch: int


class ExportBest(keras.callbacks.Callback):
    """Write a SavedModel whenever the monitored value improves.

    List it after the callback that writes the value (`RetrievalEvaluation`). An export is replaced in one step.
    `tfdml.export.saved_model` describes the signatures. Epochs without the value (`every=` above 1) are skipped.

    The export holds the value, in `assets.extra/best.json` with monitor, mode and epoch (from 0). A resumed run reads
    it: only a better model replaces an export. A run that begins at or before its epoch warns and names the value to
    beat. A network with a variable that is not finite is not exported, and a warning names the variable.

    See also: `TrainingCheckpoint` to resume a run.

    Example: images of 1 x 2 pixels, and the values of two epochs. In `fit`, `RetrievalEvaluation` writes them.

        >>> inputs = keras.Input((1, 2, 1))
        >>> model = tfdml.models.EmbeddingModel(inputs, keras.layers.Dense(2)(keras.layers.Flatten()(inputs)))
        >>> export = tfdml.callbacks.ExportBest("export", monitor="val_map@r")
        >>> export.set_model(model)
        >>> for epoch, value in enumerate((0.75, 0.5)):
        ...     export.on_epoch_end(epoch, {"val_map@r": value})
        >>> import json, pathlib
        >>> export.best, json.loads(pathlib.Path("export/assets.extra/best.json").read_text())["epoch"]
        (0.75, 0)

    Args:
        path, monitor: folder of the SavedModel, and key of the logs to watch.
        mode: "max" if larger is better, "min" if smaller is better.
        best: a value to beat in addition to the value of the export at `path`; None for no other value.
        start_over: replace an existing export at `path` at the first measured value, or the first that beats `best`.
            Must be False in a run that resumes: `start_over=step == 0`.
        model: the network to export, if it is not the model in training but has its layers: one of `model.towers`, or
            `keras.Model(model.input, model.output["embedding"])` of a model with several outputs.
        **options: options of `tfdml.export.saved_model`, such as `on_error`.

    Attributes:
        best: the best value so far, or None.

    Raises:
        ValueError: unless `start_over`, an export with another monitor or mode or an unknown value; a monitor that is
            not in the logs, which `EmbeddingModel.fit` says before the first step.
        FileExistsError: the folder holds a file that is not part of an export.
        RuntimeError: the Keras backend is not TensorFlow.
    """

    needs_monitor = True  # `EmbeddingModel.fit` looks for its writer before the first step

    def __init__(
        self,
        path: FilePath,
        *,
        monitor: str = "val_map@r",
        mode: Literal["max", "min"] = "max",
        best: float | None = None,
        start_over: bool = False,
        model: keras.Model | None = None,
        **options: Any,
    ):
        super().__init__()
        require_one_of(("max", "min"), mode=mode)
        if best is not None:
            require_number("best", best)
        require_export_options(**options)
        require_tensorflow()
        self.path, self.monitor, self.mode, self.best = as_export_path(path), monitor, mode, best
        self.start_over, self.network, self.options = start_over, model, options
        self._seen = self._exported = False
        self._resume()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Read the value to beat: another run may have exported in the meantime."""
        self._earlier = self._resume()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Warn if the run begins at or before the epoch of the export."""
        if self._earlier and not self._exported and epoch <= self._earlier.epoch:
            warnings.warn(
                f"{str(self.path)!r} holds an export with {self.monitor}={self._earlier.value:.6g} of epoch "
                f"{self._earlier.epoch + 1}, and this run begins with epoch {epoch + 1}: only a better value replaces "
                "it. To replace it in any case pass start_over=True, or choose another path.",
                stacklevel=2,
            )
        self._earlier = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Export if this value is finite and the best so far."""
        value = (logs or {}).get(self.monitor)
        if value is None and not self._seen:
            raise ValueError(
                f"Received monitor={self.monitor!r}, which is not in the logs; expected one of {sorted(logs or {})}. "
                "List ExportBest after the callback that writes it."
            )
        self._seen = True
        if value is not None and self._improves(float(value)) and not self._has_diverged(epoch):
            self._export(_Best(float(value), epoch))

    def _has_diverged(self, epoch):
        """Whether the network has a variable that is not finite; then a warning names it."""
        variable = non_finite_variable(self.network or self.model)
        if variable is not None:
            text = f"After epoch {epoch + 1} the variable {variable} is not finite. The model is not exported."
            warnings.warn(f"{text} Lower the learning rate, or clip the gradients.", stacklevel=3)
        return variable is not None

    def _export(self, best):
        record = {"monitor": self.monitor, "mode": self.mode, **best._asdict()}
        extra = {**(self.options.get("assets_extra") or {}), RECORD: json.dumps(record, indent=1).encode()}
        saved_model(self.network or self.model, self.path, **{**self.options, "assets_extra": extra})
        self.best, self._exported = best.value, True

    def _resume(self):
        """Make the value of the export at `path` the value to beat, if it is better than the current one."""
        stored = None if self.start_over else _stored(self.path, self.monitor, self.mode)
        if stored and self._improves(stored.value):
            self.best = stored.value
        return stored

    def _improves(self, value):
        if self.best is None or not math.isfinite(value):
            return math.isfinite(value)
        return value > self.best if self.mode == "max" else value < self.best


def _stored(path, monitor, mode):
    folder = recovered(path)
    if not (folder / "saved_model.pb").exists():
        return None
    selection, best = _read_record(path, folder)
    if selection != (monitor, mode):
        raise ValueError(
            f"Received monitor={monitor!r} and mode={mode!r}, but the export in {str(path)!r} was selected by "
            f"{selection[0]!r} and {selection[1]!r}; expected the same. {_ADVICE}"
        )
    return best


def _read_record(path, folder):
    try:
        record = json.loads((folder / "assets.extra" / RECORD).read_text())
        return (record["monitor"], record["mode"]), _Best(float(record["value"]), int(record["epoch"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"Received path={str(path)!r}, which holds an export without a readable assets.extra/{RECORD}, so its "
            f"value is not known; expected an export written by ExportBest. {_ADVICE}"
        ) from error
