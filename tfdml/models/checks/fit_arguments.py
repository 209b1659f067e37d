"""Checks of the arguments of `compile`, `fit` and others that are known before the first step."""

import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from tfdml._core.checks import as_unmasked, how_to_number, require, takes
from tfdml.models.checks.finite import require_finite
from tfdml.models.checks.monitors import require_monitors
from tfdml.models.checks.outputs import compares_ids, entries_of, labels_of, losses_of
from tfdml.models.checks.pixels import require_pixels
from tfdml.models.devices import require_divisible, require_same_run
from tfdml.pairs.pairings import require_ids_that_fit


def require_losses_and_metrics(model: Any, loss: Any, arguments: dict[str, Any]) -> None:
    """Raise a ValueError for what is no loss, or for a metric that compares class ids with embeddings."""
    for each in keras.tree.flatten(loss):
        name = getattr(each, "__name__", each)
        require(not isinstance(each, type), f"the class {name} as a loss", f"an object: {name}(...)")
        require(
            not callable(each) or takes(each, "labels", "predictions"),
            f"{each!r} as a loss, which does not take labels and predictions",
            "a loss. A function of Pairs becomes tfdml.losses.PairLoss(function), a miner ContrastiveLoss(miner=...)",
        )
    embeddings = {output for each, output in losses_of(loss, model) if compares_ids(each)}
    for metrics in (arguments.get("metrics"), arguments.get("weighted_metrics")):
        for output, listed in enumerate(entries_of(metrics, model)):
            for metric in keras.tree.flatten(listed) if output in embeddings else ():
                name = metric if isinstance(metric, str) else type(metric).__name__
                expected = (
                    "none: it would compare class ids with the columns of embeddings. Measure embeddings by "
                    "callbacks=[tfdml.callbacks.RetrievalEvaluation((x, labels))] of fit"
                )
                require(not _compares_entries(metric), f"the metric {name!r} for a loss of embeddings", expected)


def _compares_entries(metric):
    """Whether a metric is one of Keras that compares predictions with labels in their shape."""
    if isinstance(metric, str):
        return True
    is_of_keras = type(metric).__module__.startswith("keras.") and isinstance(metric, keras.metrics.Metric)
    return is_of_keras and type(metric) not in (keras.metrics.Mean, keras.metrics.Sum, keras.metrics.MeanMetricWrapper)


def require_fit(model: Any, arguments: dict[str, Any]) -> None:
    """Raise the errors of `EmbeddingModel.fit` that need no batch."""
    require_same_run(model.steps, arguments)
    require_monitors(arguments)
    _warn_of_changed_layers(model)
    for x, y, weights, batch_size, split in _sets_of(arguments):
        require_usable(model, x, y)
        require_pixels(model, x)
        require_finite(model, x, weights)
        require_divisible(x, batch_size, validation_split=split)
    _require_whole_executions(arguments.get("steps_per_epoch"), model.steps_per_execution)
    _require_steps_of_replicas(model)
    _require_an_end("steps_per_epoch", arguments, arguments.get("x"))
    _require_an_end("validation_steps", arguments, arguments.get("validation_data"))


def require_no_activity_losses(model: Any) -> None:
    """Raise a ValueError for layers that add losses of their outputs: micro-batches would lose them."""
    names = [layer.name for layer in model._flatten_layers() if getattr(layer, "activity_regularizer", None)]
    if names:
        raise ValueError(
            f"Received micro_batch_size for a model whose layers {', '.join(names)} have an activity_regularizer, "
            "expected none. Regularize weights instead, or train whole batches."
        )


def require_order(model: Any, x: Any, y: Any) -> None:
    """Raise a ValueError for arrays or specs that fit the one input of a model only the other way round."""
    shapes = [getattr(data, "shape", None) for data in (x, y)]
    if len(model.inputs) != 1 or any(shape is None or getattr(shape, "rank", 1) is None for shape in shapes):
        return
    examples, labels = (tuple(shape) for shape in shapes if shape is not None)
    expected = tuple(model.inputs[0].shape)
    require(
        _fits(examples, expected) or not _fits(labels, expected),
        f"examples of shape {examples} and labels of shape {labels} for an input of shape {expected}",
        "fit(examples, labels). Exchange the two",
    )


def _fits(shape, expected):
    """Whether Keras takes an array of a shape for an input; it may add a last axis of 1, or drop it."""
    shape, expected = (each[1:-1] if each[-1:] == (1,) else each[1:] for each in (shape, expected))
    pairs = zip(shape, expected, strict=False)
    return len(shape) == len(expected) and all(None in pair or pair[0] == pair[1] for pair in pairs)


def require_usable(model: Any, x: Any, y: Any = None) -> None:
    """Raise a ValueError for arrays that Keras would alter before a loss sees them, or not take at all."""
    require_order(model, x, y)
    losses = losses_of(model.loss, model)
    by_output = labels_of(y, losses, model)
    for labels in (by_output[output] for loss, output in losses if compares_ids(loss)):
        expected = "an array of one integer class id per example. Pass np.asarray(labels)"
        is_list = isinstance(labels, list | tuple) and not isinstance(next(iter(labels), None), str)
        are_numbers = is_list or isinstance(labels, int | float | np.generic)
        require(not are_numbers, "labels that are no array", expected)
        dtype = np.asarray(labels).dtype if isinstance(labels, list | tuple) else getattr(labels, "dtype", None)
        if getattr(dtype, "kind", None) in ("U", "S", "O") or (hasattr(labels, "iloc") and not hasattr(dtype, "char")):
            advice = how_to_number("labels", str(dtype), (len(labels),))
            raise ValueError(f"Received labels of dtype {dtype}, expected integer class ids. {advice}")
    for name, data in (("examples", x), ("labels", y)):
        for array in (value for value in keras.tree.flatten(data) if isinstance(value, np.ndarray)):
            as_unmasked(array, name)
            expected = "an array of objects: np.asarray(texts, object), or a tensor of strings"
            require(name == "labels" or array.dtype.kind != "U", f"examples of dtype {array.dtype}", expected)
            if name == "labels":
                require_ids_that_fit(array)


def _sets_of(arguments: dict[str, Any]) -> Iterator[tuple[Any, Any, Any, int | None, float]]:
    """The examples, labels, weights, batch size and validation split of the training set, and of a validation set."""
    batch_size, validation = arguments.get("batch_size"), arguments.get("validation_data")
    x, y, weights = (arguments.get(name) for name in ("x", "y", "sample_weight"))
    yield x, y, weights, batch_size, arguments.get("validation_split", 0.0)
    if validation is not None:
        x, y, weights = keras.utils.unpack_x_y_sample_weight(validation)
        yield x, y, weights, arguments.get("validation_batch_size") or batch_size, 0.0


def _warn_of_changed_layers(model):
    """Warn of layers that were frozen or unfrozen since their model was compiled, where Keras trains as before."""
    if not getattr(model.optimizer, "built", False):
        return
    earlier = {id(variable) for variable in model.optimizer._trainable_variables}
    now = {id(variable) for variable in model.trainable_variables}
    if now - earlier or (earlier - now and model.train_function is not None):
        layers = model._flatten_layers(include_self=False)
        names = [layer.name for layer in layers if (earlier ^ now) & {*map(id, layer._trainable_variables)}]
        warnings.warn(
            f"trainable of {', '.join(names)} has changed since the model was compiled, which changes nothing before "
            "compile is called again.",
            stacklevel=4,
        )


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
