"""Pictures of embeddings: retrieval grids, two-dimensional maps, TensorBoard's projector, animations, thumbnails."""

from tfdml.visualize.grids import retrieval_grid
from tfdml.visualize.maps import embedding_map
from tfdml.visualize.movies import animation
from tfdml.visualize.projector_files import projector
from tfdml.visualize.thumbnails import Thumbnails, write_thumbnails

__all__ = [
    "Thumbnails",
    "animation",
    "embedding_map",
    "projector",
    "retrieval_grid",
    "write_thumbnails",
]


def __dir__():
    return __all__
