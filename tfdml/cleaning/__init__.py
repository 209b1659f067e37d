"""Cleaning of image sets: near-duplicates, leaks, label suspects and outliers; nothing is deleted."""

from tfdml.cleaning.calibration import score_copies
from tfdml.cleaning.clean import clean
from tfdml.cleaning.findings import Finding, Findings, write_report
from tfdml.cleaning.made_copies import COPIES
from tfdml.cleaning.network import Centered, copy_network
from tfdml.cleaning.registration import register

__all__ = [
    "COPIES",
    "Centered",
    "Finding",
    "Findings",
    "clean",
    "copy_network",
    "register",
    "score_copies",
    "write_report",
]


def __dir__():
    return __all__
