"""Reports on a model and a labeled set, and cross-validated search with a test that is opened once."""

from tfdml.evaluation.protocol.cross_validation import CrossValidation, cross_validate
from tfdml.evaluation.protocol.folds import class_folds
from tfdml.evaluation.report.measurement import evaluate
from tfdml.evaluation.report.records import Evaluation

__all__ = ["CrossValidation", "Evaluation", "class_folds", "cross_validate", "evaluate"]


def __dir__():
    return __all__
