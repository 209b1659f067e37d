"""Keras layers that a loss holds: its learned weights and its state; and a linear metric, the layer of a model."""

from tfdml.layers.boundaries import Boundaries
from tfdml.layers.class_tree import ClassTree
from tfdml.layers.fixed_references import FixedReferences
from tfdml.layers.learned_number import LearnedNumber
from tfdml.layers.mahalanobis import Mahalanobis
from tfdml.layers.memory import Memory
from tfdml.layers.position_dependent import PositionDependentMetric
from tfdml.layers.proxies import Proxies
from tfdml.layers.regressors import Regressors
from tfdml.layers.scheduled import Scheduled

__all__ = [
    "Boundaries",
    "ClassTree",
    "FixedReferences",
    "LearnedNumber",
    "Mahalanobis",
    "Memory",
    "PositionDependentMetric",
    "Proxies",
    "Regressors",
    "Scheduled",
]


def __dir__() -> list[str]:
    return __all__
