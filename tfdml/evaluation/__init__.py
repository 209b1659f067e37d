"""Reports about a model and a set, and cross-validated comparisons: metrics put together."""

from tfdml.evaluation.cross_validation import CrossValidation, cross_validate
from tfdml.evaluation.folds import class_folds
from tfdml.evaluation.measurement import evaluate
from tfdml.evaluation.opening import TestResult
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
from tfdml.evaluation.trials import Trial

__all__ = [
    "Confusion",
    "CrossValidation",
    "Curve",
    "Evaluation",
    "Example",
    "HardQuery",
    "LabelSuspect",
    "Measured",
    "NearDuplicate",
    "Neighbor",
    "Similarities",
    "TestResult",
    "Trial",
    "class_folds",
    "cross_validate",
    "evaluate",
]


def __dir__():
    return __all__
