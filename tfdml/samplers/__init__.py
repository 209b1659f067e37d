"""Batch designs as streams of examples or of row numbers; each batch is a function of (seed, step)."""

from tfdml.samplers.base import Sampler
from tfdml.samplers.combined.mixed import MixedSampler
from tfdml.samplers.combined.two_sets import TwoSetSampler
from tfdml.samplers.episode import EpisodeSampler
from tfdml.samplers.group import GroupSampler
from tfdml.samplers.hierarchical import HierarchicalSampler
from tfdml.samplers.mining.hard_class import ClassCenters, HardClassSampler
from tfdml.samplers.mining.input_pairs import input_pairs
from tfdml.samplers.mining.listed import ListSampler
from tfdml.samplers.mining.mined import MinedPairs, MinedSampler
from tfdml.samplers.pair import PairSampler
from tfdml.samplers.pk import PKSampler
from tfdml.samplers.streams.adapters import grain_batches, torch_batches
from tfdml.samplers.uniform import UniformSampler

__all__ = [
    "ClassCenters",
    "EpisodeSampler",
    "GroupSampler",
    "HardClassSampler",
    "HierarchicalSampler",
    "ListSampler",
    "MinedPairs",
    "MinedSampler",
    "MixedSampler",
    "PKSampler",
    "PairSampler",
    "Sampler",
    "TwoSetSampler",
    "UniformSampler",
    "grain_batches",
    "input_pairs",
    "torch_batches",
]


def __dir__():
    return __all__
