"""The losses of a model: a loss with layers belongs to the first model that is compiled with it."""

import inspect
import types
import weakref
from typing import Any, NamedTuple

import keras

_RECORD = "_models"  # the attribute of a loss


class _Record(NamedTuple):
    """Models compiled with a loss: `losses` has the loss of each, `start` the first values by id of a layer."""

    losses: weakref.WeakKeyDictionary[keras.Model, keras.losses.Loss]
    start: dict[int, list[Any]]


def own_losses(loss: Any, model: keras.Model) -> Any:
    """The losses of a model, in the structure that `compile` received; another model than the first gets its copy."""
    copies: dict[int, Any] = {}

    def own(each):
        return _own(each, model, copies) if isinstance(each, keras.losses.Loss) and _layers(each) else each

    return keras.tree.map_structure(own, loss)


def _own(loss, model, copies):
    if _RECORD not in vars(loss):
        start = {id(layer): _values(layer) for layer in _layers(loss) if layer.built}
        setattr(loss, _RECORD, _Record(weakref.WeakKeyDictionary({model: loss}), start))
    losses, start = getattr(loss, _RECORD)
    if model not in losses:
        for layer in _layers(loss):
            copies.setdefault(id(layer), _fresh(layer, start.get(id(layer))))
        losses[model] = _copied(loss, copies)
        _require_no_layer_of(losses[model], loss)
        start = {id(copies[layer]): values for layer, values in start.items()}
        setattr(losses[model], _RECORD, _Record(weakref.WeakKeyDictionary({model: losses[model]}), start))
    return losses[model]


def _layers(loss):
    return getattr(loss, "layers", [])


def _values(layer):
    """The values of the variables; None for a random state, which each copy has of its own."""
    return [
        None if variable.name == "seed_generator_state" else keras.ops.convert_to_numpy(variable)
        for variable in layer.variables
    ]


def _fresh(layer, start):
    """A layer of the same config, with the values that the layer had before it was trained."""
    try:
        copy = type(layer).from_config(layer.get_config())
    except (NotImplementedError, TypeError, ValueError) as error:
        raise _not_copied(layer.name) from error
    if start is not None and not copy.built:
        copy.build_from_config(layer.get_build_config())
    for variable, value in zip(copy.variables, start or (), strict=False):
        if value is not None:
            variable.assign(value)
    return copy


def _copied(value, copies):
    """A loss and the losses that it holds, with the copied layers; functions and settings are shared."""
    if id(value) in copies:
        return copies[id(value)]
    if isinstance(value, keras.losses.Loss):
        copy = copies[id(value)] = object.__new__(type(value))
        attributes = {name: attribute for name, attribute in vars(value).items() if name != _RECORD}
        vars(copy).update(keras.tree.map_structure(lambda attribute: _copied(attribute, copies), attributes))
        return copy
    if inspect.ismethod(value) and isinstance(value.__self__, keras.losses.Loss):
        return types.MethodType(value.__func__, _copied(value.__self__, copies))
    return value


def _require_no_layer_of(copy, loss):
    shared = [layer.name for layer in _layers(copy) if any(layer is original for original in _layers(loss))]
    if shared:
        raise _not_copied(", ".join(shared))


def _not_copied(name):
    return ValueError(
        f"Received a loss that another model is compiled with, and its layer {name} cannot be copied, expected a loss "
        "for each model. Make the loss where you make the model."
    )
