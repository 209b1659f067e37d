"""Reports about a model and a set, and cross-validated comparisons: metrics put together."""

from tfdml.evaluation.measurement import evaluate
from tfdml.evaluation.records import (
    Confusion,
    Curve,
    Evaluation,
    Example,
    HardQuery,
    LabelSuspect,
    Measured,
    NearDuplicate,
    Neighbor,
    Similarities,
)

__all__ = [
    "Confusion",
    "Curve",
    "Evaluation",
    "Example",
    "HardQuery",
    "LabelSuspect",
    "Measured",
    "NearDuplicate",
    "Neighbor",
    "Similarities",
    "evaluate",
]


def __dir__():
    return __all__
