"""`EmbeddingModel`, and small networks to put into it."""

from tfdml.models.backbones import plain, residual
from tfdml.models.bulk_embedding import embed
from tfdml.models.embedding_model import EmbeddingModel
from tfdml.models.embedding_network import embedding
from tfdml.models.pooling import GeM

__all__ = ["EmbeddingModel", "GeM", "embed", "embedding", "plain", "residual"]


def __dir__():
    return __all__
