"""Keras layers that a loss holds: its learned weights and its state."""

from tfdml.layers.boundaries import Boundaries

__all__ = ["Boundaries"]


def __dir__() -> list[str]:
    return __all__
