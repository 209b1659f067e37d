"""Work that outgrows a machine, on Ray: bulk embedding, indexes in shards, joins, evaluation and tuning."""

from tfdml.distributed.cross_validation import cross_validate
from tfdml.distributed.embedding import embed
from tfdml.distributed.indexing import SearchActors, build_index
from tfdml.distributed.joining import join
from tfdml.distributed.retrieval import retrieval, search_shards

__all__ = [
    "SearchActors",
    "build_index",
    "cross_validate",
    "embed",
    "join",
    "retrieval",
    "search_shards",
]


def __dir__():
    return __all__
