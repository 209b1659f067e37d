"""Pure functions of arrays that measure embeddings."""

from tfdml.metrics.confidence import bootstrap
from tfdml.metrics.quantization import binary_codes, binary_signs, compact_retrieval, int8_codes, int8_scales
from tfdml.metrics.retrieval import retrieval, retrieval_from_neighbors

__all__ = [
    "binary_codes",
    "binary_signs",
    "bootstrap",
    "compact_retrieval",
    "int8_codes",
    "int8_scales",
    "retrieval",
    "retrieval_from_neighbors",
]


def __dir__():
    return __all__
