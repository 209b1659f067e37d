"""Miners: functions `Pairs -> Pairs` that select or reweight the pairs of a loss; and selectors of negatives.

`tfdml.miners.offline` mines a whole training set instead of a batch. It needs `tfdml.search`, so it is imported on
first use.
"""

import importlib

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
    HardestPositives,
    easy_positives,
    hardest_negatives_per_positive,
    hardest_positives,
)
from tfdml.miners.negatives import (
    RandomNegatives,
    SemiHardNegatives,
    hardest_negatives,
    random_negatives,
    semi_hard_negatives,
)
from tfdml.miners.triplets import (
    Angular,
    TripletViolations,
    ValidTriplets,
    angular,
    triplet_violations,
    valid_triplets,
)

__all__ = [
    "Angular",
    "BalancedPairs",
    "Composition",
    "DistanceWeighted",
    "DistanceWeightedNegatives",
    "EasyPositives",
    "HardestNegatives",
    "HardestPositives",
    "PairMargin",
    "RandomNegatives",
    "SemiHard",
    "SemiHardNegatives",
    "TripletViolations",
    "UniformHistogram",
    "ValidTriplets",
    "angular",
    "compose",
    "easy_positives",
    "hardest_negatives",
    "hardest_negatives_per_positive",
    "hardest_positives",
    "inverse_density",
    "log_sphere_density",
    "pair_margin",
    "random_negatives",
    "semi_hard",
    "semi_hard_negatives",
    "triplet_violations",
    "valid_triplets",
]


def __getattr__(name):
    if name == "offline":
        return importlib.import_module("tfdml.miners.offline")
    raise AttributeError(f"module 'tfdml.miners' has no attribute {name!r}; it has offline, {', '.join(__all__)}.")


def __dir__():
    return ["offline", *__all__]
