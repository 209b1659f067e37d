"""Keras layers that a loss holds: its learned weights and its state."""

from tfdml.layers.boundaries import Boundaries
from tfdml.layers.memory import Memory
from tfdml.layers.proxies import Proxies

__all__ = ["Boundaries", "Memory", "Proxies"]


def __dir__() -> list[str]:
    return __all__
