"""The digest of a model: of its layers, their settings and their weights, along the graph from inputs to outputs."""

import contextlib
import hashlib
import inspect
import json
import warnings
from typing import Any

import keras
import numpy as np

# What no embedding depends on: in layers and their parts, and what layers of Keras use in training or for speed.
_IDLE = ("name", "trainable", "dtype", "seed", "lora_rank", "lora_alpha")
_IDLE_ENDS = ("_initializer", "_regularizer", "_constraint")
_ADAPTED = ("bin_boundaries", "idf_weights")  # by `adapt`, and no weights
_IDLE_IN_KERAS = (
    "dropout",
    "flash_attention",
    "momentum",
    "output_shape",
    "rate",
    "recurrent_dropout",
    "stddev",
    "synchronized",
    "unroll",
)


def digest_of_model(model: Any) -> str:
    """The sha256 of a built model in hexadecimal digits.

    The digest of an output is that of its layer and of the inputs of the layer, so that it knows order and branches.
    A model in a model counts as its layers.
    """
    return _digest_of_layer(model, {})


def _digest_of_layer(layer, layer_digests):
    """The digest of a layer with its weights and the layers in it; `layer_digests` has those of shared ones."""
    if id(layer) not in layer_digests:
        if _is_graph(layer):
            inputs = [f"input {number}" for number in range(len(layer.inputs))]
            layer_digests[id(layer)] = _digest(_digests_of_outputs(layer, inputs, layer_digests))
        else:
            inner = [_digest_of_layer(each, layer_digests) for each in getattr(layer, "_layers", ())]
            layer_digests[id(layer)] = _digest([*_description(layer), _digests_of_weights(layer), inner])
    return layer_digests[id(layer)]


def _is_graph(layer):
    return isinstance(layer, keras.Model) and bool(getattr(layer, "outputs", None))


def _digests_of_outputs(graph, inputs, layer_digests):
    """The digests of the outputs of a graph, from those of its inputs; without recursion, since graphs are deep."""
    digests = dict(zip(map(id, graph.inputs), inputs, strict=True))
    tensors = list(graph.outputs)
    while tensors:
        history = tensors[-1]._keras_history
        node = history.operation._inbound_nodes[history.node_index]
        missing = [x for x in node.arguments.keras_tensors if id(x) not in digests]
        if id(tensors[-1]) in digests:
            tensors.pop()
        elif missing:
            tensors += missing
        else:
            digests |= zip(map(id, node.outputs), _digests_of_node(node, digests, layer_digests), strict=True)
    return [digests[id(x)] for x in graph.outputs]


def _digests_of_node(node, digests, layer_digests):
    """The digests of the outputs of one call of a layer or operation."""
    operation, arguments = node.operation, node.arguments
    inputs = [digests[id(x)] for x in arguments.keras_tensors]
    if _is_graph(operation) and (len(operation.inputs), len(operation.outputs)) == (len(inputs), len(node.outputs)):
        return _digests_of_outputs(operation, inputs, layer_digests)
    args, kwargs = arguments.convert(lambda x: digests.get(id(x), x))
    stated = {name: x for name, x in kwargs.items() if x is not None and (name, x) != ("training", False)}
    call = [_digest_of_layer(operation, layer_digests), _plain([args, stated]), inputs]
    return [_digest([number, *call]) for number in range(len(node.outputs))]


def _description(layer):
    """The kind of a layer or operation, and its settings."""
    kind = next(filter(_is_of_keras, type(layer).__mro__)) if getattr(layer, "lora_enabled", False) else type(layer)
    config: dict[str, Any] = {}
    with warnings.catch_warnings(), contextlib.suppress(Exception):  # a custom layer without a config that works
        warnings.simplefilter("ignore")  # of lambda functions, which are only saved with care
        config = dict(layer.get_config())
        config |= {name: getattr(layer, name) for name in _ADAPTED if hasattr(layer, name)}
        if hasattr(layer, "get_vocabulary"):
            config["vocabulary"] = [str(word) for word in layer.get_vocabulary()]
    functions = {name: value for name, value in vars(layer).items() if name in config and inspect.isfunction(value)}
    config |= {name: _code(value) for name, value in functions.items() if value.__name__ == "<lambda>"}
    if not isinstance(layer, keras.layers.Layer):
        return [kind.__name__, {name: _plain(value) for name, value in config.items() if name != "name"}]
    settings = _plain(config)
    if _is_of_keras(kind):  # later versions add settings, whose defaults are as before
        defaults = {name: _plain(each.default) for name, each in inspect.signature(kind.__init__).parameters.items()}
        settings = {
            name: value
            for name, value in settings.items()
            if name not in _IDLE_IN_KERAS and (name not in defaults or value != defaults[name])
        }
    if "float" not in layer.compute_dtype:
        settings["dtype"] = layer.compute_dtype
    return [kind.__name__, settings]


def _is_of_keras(kind):
    return kind.__module__.split(".")[0] == "keras"


def _plain(value):
    """A setting as JSON has it, without what no embedding depends on; the type of what JSON does not have."""
    if isinstance(value, dict):
        if {"class_name", "config"} <= value.keys():  # an object, whose module may move
            return [value["class_name"], _plain(value["config"])]
        return {str(name): _plain(each) for name, each in value.items() if not _is_idle(str(name))}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, slice):
        return ["slice", *map(_plain, (value.start, value.stop, value.step))]
    if hasattr(value, "__array__"):
        return keras.ops.convert_to_numpy(value).tolist()
    if value == "linear":  # an activation that is None elsewhere
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else type(value).__name__


def _is_idle(name):
    return name in _IDLE or name.endswith(_IDLE_ENDS)


def _code(function):
    """The instructions of a lambda function, wherever it is written."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [_instructions(function.__code__), _plain([function.__defaults__, cells])]


def _instructions(code):
    constants = [_instructions(each) if inspect.iscode(each) else _constant(each) for each in code.co_consts]
    return [code.co_code.hex(), constants, list(code.co_names)]


def _constant(value):
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)  # a set has no order


def _digests_of_weights(layer):
    """The digests of the weights that a layer has beside those of the layers in it, in their order."""
    weights = [*getattr(layer, "_trainable_variables", ()), *getattr(layer, "_non_trainable_variables", ())]
    values = {id(weight): weight for weight in weights}
    for name in ("kernel", "embeddings") if getattr(layer, "lora_enabled", False) else ():  # counts as merged
        if hasattr(layer, f"lora_{name}_a"):
            values[id(getattr(layer, f"_{name}"))] = getattr(layer, name)
            del values[id(getattr(layer, f"lora_{name}_a"))], values[id(getattr(layer, f"lora_{name}_b"))]
    return [_digest_of_array(value) for value in values.values()]


def _digest_of_array(array):
    values = np.ascontiguousarray(keras.ops.convert_to_numpy(array))
    return hashlib.sha256(f"{values.dtype} {values.shape} ".encode() + values.tobytes()).hexdigest()


def _digest(content):
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()
