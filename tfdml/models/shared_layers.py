"""Layers that two networks of one model have in common: which they are, and how a loaded model shares them again."""

from typing import Any

import keras

from tfdml._core.checks import require


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
