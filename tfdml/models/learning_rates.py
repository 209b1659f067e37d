"""Learning rates, and weight decay, for some variables of a model; a Keras optimizer has one for all variables."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras

from tfdml._core.checks import require_fraction
from tfdml.networks.depth import steps_by_depth


def layerwise_decay(model: keras.Model, decay: float = 0.75) -> dict[str, float]:
    """Multipliers of learning rates that fall with the distance from the output, for `EmbeddingModel.compile`.

    `decay ** n` for a layer n steps below the last one, which has 1. A step is a block of a network or another layer
    with weights, as in `tfdml.networks.freeze`: 16 blocks, a stem and a top in "EfficientNetLite0".

    Example:

        >>> x = inputs = keras.Input((2,))
        >>> for name in ("first", "second", "third"):
        ...     x = keras.layers.Dense(2, name=name)(x)
        >>> model = tfdml.models.EmbeddingModel(inputs, x)
        >>> multipliers = tfdml.models.layerwise_decay(model, 0.5)
        >>> multipliers
        {'third': 1.0, 'second': 0.5, 'first': 0.25}

    Args:
        model: a model, such as one of `from_backbone`; its head counts as its last steps. Layers of a loss are left
            out and keep the learning rate of the optimizer.
        decay: factor from a step to the one below it, in (0, 1].

    Source: Clark et al., ELECTRA, ICLR 2020; Bao et al., BEiT, ICLR 2022, where a step is a transformer layer.
    """
    require_fraction(decay=decay)
    steps = list(steps_by_depth(model).values())
    return {layer.name: decay**below for below, step in enumerate(reversed(steps)) for layer in step}


def multipliers_of(layers: Iterable[keras.layers.Layer], multipliers: Mapping[str, float]) -> dict[int, float]:
    """The multiplier of each trainable variable, by its id; one of an inner layer replaces its outer layer's."""
    layers = list(layers)
    names = {layer.name for layer in layers}
    for name, multiplier in multipliers.items():
        if name not in names:
            raise ValueError(
                f"Received learning_rate_multipliers for {name!r}, expected names of layers among "
                f"{', '.join(sorted(names))}."
            )
        if not multiplier >= 0:
            raise ValueError(f"Received learning_rate_multipliers with {name}={multiplier}, expected 0 or more.")
    named = [layer for layer in layers if layer.name in multipliers]
    outer_first = sorted(named, key=lambda layer: -len(layer.trainable_variables))
    return {id(variable): multipliers[layer.name] for layer in outer_first for variable in layer.trainable_variables}


def scale_updates(optimizer: Any, multiplier: Callable[[int], float]) -> None:
    """Let an optimizer multiply the learning rate of each variable by `multiplier` of its number in the optimizer."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if hasattr(inner, "_parallel_update_step"):  # on PyTorch, for all variables together
        inner._parallel_update_step = _scaled_together(inner, multiplier)
    update_step = type(inner).update_step

    def scaled(gradient, variable, learning_rate):
        factor = multiplier(inner._get_variable_index(variable))
        if factor:  # FTRL divides by the learning rate
            update_step(inner, gradient, variable, factor * learning_rate)

    inner.update_step = scaled


def exclude_from_decay(optimizer: Any, variables: Iterable[Any]) -> None:
    """Leave variables out of the weight decay of an optimizer, beside those that it leaves out already."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    excluded = {*map(inner._var_key, variables)}  # `exclude_from_weight_decay` would forget what a user has excluded
    has_decay = type(inner)._use_weight_decay
    inner._use_weight_decay = lambda variable: inner._var_key(variable) not in excluded and has_decay(inner, variable)


def _scaled_together(optimizer, multiplier):
    """The update of an optimizer on PyTorch: one per multiplier, of the variables that have it."""
    update_together = type(optimizer)._parallel_update_step

    def scaled(gradients, variables, learning_rate):
        factors = [multiplier(optimizer._get_variable_index(variable)) for variable in variables]
        product = getattr(optimizer, "_u_product", None)  # which Nadam changes in every update
        before = None if product is None else keras.ops.copy(product)
        for factor in {*factors} - {0.0}:
            if product is not None:
                product.assign(before)
            steps = [step for step in zip(gradients, variables, factors, strict=True) if step[2] == factor]
            update_together(optimizer, *map(list, list(zip(*steps, strict=True))[:2]), factor * learning_rate)

    return scaled
