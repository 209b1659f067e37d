"""Keras callbacks: measure retrieval and pairs during training, export the best model, resume interrupted runs."""

from tfdml.callbacks.export_best import ExportBest
from tfdml.callbacks.pair_diagnostics import PairDiagnostics
from tfdml.callbacks.refresh_centers import RefreshCenters
from tfdml.callbacks.refresh_mined_pairs import RefreshMinedPairs
from tfdml.callbacks.retrieval_evaluation import RetrievalEvaluation
from tfdml.callbacks.training_checkpoint import TrainingCheckpoint

__all__ = [
    "ExportBest",
    "PairDiagnostics",
    "RefreshCenters",
    "RefreshMinedPairs",
    "RetrievalEvaluation",
    "TrainingCheckpoint",
]


def __dir__():
    return __all__
