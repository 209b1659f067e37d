"""Losses, labels and predictions in the many forms that Keras takes, one entry per output of a model."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tfdml._core.checks import require


def losses_of(loss: Any, model: keras.Model) -> list[tuple[Any, int]]:
    """Each loss of a model with the number of the output that it takes; one output may have several."""
    count = len(model.outputs)
    entries = entries_of(loss, model) if keras.tree.is_nested(loss) else [loss] * count
    pairs = [(each, output) for output, entry in enumerate(entries[:count]) for each in keras.tree.flatten(entry)]
    return [(each, output) for each, output in pairs if each is not None]


def labels_of(labels: Any, losses: list[tuple[Any, int]], model: keras.Model) -> list[Any]:
    """The labels of each output, None without any: by name, in order, or in the order of the outputs with a loss."""
    used = sorted({output for _, output in losses})
    entries = entries_of(labels, model)
    if len(entries) == len(model.outputs):
        return entries
    by_output = dict(zip(used, entries, strict=False)) if len(entries) == len(used) else {}
    return [by_output.get(output) for output in range(len(model.outputs))]


def terms(loss: Any) -> list[Any]:
    """The losses of a sum; the loss itself, if it is none."""
    return getattr(loss, "settings", {}).get("losses") or [loss]


def compares_ids(loss: Any) -> bool:
    """Whether a loss, or each loss of a sum, compares class ids, and its output is embeddings."""
    return all(hasattr(term, "pairing") and term.match is None for term in terms(loss))


def as_array(labels: Any) -> np.ndarray | None:
    """Labels as an array; None without any, and for what is no array, such as ragged tensors."""
    try:
        return keras.ops.convert_to_numpy(labels) if keras.ops.is_tensor(labels) else _as_numbers(labels)
    except (AttributeError, TypeError, ValueError):
        return None


def _as_numbers(labels):
    array = None if labels is None else np.asarray(labels)
    return array if array is None or array.ndim else None


def entries_of(values: Any, model: keras.Model) -> list[Any]:
    """Losses, labels or metrics, one entry per output, where they match the outputs."""
    return _entries(values, model._outputs_struct, model)


def require_losses_of_outputs(loss: Any, weights: Any, model: keras.Model) -> None:
    """Raise a ValueError for losses, or their weights, which Keras would not, or not all, match with outputs."""
    names = _names(model)
    if isinstance(loss, dict):
        unknown = [name for name in loss if name not in {*names, *model.output_names}]
        require(not unknown, f"losses of {unknown}", f"names of outputs among {names}")
    if isinstance(loss, list | tuple) and len(loss) != len(names):
        expected = f"one per output ({', '.join(map(str, names))}), None for an output without a loss"
        if not keras.tree.is_nested(model._outputs_struct) and len(loss) > 1:
            expected = "one. Pass their sum: tfdml.losses.WeightedSumLoss([...])"
        require(False, f"a list of {len(loss)} losses for {len(names)} outputs", expected)
    if weights is None or isinstance(weights, float):
        return
    numbers = [len(keras.tree.flatten(values)) for values in (loss, weights)]
    require(numbers[0] == numbers[1], f"{numbers[1]} loss_weights for {numbers[0]} losses", "one weight per loss")
    if isinstance(weights, dict):
        by_name = isinstance(loss, dict) and loss.keys() == weights.keys()
        require(
            by_name, f"loss_weights of {list(weights)}", "the names of the losses, in a dict of losses with these names"
        )


def _names(model):
    outputs = model._outputs_struct
    return list(outputs) if isinstance(outputs, Mapping) else model.output_names


def _entries(values, outputs, model):
    """The entries of the outputs, in the order of `model.outputs`; of another length for what Keras may match alone."""
    if isinstance(values, Mapping) and isinstance(outputs, Mapping):
        return [entry for key in sorted(outputs) for entry in _entries(values.get(key), outputs[key], model)]
    if isinstance(values, Mapping):
        return [values.get(name) for name in model.output_names]
    if not keras.tree.is_nested(outputs):
        return [values[0] if isinstance(values, list | tuple) and len(values) == 1 else values]
    if values is None:
        return [None for _ in keras.tree.flatten(outputs)]
    if isinstance(values, list | tuple) and isinstance(outputs, list | tuple) and len(values) == len(outputs):
        return [entry for pair in zip(values, outputs, strict=True) for entry in _entries(*pair, model)]
    return list(values) if isinstance(values, list | tuple) else [values]
