"""Keras callbacks: measure retrieval and pairs while a model trains, export the best, go on after an interruption."""

from tfdml.callbacks.checkpoint import Checkpoint
from tfdml.callbacks.export_best import ExportBest
from tfdml.callbacks.pair_diagnostics import PairDiagnostics
from tfdml.callbacks.refresh_centers import RefreshCenters
from tfdml.callbacks.refresh_mined_pairs import RefreshMinedPairs
from tfdml.callbacks.retrieval_evaluation import RetrievalEvaluation

__all__ = ["Checkpoint", "ExportBest", "PairDiagnostics", "RefreshCenters", "RefreshMinedPairs", "RetrievalEvaluation"]


def __dir__():
    return __all__
