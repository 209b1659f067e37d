"""Learning rates of their own for some layers of a model; a Keras optimizer has one for all variables."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras


def multipliers_of(layers: Iterable[keras.layers.Layer], multipliers: Mapping[str, float]) -> dict[int, float]:
    """The multiplier of each trainable variable, by its id, for multipliers by layer name.

    A layer inside another one counts for itself: its own multiplier replaces the multiplier of the outer layer. A name
    that several layers have, as in two towers, stands for all of them.

    Raises:
        ValueError: a name that no layer has, or a multiplier below 0.
    """
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
    """Let an optimizer multiply the learning rate of each variable; `multiplier` takes the number of the variable.

    The number is the place among the variables that the optimizer was built with. Decoupled weight decay is not scaled.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    update_step = type(inner).update_step

    def scaled(gradient, variable, learning_rate):
        factor = multiplier(inner._get_variable_index(variable))
        if factor:  # FTRL divides by the learning rate
            update_step(inner, gradient, variable, factor * learning_rate)

    inner.update_step = scaled
