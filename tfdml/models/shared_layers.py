"""The networks of one model, and layers that two of them have in common, which a loaded model shares again."""

from typing import Any

import keras

from tfdml._core.checks import require


def is_functional(model: Any) -> bool:
    """Whether a model is a Keras model with known inputs."""
    return isinstance(model, keras.Model) and bool(getattr(model, "inputs", None))


def named_network(model: keras.Model, name: str, *, form: str = "") -> keras.Model:
    """The network of a functional model of one output, with the same layers; the form " (batch, dim)" is required."""
    require(is_functional(model), f"{name}={model!r}", "a functional Keras model, keras.Model(inputs, outputs)")
    shapes = [tuple(output.shape) for output in model.outputs]
    is_one = len(shapes) == 1 and (not form or len(shapes[0]) == 2)
    require(is_one, f"{name} of outputs {shapes}", f"one output{form}: keras.Model(model.input, model.outputs[i])")
    inputs = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
    return keras.Model(inputs, model.outputs[0], name=name)


def shared_layers(first: keras.Model, second: keras.Model) -> list[keras.layers.Layer]:
    """The layers that both networks have, apart from inputs."""
    layers = {id(layer) for layer in first.layers if not isinstance(layer, keras.layers.InputLayer)}
    return [layer for layer in second.layers if id(layer) in layers]


def require_whole_layers(first: keras.Model, second: keras.Model, *, name: str = "towers") -> None:
    """Raise a ValueError for shared weights that do not belong to shared layers; `name` names the two networks."""
    shared = {id(variable) for layer in shared_layers(first, second) for variable in layer.variables}
    first_only = {id(variable) for variable in first.variables} - shared
    misplaced = [variable.path for variable in second.variables if id(variable) in first_only]
    expected = f"{name} that share whole layers. Use the same layer, or the same inner model, in both"
    require(not misplaced, f"{name} that share {misplaced[:1]} inside different layers", expected)


def sharing(first: keras.Model, second: keras.Model, names: list[str]) -> keras.Model:
    """The second network with the named layers of the first one instead of its own."""
    layers = {name: first.get_layer(name) for name in names}
    return keras.models.clone_model(second, clone_function=lambda layer: layers.get(layer.name, layer))


def fresh_inputs(model: keras.Model, name: str | None = None) -> Any:
    """New inputs of the shapes and types of a model's, with a name if there is one input."""
    name = name if len(model.inputs) == 1 else None
    return keras.tree.map_structure(lambda x: keras.Input(batch_shape=x.shape, dtype=x.dtype, name=name), model.input)
