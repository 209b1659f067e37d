"""Image sets looked through: copies, leaks, label suspects, outliers, and what to label; it deletes nothing."""

from tfdml.cleaning.augmented_copies import COPIES
from tfdml.cleaning.calibration import score_copies
from tfdml.cleaning.clean import clean
from tfdml.cleaning.copy_network import copy_network
from tfdml.cleaning.findings import write_report
from tfdml.cleaning.label_page import write_selection
from tfdml.cleaning.proposals import propose_labels
from tfdml.cleaning.selection import select

__all__ = [
    "COPIES",
    "clean",
    "copy_network",
    "propose_labels",
    "score_copies",
    "select",
    "write_report",
    "write_selection",
]


def __dir__():
    return __all__
