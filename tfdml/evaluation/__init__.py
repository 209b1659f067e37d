"""Reports on models and their comparison, drift of searches, and cross-validation with a test that is opened once."""

from tfdml.evaluation.compare import compare
from tfdml.evaluation.drift import drift
from tfdml.evaluation.evaluator import EmbeddingEvaluator
from tfdml.evaluation.measure import evaluate
from tfdml.evaluation.protocol.cross_validation import CrossValidation, cross_validate
from tfdml.evaluation.protocol.folds import class_folds
from tfdml.evaluation.record import Evaluation
from tfdml.evaluation.runs import compare_runs, compare_scores

__all__ = [
    "CrossValidation",
    "EmbeddingEvaluator",
    "Evaluation",
    "class_folds",
    "compare",
    "compare_runs",
    "compare_scores",
    "cross_validate",
    "drift",
    "evaluate",
]


def __dir__():
    return __all__
