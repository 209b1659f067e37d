"""Cleaning of image sets: near-duplicates, leaks, label suspects and outliers; it deletes nothing."""

from tfdml.cleaning.augmented_copies import COPIES
from tfdml.cleaning.calibration import score_copies
from tfdml.cleaning.clean import clean
from tfdml.cleaning.copy_network import copy_network
from tfdml.cleaning.findings import write_report

__all__ = [
    "COPIES",
    "clean",
    "copy_network",
    "score_copies",
    "write_report",
]


def __dir__():
    return __all__
