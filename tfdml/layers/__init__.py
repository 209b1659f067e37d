"""Keras layers that a loss holds, for what it learns or remembers."""

from tfdml.layers.boundaries import Boundaries

__all__ = ["Boundaries"]


def __dir__() -> list[str]:
    return __all__
