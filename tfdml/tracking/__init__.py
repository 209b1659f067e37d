"""Tracking of one object: crops, batches of pairs of frames, label maps, trackers, result files."""

from tfdml.tracking.crops import crop, crop_side
from tfdml.tracking.labels import score_labels
from tfdml.tracking.matchers import Matcher, SiameseMatcher, TemplateMatcher
from tfdml.tracking.results import read_results, write_results
from tfdml.tracking.sampler import ClipSampler
from tfdml.tracking.tracker import Tracker

__all__ = [
    "ClipSampler",
    "Matcher",
    "SiameseMatcher",
    "TemplateMatcher",
    "Tracker",
    "crop",
    "crop_side",
    "read_results",
    "score_labels",
    "write_results",
]


def __dir__():
    return __all__
