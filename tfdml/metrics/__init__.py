"""Pure functions of arrays that measure embeddings."""

from tfdml.metrics.confidence import bootstrap
from tfdml.metrics.retrieval import retrieval, retrieval_from_neighbors

__all__ = ["bootstrap", "retrieval", "retrieval_from_neighbors"]


def __dir__():
    return __all__
