"""Pure functions of arrays that measure embeddings."""

from tfdml.metrics.calibration import ScoreCalibration, reliability, search_outcomes
from tfdml.metrics.classification import knn_accuracy, nearest_class_mean
from tfdml.metrics.clustering import clustering, clustering_scores
from tfdml.metrics.few_shot import few_shot
from tfdml.metrics.open_set import open_set
from tfdml.metrics.quantization import int8_codes, quantized_retrieval
from tfdml.metrics.reidentification import random_gallery, reidentification
from tfdml.metrics.reranking import KReciprocalReranking
from tfdml.metrics.retrieval.retrieval import retrieval
from tfdml.metrics.statistics.intervals import class_interval, seed_interval
from tfdml.metrics.statistics.per_class import per_class
from tfdml.metrics.statistics.tests import holm_correction, paired_comparison
from tfdml.metrics.verification import (
    calibrated_threshold,
    fold_accuracy,
    pair_scores,
    roc,
    threshold_rates,
    verification,
)

__all__ = [
    "KReciprocalReranking",
    "ScoreCalibration",
    "calibrated_threshold",
    "class_interval",
    "clustering",
    "clustering_scores",
    "few_shot",
    "fold_accuracy",
    "holm_correction",
    "int8_codes",
    "knn_accuracy",
    "nearest_class_mean",
    "open_set",
    "pair_scores",
    "paired_comparison",
    "per_class",
    "quantized_retrieval",
    "random_gallery",
    "reidentification",
    "reliability",
    "retrieval",
    "roc",
    "search_outcomes",
    "seed_interval",
    "threshold_rates",
    "verification",
]


def __dir__():
    return __all__
