"""Nearest neighbors: exact, in memory and from disk, and approximate with ScaNN, faiss and LanceDB."""

from tfdml.search.approximate.faiss import Faiss
from tfdml.search.approximate.lance import Lance
from tfdml.search.approximate.recall import neighbor_recall
from tfdml.search.approximate.scann import Scann
from tfdml.search.duplicates.groups import near_duplicates
from tfdml.search.duplicates.pairs import pair_groups, similar_pairs
from tfdml.search.exact import Exact
from tfdml.search.hard_pairs import FalseNegativeGuard, hardest_pairs, hardest_triplets
from tfdml.search.index.loading import load
from tfdml.search.on_disk.search import search_on_disk
from tfdml.search.refinement.expansion import augment_database, expand_queries
from tfdml.search.refinement.hubs import neighborhood_similarity
from tfdml.search.refinement.late_interaction import maxsim
from tfdml.search.refinement.refine import refine
from tfdml.search.refinement.rerank import rerank
from tfdml.search.refinement.whitening import Whitening
from tfdml.search.upgrades.adapters import LinearAdapter, MLPAdapter
from tfdml.search.upgrades.migration import migrate
from tfdml.search.upgrades.upgrade import upgrade

__all__ = [
    "Exact",
    "Faiss",
    "FalseNegativeGuard",
    "Lance",
    "LinearAdapter",
    "MLPAdapter",
    "Scann",
    "Whitening",
    "augment_database",
    "expand_queries",
    "hardest_pairs",
    "hardest_triplets",
    "load",
    "maxsim",
    "migrate",
    "near_duplicates",
    "neighbor_recall",
    "neighborhood_similarity",
    "pair_groups",
    "refine",
    "rerank",
    "search_on_disk",
    "similar_pairs",
    "upgrade",
]


def __dir__():
    return __all__
