"""Reports on a model, comparisons, drift of searches, and cross-validation with a test that is opened once."""

from tfdml.evaluation.comparison.embeddings import compare
from tfdml.evaluation.comparison.evaluator import EmbeddingEvaluator
from tfdml.evaluation.comparison.runs import compare_runs, compare_scores
from tfdml.evaluation.drift import drift
from tfdml.evaluation.protocol.cross_validation import CrossValidation, cross_validate
from tfdml.evaluation.protocol.folds import class_folds
from tfdml.evaluation.report.measurement import evaluate
from tfdml.evaluation.report.records import Evaluation

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
