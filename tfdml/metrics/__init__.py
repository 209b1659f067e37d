"""Pure functions of arrays that measure embeddings."""

from tfdml.metrics.classes import per_class
from tfdml.metrics.comparison import Comparison, holm, paired_comparison
from tfdml.metrics.confidence import bootstrap, seed_interval
from tfdml.metrics.match import shared_labels, shared_levels
from tfdml.metrics.quantization import binary_codes, binary_signs, compact_retrieval, int8_codes, int8_scales
from tfdml.metrics.retrieval import retrieval, retrieval_from_neighbors

__all__ = [
    "Comparison",
    "binary_codes",
    "binary_signs",
    "bootstrap",
    "compact_retrieval",
    "holm",
    "int8_codes",
    "int8_scales",
    "paired_comparison",
    "per_class",
    "retrieval",
    "retrieval_from_neighbors",
    "seed_interval",
    "shared_labels",
    "shared_levels",
]


def __dir__():
    return __all__
