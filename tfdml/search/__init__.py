"""Nearest neighbors: exact, in memory and from disk, and approximate with ScaNN and faiss."""

from typing import Any

from tfdml._core.atomic import read_whole
from tfdml._core.checks import require
from tfdml._core.checksums import require_same_model
from tfdml.search.approximate.faiss import Faiss
from tfdml.search.approximate.scann import Scann
from tfdml.search.duplicates.groups import near_duplicates
from tfdml.search.duplicates.pairs import pair_groups, similar_pairs
from tfdml.search.exact import Exact
from tfdml.search.hard_pairs import FalseNegativeGuard, hardest_pairs, hardest_triplets
from tfdml.search.index import shards
from tfdml.search.index.files import read_manifest
from tfdml.search.on_disk.search import search_on_disk
from tfdml.search.recall import neighbor_recall
from tfdml.search.refinement.adapters import LinearAdapter, MLPAdapter
from tfdml.search.refinement.expansion import augment_database, expand_queries
from tfdml.search.refinement.hubs import neighborhood_similarity
from tfdml.search.refinement.rerank import rerank
from tfdml.search.refinement.upgrade import upgrade
from tfdml.search.refinement.whitening import Whitening
from tfdml.typing import FilePath

__all__ = [
    "Exact",
    "Faiss",
    "FalseNegativeGuard",
    "LinearAdapter",
    "MLPAdapter",
    "Scann",
    "Whitening",
    "augment_database",
    "expand_queries",
    "hardest_pairs",
    "hardest_triplets",
    "load",
    "near_duplicates",
    "neighbor_recall",
    "neighborhood_similarity",
    "pair_groups",
    "rerank",
    "search_on_disk",
    "similar_pairs",
    "upgrade",
]


def load(path: FilePath, *, model: Any = None, other_model: bool = False) -> Exact | Scann | Faiss:
    """Read an index that `Exact.save`, `Scann.save` or `Faiss.save` wrote, as the class that wrote it.

    Every file is compared with its checksum, and vectors are memory-mapped. The shards of
    `tfdml.distributed.build_index` are read as one index of their class, whose ids follow each other. While another
    process saves to the folder, the result is either the old or the new index.

    Example:

        >>> index = tfdml.search.Exact([[1.0, 0.0], [0.0, 1.0]], ids=["left", "right"])
        >>> index.save("products")
        >>> tfdml.search.load("products").search([[0.0, 2.0]], k=1)[0].tolist()
        [['right']]

    Args:
        path: folder of the index.
        model: the model of later queries: a Keras model, a model of `tfdml.export.load`, or a
            `tfdml.models.fingerprint`; None: not stated, and not compared.
        other_model: whether an index of another model is loaded.

    Raises:
        ValueError: the index or a shard, by name, lacks files or is damaged; an index of another model.
    """
    index = read_whole(path, _load)
    require_same_model("queries", model, f"the index in {str(path)!r}", index.fingerprint, other_model=other_model)
    return index


def _load(folder):
    if (folder / shards.MANIFEST).is_file():
        return shards.read_shards(folder, _load)
    classes: dict[str, type[Exact] | type[Scann] | type[Faiss]] = {"exact": Exact, "scann": Scann, "faiss": Faiss}
    kind = read_manifest(folder)["kind"]
    require(kind in classes, f"an index of kind {kind!r}", f"one of {', '.join(map(repr, classes))}")
    return classes[kind].read(folder)


def __dir__():
    return __all__
