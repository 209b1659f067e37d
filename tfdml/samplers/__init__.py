"""Batch designs as `tf.data` streams: row numbers first, examples second, every batch a function of (seed, step)."""

from tfdml.samplers.base import Sampler
from tfdml.samplers.episode import EpisodeSampler
from tfdml.samplers.group import GroupSampler
from tfdml.samplers.hard_class import ClassCentres, HardClassSampler
from tfdml.samplers.hierarchical import HierarchicalSampler
from tfdml.samplers.mined import HardNeighbours, MinedSampler
from tfdml.samplers.mixed import MixedSampler
from tfdml.samplers.pair import PairSampler
from tfdml.samplers.pk import PKSampler
from tfdml.samplers.uniform import UniformSampler

__all__ = [
    "ClassCentres",
    "EpisodeSampler",
    "GroupSampler",
    "HardClassSampler",
    "HardNeighbours",
    "HierarchicalSampler",
    "MinedSampler",
    "MixedSampler",
    "PKSampler",
    "PairSampler",
    "Sampler",
    "UniformSampler",
]


def __dir__():
    return __all__
