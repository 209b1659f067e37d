"""Keras layers that a loss holds: its learned weights and its state; and a linear metric, the layer of a model."""

from tfdml.layers.boundaries import Boundaries
from tfdml.layers.class_tree import ClassTree
from tfdml.layers.fixed_references import FixedReferences
from tfdml.layers.learned_scalar import LearnedScalar
from tfdml.layers.mahalanobis import Mahalanobis
from tfdml.layers.memory import Memory
from tfdml.layers.position_dependent import PositionDependentMetric
from tfdml.layers.proxies import Proxies
from tfdml.layers.regressors import Regressors
from tfdml.layers.scheduled_option import ScheduledOption

__all__ = [
    "Boundaries",
    "ClassTree",
    "FixedReferences",
    "LearnedScalar",
    "Mahalanobis",
    "Memory",
    "PositionDependentMetric",
    "Proxies",
    "Regressors",
    "ScheduledOption",
]


def __dir__() -> list[str]:
    return __all__
