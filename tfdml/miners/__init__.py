"""Miners: functions `Pairs -> Pairs` that select or reweight the pairs of a loss; and selectors of negatives.

The pairs that a miner drops have weight 0 afterwards. No gradient flows through the selection. The option `distance` is
"euclidean", "squared", "cosine" (1 - s), "snr", or a function of `Pairs`. `EmbeddingModel` saves the state of random
draws; their `seed` is an integer, or None for a random one.
"""

from tfdml.miners.balanced import BalancedPairs, UniformHistogram
from tfdml.miners.bands import PairMargin, SemiHard
from tfdml.miners.composition import compose
from tfdml.miners.distance_weighted import DistanceWeighted, log_sphere_density
from tfdml.miners.hardest import (
    EasyPositives,
    HardestNegatives,
    HardestNegativesOfBatch,
    HardestPositives,
    ModeratePositives,
)
from tfdml.miners.selectors import (
    DistanceWeightedNegatives,
    RandomNegatives,
    SemiHardNegatives,
    hardest_negatives,
    semi_hard_negatives,
)
from tfdml.miners.target_neighbors import TargetNeighbors
from tfdml.miners.triplets import Angular, TripletViolations, ValidTriplets

__all__ = [
    "Angular",
    "BalancedPairs",
    "DistanceWeighted",
    "DistanceWeightedNegatives",
    "EasyPositives",
    "HardestNegatives",
    "HardestNegativesOfBatch",
    "HardestPositives",
    "ModeratePositives",
    "PairMargin",
    "RandomNegatives",
    "SemiHard",
    "SemiHardNegatives",
    "TargetNeighbors",
    "TripletViolations",
    "UniformHistogram",
    "ValidTriplets",
    "compose",
    "hardest_negatives",
    "log_sphere_density",
    "semi_hard_negatives",
]


def __dir__():
    return __all__
