"""Pairs of anchors and references, and their distances and similarities."""

from tfdml.pairs.base import Pairs
from tfdml.pairs.distances import cosine, dot, euclidean, normalized, snr, squared, two_way_euclidean
from tfdml.pairs.pairings import (
    all_pairs,
    consecutive_pairs,
    even_against_odd,
    labeled_pairs,
    pairs_with,
    triplet_rows,
    two_towers,
    two_views,
)
from tfdml.pairs.products import set_product_precision

__all__ = [
    "Pairs",
    "all_pairs",
    "consecutive_pairs",
    "cosine",
    "dot",
    "euclidean",
    "even_against_odd",
    "labeled_pairs",
    "normalized",
    "pairs_with",
    "set_product_precision",
    "snr",
    "squared",
    "triplet_rows",
    "two_towers",
    "two_views",
    "two_way_euclidean",
]


def __dir__() -> list[str]:
    return __all__
