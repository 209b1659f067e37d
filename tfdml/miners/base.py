"""Base class of miners that compare distances."""

from dataclasses import dataclass

from tfdml._core.backends import ops
from tfdml._core.serialization import Settings
from tfdml.pairs import Pairs
from tfdml.pairs.base import Distance, Tensor
from tfdml.pairs.distances import distance_function


@dataclass(frozen=True, kw_only=True)
class ByDistance(Settings):
    """Base class: the option `distance`, "euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`."""

    in_blocks = True
    distance: Distance = "euclidean"

    def __post_init__(self):
        distance_function(self.distance)

    def distances(self, pairs: Pairs) -> Tensor:
        """The distances of pairs, `(A, R)`, without a gradient."""
        return ops.stop_gradient(distance_function(self.distance)(pairs))
