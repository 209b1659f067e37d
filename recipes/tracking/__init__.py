"""Tracking of one object: clips, crops, batches of pairs of frames, the network, trackers, metrics."""

from recipes.tracking.animation import tracks
from recipes.tracking.crops import crop, crop_side
from recipes.tracking.data.benchmarks import got10k, otb
from recipes.tracking.data.clip import Clip
from recipes.tracking.data.moving_pieces import clips
from recipes.tracking.matchers import Matcher, SiameseMatcher, TemplateMatcher
from recipes.tracking.overlap import evaluate
from recipes.tracking.sampler import ClipSampler, score_labels
from recipes.tracking.siam_fc import CrossCorrelation, siam_fc
from recipes.tracking.tracker import Tracker

__all__ = [
    "Clip",
    "ClipSampler",
    "CrossCorrelation",
    "Matcher",
    "SiameseMatcher",
    "TemplateMatcher",
    "Tracker",
    "clips",
    "crop",
    "crop_side",
    "evaluate",
    "got10k",
    "otb",
    "score_labels",
    "siam_fc",
    "tracks",
]
