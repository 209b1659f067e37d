"""Depth of layers: steps from the input to the output of a network, and freezing up to a step."""

import re
from collections.abc import Iterator

import keras
from keras import layers

from tfdml._core.checks import require

_BLOCK = re.compile(r"(.*(?:block|layer|inception)s?[._]?\d+[a-z]?)(?:[._]|$)")
_NORMALIZATIONS = (layers.BatchNormalization, layers.LayerNormalization, layers.GroupNormalization)


def freeze(model: keras.Model, until: str | float = 1.0) -> None:
    """Freeze the first layers of a network: training does not change their weights and averages.

    Depth counts steps. A step is a block, whose layers share a name up to its number, as in `keras.applications`,
    KerasHub and tfdml ("block1a_expand_conv", "transformer_block_1", "blocks_0_depthwise_conv"), or any other layer
    with weights. A normalization outside of blocks belongs to the layer before it.

    Compile the model afterwards. Files of the model keep the freezing. `unfreeze` ends it.

    See also: `layerwise_decay` for slow first layers; `add_lora` for updates of low rank.

    Example:

        >>> layers = [keras.layers.Dense(2, name=name) for name in ("first", "second", "third")]
        >>> network = keras.Sequential([keras.Input((2,)), *layers])
        >>> tfdml.networks.freeze(network, until="second")
        >>> [layer.trainable for layer in layers]
        [False, False, True]

    Args:
        model: any model as a whole, but of an `EmbeddingModel` of `from_backbone` the layer "backbone".
        until: the last frozen block or layer, by name, or the fraction of the steps to freeze, in [0, 1].
    """
    steps = steps_by_depth(backbone_of(model))
    for step in list(steps.values())[: _number_of_steps(steps, until)]:
        for layer in step:
            layer.trainable = False


def unfreeze(model: keras.Model) -> None:
    """Train all layers of a network again, also those that `freeze_batch_norm=True` or `add_lora` has frozen.

    The kernels below LoRA stay frozen. Compile the model afterwards. (On TensorFlow, `network.trainable = True` does
    nothing where it is True already, whatever layers inside are frozen.)

    Example:

        >>> layers = [keras.layers.Dense(2), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
        >>> network = keras.Sequential([keras.Input((2,)), *layers])
        >>> tfdml.networks.freeze(network)
        >>> tfdml.networks.unfreeze(network)
        >>> [layer.trainable for layer in layers]
        [True, True, True]
    """
    network = backbone_of(model)
    for layer in [network, *inner_layers(network)]:
        layer.trainable = True
        set_own_trainable(layer, True)


def set_own_trainable(layer: keras.layers.Layer, trainable: bool) -> None:
    """Train or freeze the variables of a layer, but not of its inner layers."""
    for variable in layer._trainable_variables:
        variable.trainable = trainable


def _number_of_steps(steps, until):
    """The number of steps up to a name, or in a fraction."""
    if not isinstance(until, str):
        require(0 <= until <= 1, f"until={until!r}", "a fraction in [0, 1] or the name of a layer")
        return round(until * len(steps))
    ends = [end for end, (name, step) in enumerate(steps.items(), 1) if until in (name, *(each.name for each in step))]
    require(bool(ends), f"until={until!r}", f"a name among {', '.join(steps)}")
    return ends[-1]


def backbone_of(model: keras.Model) -> keras.Model:
    """The layer "backbone" of a model, or the model itself where there is none."""
    return next((layer for layer in model.layers if layer.name == "backbone" and hasattr(layer, "layers")), model)


def inner_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """All layers of a network, also nested, without itself and the layers of a loss; shared layers are there twice."""
    return [inner for layer in model.layers for inner in layer._flatten_layers()]


def steps_by_depth(model: keras.Model) -> dict[str, list[keras.layers.Layer]]:
    """The layers with weights, from the input to the output, by the name of their step (see `freeze`)."""
    steps: dict[str, list[keras.layers.Layer]] = {}
    name = None
    for layer in _weighted(model):
        block = _BLOCK.match(layer.name)
        if block or name is None or not isinstance(layer, _NORMALIZATIONS):
            name = block[1] if block else layer.name
        steps.setdefault(name, []).append(layer)
    return steps


def _weighted(model: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """Layers with weights in order; a layer that is a block, or has weights beside its inner layers, is one."""
    for layer in model.layers if isinstance(model, keras.Model) else model._layers:
        inside = {id(weight) for inner in layer._layers for weight in inner.weights}
        if _BLOCK.match(layer.name) or any(id(weight) not in inside for weight in layer.weights):
            yield from [layer] if layer.weights else []
        else:
            yield from _weighted(layer)
