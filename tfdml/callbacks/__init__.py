"""Keras callbacks: measure and show embeddings during training, export the best model, resume interrupted runs."""

from tfdml.callbacks.export_best import ExportBest
from tfdml.callbacks.pair_diagnostics import PairDiagnostics
from tfdml.callbacks.refresh import RefreshCenters, RefreshMinedPairs
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
