"""Monitors of callbacks that no epoch will have, known before the first step."""

from typing import Any

import keras


def require_monitors(arguments: dict[str, Any]) -> None:
    """Raise a ValueError for a monitor `val_...` that is certainly not in the logs when its callback looks for it.

    A callback of Keras with `mode="auto"` gets the mode of a metric of tfdml: Keras does not know it.
    """
    callbacks = arguments.get("callbacks")
    listed = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
    for position, callback in enumerate(listed):
        _set_direction(callback, listed[:position])
    if arguments.get("validation_data") is not None or arguments.get("validation_split"):
        return
    for position, callback in enumerate(listed):
        name = _monitor(callback)
        if name.startswith("val_") and all(map(_is_known, listed[:position])):
            _require_written(name, callback, listed[:position], listed[position + 1 :])


def _monitor(callback):
    if not _is_known(callback):
        return ""
    is_needed = getattr(callback, "needs_monitor", False) or isinstance(
        callback, keras.callbacks.EarlyStopping | keras.callbacks.ReduceLROnPlateau
    )
    if isinstance(callback, keras.callbacks.ModelCheckpoint):
        is_needed = callback.save_best_only and callback.save_freq == "epoch"
    return str(callback.monitor) if is_needed else ""


def _set_direction(callback, before):
    """Set `mode` of a callback of Keras by the callback that writes its monitor, or raise a ValueError."""
    name = _monitor(callback)
    writers = [each for each in before if name and hasattr(each, "writes") and each.writes(name)]
    if not writers or getattr(callback, "mode", "max") != "auto" or name == "val_loss":
        return
    title, direction = type(callback).__name__, writers[-1].direction(name)
    if direction is None:
        raise ValueError(
            f"Received {title}(monitor={name!r}) without a mode, expected mode='max' if larger is better, or 'min'."
        )
    callback.mode = direction


def _is_known(callback):
    """Whether a callback is one of tfdml, or one of Keras that runs no function of a user."""
    room = type(callback).__module__.partition(".")[0]
    return room in ("keras", "tfdml") and not isinstance(callback, keras.callbacks.LambdaCallback)


def _require_written(name, callback, before, after):
    """Raise a ValueError unless a callback before may write the log; one of Keras alone only warns, and stays."""
    earlier, later = ([each for each in listed if hasattr(each, "writes")] for listed in (before, after))
    if any(each.writes(name) for each in earlier):
        return
    title = type(callback).__name__
    for each in later:
        if each.writes(name):
            raise ValueError(
                f"Received {title}(monitor={name!r}) before {type(each).__name__}, which writes this log; expected "
                f"the other order. List {title} after it."
            )
    if earlier or later or hasattr(callback, "needs_monitor"):
        raise ValueError(
            f"Received {title}(monitor={name!r}) without validation_data, and no callback before it writes this log; "
            "expected the name of a log, such as 'val_map@r' of RetrievalEvaluation. List the callback that writes it "
            f"before {title}."
        )
