"""Reports about a model and a set, and cross-validated search: metrics put together."""

from tfdml.evaluation.cross_validation import CrossValidation, cross_validate
from tfdml.evaluation.folds import class_folds
from tfdml.evaluation.measurement import evaluate
from tfdml.evaluation.opening import TestResult
from tfdml.evaluation.records import Evaluation

__all__ = ["CrossValidation", "Evaluation", "TestResult", "class_folds", "cross_validate", "evaluate"]


def __dir__():
    return __all__
