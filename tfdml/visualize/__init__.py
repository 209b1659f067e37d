"""Pictures of embeddings: grids, two-dimensional maps, shares of similarity, reliability, thumbnails."""

from tfdml.visualize.grids import retrieval_grid
from tfdml.visualize.maps import embedding_map
from tfdml.visualize.reliability import reliability_diagram
from tfdml.visualize.similarity import similarity_map
from tfdml.visualize.thumbnails import Thumbnails, write_thumbnails

__all__ = [
    "Thumbnails",
    "embedding_map",
    "reliability_diagram",
    "retrieval_grid",
    "similarity_map",
    "write_thumbnails",
]


def __dir__():
    return __all__
