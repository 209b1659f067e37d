"""Pairs: anchors compared with references, and how near they are.

A batch of labels and embeddings becomes one `Pairs`; miners and importance weights change its weights; losses read it.
Everything here is `keras.ops` on fixed shapes, so that it compiles under XLA on every Keras backend.
"""

from tfdml.pairs.base import Pairs
from tfdml.pairs.distances import (
    DISTANCES,
    cosine,
    cosine_distance,
    distance_function,
    dot,
    euclidean,
    normalized,
    squared,
)
from tfdml.pairs.pairings import all_pairs, consecutive_pairs, even_against_odd, pairs_with

__all__ = [
    "DISTANCES",
    "Pairs",
    "all_pairs",
    "consecutive_pairs",
    "cosine",
    "cosine_distance",
    "distance_function",
    "dot",
    "euclidean",
    "even_against_odd",
    "normalized",
    "pairs_with",
    "squared",
]


def __dir__() -> list[str]:
    return __all__
