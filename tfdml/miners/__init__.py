"""Miners: functions `Pairs -> Pairs` that choose or weigh the pairs a loss sees, and choosers of negatives."""

from tfdml.miners.negatives import (
    RandomNegatives,
    SemiHardNegatives,
    hardest_negatives,
    random_negatives,
    semi_hard_negatives,
)
from tfdml.miners.valid_triplets import ValidTriplets, valid_triplets

__all__ = [
    "RandomNegatives",
    "SemiHardNegatives",
    "ValidTriplets",
    "hardest_negatives",
    "random_negatives",
    "semi_hard_negatives",
    "valid_triplets",
]
