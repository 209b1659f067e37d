"""Embeddings of sets of any size, in memory and in files."""

from tfdml._core.checksums import fingerprint
from tfdml.embedding.files import Embeddings, read_embeddings
from tfdml.embedding.in_memory import embed
from tfdml.embedding.pair_scores import score_pairs
from tfdml.embedding.to_disk import write_embeddings

__all__ = ["Embeddings", "embed", "fingerprint", "read_embeddings", "score_pairs", "write_embeddings"]


def __dir__():
    return __all__
