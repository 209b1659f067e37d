"""Pure functions of arrays that measure embeddings."""

from tfdml.metrics.clustering import clustering, clustering_scores
from tfdml.metrics.confidence import bootstrap
from tfdml.metrics.few_shot import few_shot
from tfdml.metrics.quantization import binary_codes, binary_signs, compact_retrieval, int8_codes, int8_scales
from tfdml.metrics.reciprocal import KReciprocal
from tfdml.metrics.reidentification import random_gallery, reidentification
from tfdml.metrics.retrieval import retrieval, retrieval_from_neighbors
from tfdml.metrics.verification import (
    Roc,
    calibrated_threshold,
    pair_scores,
    roc,
    verification,
    verification_from_scores,
)

__all__ = [
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
    "int8_codes",
    "int8_scales",
    "pair_scores",
    "random_gallery",
    "reidentification",
    "retrieval",
    "retrieval_from_neighbors",
    "roc",
    "verification",
    "verification_from_scores",
]


def __dir__():
    return __all__
