"""Pure functions of arrays that measure embeddings."""

from tfdml.metrics.clustering import clustering, clustering_scores
from tfdml.metrics.few_shot import few_shot
from tfdml.metrics.quantization import binary_codes, binary_signs, compact_retrieval, int8_codes, int8_scales
from tfdml.metrics.reidentification import random_gallery, reidentification
from tfdml.metrics.reranking import KReciprocal
from tfdml.metrics.retrieval.match import shared_labels, shared_levels
from tfdml.metrics.retrieval.retrieval import retrieval, retrieval_from_neighbors
from tfdml.metrics.statistics.comparison import Comparison, holm, paired_comparison
from tfdml.metrics.statistics.confidence import bootstrap, seed_interval
from tfdml.metrics.statistics.per_class import per_class
from tfdml.metrics.verification import (
    Roc,
    calibrated_threshold,
    pair_scores,
    roc,
    verification,
    verification_from_scores,
)

__all__ = [
    "Comparison",
    "KReciprocal",
    "Roc",
    "binary_codes",
    "binary_signs",
    "bootstrap",
    "calibrated_threshold",
    "clustering",
    "clustering_scores",
    "compact_retrieval",
    "few_shot",
    "holm",
    "int8_codes",
    "int8_scales",
    "pair_scores",
    "paired_comparison",
    "per_class",
    "random_gallery",
    "reidentification",
    "retrieval",
    "retrieval_from_neighbors",
    "roc",
    "seed_interval",
    "shared_labels",
    "shared_levels",
    "verification",
    "verification_from_scores",
]


def __dir__():
    return __all__
