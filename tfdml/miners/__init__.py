"""Miners: functions `Pairs -> Pairs` that select or reweight the pairs of a loss; and selectors of negatives."""

from tfdml.miners.adaptive import AdaptiveNegatives
from tfdml.miners.balanced import BalancedPairs, UniformHistogram
from tfdml.miners.bands import PairMargin, SemiHard, pair_margin, semi_hard
from tfdml.miners.composition import Composition, compose
from tfdml.miners.distance_weighted import (
    DistanceWeighted,
    DistanceWeightedNegatives,
    inverse_density,
    log_sphere_density,
)
from tfdml.miners.hardest import (
    EasyPositives,
    HardestNegatives,
    HardestNegativesOfBatch,
    HardestPositives,
    ModeratePositives,
    easy_positives,
    hardest_negatives_of_batch,
    hardest_negatives_per_positive,
    hardest_positives,
    moderate_positives,
)
from tfdml.miners.negatives import (
    RandomNegatives,
    SemiHardNegatives,
    hardest_negatives,
    random_negatives,
    semi_hard_negatives,
)
from tfdml.miners.target_neighbors import TargetNeighbors
from tfdml.miners.triplets import (
    Angular,
    TripletViolations,
    ValidTriplets,
    angular,
    triplet_violations,
    valid_triplets,
)

__all__ = [
    "AdaptiveNegatives",
    "Angular",
    "BalancedPairs",
    "Composition",
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
    "angular",
    "compose",
    "easy_positives",
    "hardest_negatives",
    "hardest_negatives_of_batch",
    "hardest_negatives_per_positive",
    "hardest_positives",
    "inverse_density",
    "log_sphere_density",
    "moderate_positives",
    "pair_margin",
    "random_negatives",
    "semi_hard",
    "semi_hard_negatives",
    "triplet_violations",
    "valid_triplets",
]


def __dir__():
    return __all__
