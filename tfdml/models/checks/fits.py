"""Checks of the arguments of `compile`, `fit` and others that are known before the first step."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from tfdml._core.checks import as_unmasked, how_to_number, require
from tfdml.models.checks.monitors import require_monitors
from tfdml.models.checks.pixels import require_pixels
from tfdml.models.devices import require_divisible, require_same_run
from tfdml.pairs.pairings import require_ids_that_fit


def require_losses_and_metrics(losses: list[Any], *metrics: Any) -> None:
    """Raise a ValueError for a class in place of a loss, or for a metric of class scores on embeddings."""
    for loss in losses:
        received = f"the class {getattr(loss, '__name__', loss)} as a loss"
        require(not isinstance(loss, type), received, f"an object: {getattr(loss, '__name__', loss)}(...)")
    compare_labels = [hasattr(loss, "pairing") or "losses" in getattr(loss, "settings", {}) for loss in losses]
    if losses and all(compare_labels):
        for metric in keras.tree.flatten(metrics):
            name = metric if isinstance(metric, str) else type(metric).__name__
            is_of_scores = name.lower() in ("acc", "ce") or name.lower().endswith(("accuracy", "crossentropy"))
            expected = (
                "none: it would compare class ids with the columns of embeddings. Measure embeddings by "
                "callbacks=[tfdml.callbacks.RetrievalEvaluation((x, labels))] of fit"
            )
            require(not is_of_scores, f"the metric {name!r} for a loss of embeddings", expected)


def require_fit(model: Any, arguments: dict[str, Any]) -> None:
    """Raise the errors of `EmbeddingModel.fit` that need no batch."""
    require_same_run(model.steps, arguments)
    require_monitors(arguments)
    for x, y, batch_size, split in _sets_of(arguments):
        require_usable(x, y)
        require_pixels(model, x)
        require_divisible(x, batch_size, validation_split=split)
    _require_whole_executions(arguments.get("steps_per_epoch"), model.steps_per_execution)
    _require_steps_of_replicas(model)
    _require_an_end("steps_per_epoch", arguments, arguments.get("x"))
    _require_an_end("validation_steps", arguments, arguments.get("validation_data"))


def require_no_activity_losses(model: Any) -> None:
    """Raise a ValueError for layers that add losses of their outputs, which micro-batches would lose."""
    names = [layer.name for layer in model._flatten_layers() if getattr(layer, "activity_regularizer", None)]
    if names:
        raise ValueError(
            f"Received micro_batch_size for a model whose layers {', '.join(names)} have an activity_regularizer, "
            "expected none. Regularize weights instead, or train whole batches."
        )


def require_usable(x: Any, y: Any = None) -> None:
    """Raise a ValueError for arrays that Keras would alter before a loss sees them, or not take at all."""
    labels = keras.tree.flatten(y)[:1]
    expected = "an array of one integer class id per example. Pass np.asarray(labels)"
    require(y is None or not isinstance(labels[0], int | float), "labels that are no array", expected)
    dtype = np.asarray(labels[0]).dtype if isinstance(labels[0], str) else getattr(labels[0], "dtype", None)
    if getattr(dtype, "kind", None) in ("U", "S", "O"):
        advice = how_to_number("labels", str(dtype), (len(y),))
        raise ValueError(f"Received labels of dtype {dtype}, expected integer class ids. {advice}")
    for name, data in (("examples", x), ("labels", y)):
        for array in (value for value in keras.tree.flatten(data) if isinstance(value, np.ndarray)):
            as_unmasked(array, name)
            if name == "labels":
                require_ids_that_fit(array)


def _sets_of(arguments: dict[str, Any]) -> Iterator[tuple[Any, Any, int | None, float]]:
    """The examples, labels, batch size and validation split of the training set, and of the validation set if any."""
    batch_size, validation = arguments.get("batch_size"), arguments.get("validation_data")
    yield arguments.get("x"), arguments.get("y"), batch_size, arguments.get("validation_split", 0.0)
    if validation is not None:
        x, y = validation[:2] if isinstance(validation, tuple) else (validation, None)
        yield x, y, arguments.get("validation_batch_size") or batch_size, 0.0


def _require_whole_executions(steps, per_execution):
    """Raise a ValueError for epochs that end within an execution: Keras would train on more batches than told."""
    if steps is not None and steps % per_execution:
        whole = steps // per_execution * per_execution or per_execution
        raise ValueError(
            f"Received steps_per_epoch={steps} with steps_per_execution={per_execution}, expected a multiple of "
            f"{per_execution}. Pass steps_per_epoch={whole}, or compile with another steps_per_execution."
        )


def _require_steps_of_replicas(model):
    """Raise a ValueError for what the steps of Keras cannot do under `tf.distribute`, where they fail."""
    replicas = getattr(getattr(model, "distribute_strategy", None), "num_replicas_in_sync", 1)
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    advice = {
        "gradient_accumulation_steps": "Pass larger batches, and micro_batch_size to compile",
        "ema_overwrite_frequency": "Pass use_ema=True alone: the last epoch ends with the average",
    }
    received = {name: getattr(optimizer, name, None) for name in advice}
    for name, value in received.items() if replicas > 1 else ():
        require(not value, f"an optimizer with {name}={value} on {replicas} replicas", f"none. {advice[name]}")
    if replicas > 1 and model.steps_per_execution > 1:
        raise ValueError(
            f"Received steps_per_execution={model.steps_per_execution} on {replicas} replicas, expected 1: Keras "
            "cannot loop over the batches of several replicas. Compile with steps_per_execution=1."
        )


def _require_an_end(option, arguments, data):
    """Raise a ValueError for endless batches of `tf.data`, or of a sampler by grain, without a number of steps."""
    if arguments.get(option) is not None or not _is_endless(data):
        return
    shapes = [spec.shape for spec in keras.tree.flatten(getattr(data, "element_spec", []))]
    rows = next((shape[0] for shape in shapes if shape.rank), None) or "batch_size"
    raise ValueError(
        f"Received an endless dataset without {option}, expected the number of batches of an epoch. Pass {option}, "
        f"len(labels) // {rows} for one pass over the examples, or end the dataset with take(n)."
    )


def _is_endless(data):
    """Whether batches have no end, as those of samplers."""
    return getattr(data, "is_endless", False) or (hasattr(data, "cardinality") and int(data.cardinality()) == -1)
