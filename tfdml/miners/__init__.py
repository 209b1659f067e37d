"""Miners: functions `Pairs -> Pairs` that choose or weigh the pairs a loss sees."""

from tfdml.miners.valid_triplets import ValidTriplets, valid_triplets

__all__ = ["ValidTriplets", "valid_triplets"]
