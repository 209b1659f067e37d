"""Pictures of embeddings: grids, two-dimensional maps, shares of similarity, TensorBoard, animations, thumbnails."""

from tfdml.visualize.grids import retrieval_grid
from tfdml.visualize.maps import embedding_map
from tfdml.visualize.movies import animation
from tfdml.visualize.projector_files import projector
from tfdml.visualize.similarity import similarity_map
from tfdml.visualize.thumbnails import Thumbnails, write_thumbnails

__all__ = [
    "Thumbnails",
    "animation",
    "embedding_map",
    "projector",
    "retrieval_grid",
    "similarity_map",
    "write_thumbnails",
]


def __dir__():
    return __all__
