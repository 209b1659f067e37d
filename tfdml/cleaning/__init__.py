"""Cleaning of image sets: near-duplicates, leaks, label suspects and outliers; nothing is deleted."""

from tfdml.cleaning.calibration import Calibration, Recall, calibrate
from tfdml.cleaning.clean import clean
from tfdml.cleaning.copy_scores import CopyScores, score_copies
from tfdml.cleaning.findings import Finding, Findings, write_report
from tfdml.cleaning.made_copies import COPIES
from tfdml.cleaning.network import Centered, copy_network
from tfdml.cleaning.registration import Registration, Thumbnail, register, thumbnail

__all__ = [
    "COPIES",
    "Calibration",
    "Centered",
    "CopyScores",
    "Finding",
    "Findings",
    "Recall",
    "Registration",
    "Thumbnail",
    "calibrate",
    "clean",
    "copy_network",
    "register",
    "score_copies",
    "thumbnail",
    "write_report",
]


def __dir__():
    return __all__
