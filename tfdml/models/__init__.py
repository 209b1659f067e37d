"""`EmbeddingModel`, and networks to put into it."""

from tfdml.models.backbones import plain, residual
from tfdml.models.bulk_embedding import embed
from tfdml.models.embedding_files import Embeddings, read_embeddings
from tfdml.models.embedding_model import EmbeddingModel
from tfdml.models.embedding_network import embedding
from tfdml.models.embedding_to_disk import write_embeddings
from tfdml.models.ensembles import attention_branches, ensemble
from tfdml.models.inception import bn_inception
from tfdml.models.pooling import GeM
from tfdml.models.pytorch_weights import load_pytorch_weights
from tfdml.models.two_towers import TwoTowers

__all__ = [
    "EmbeddingModel",
    "Embeddings",
    "GeM",
    "TwoTowers",
    "attention_branches",
    "bn_inception",
    "embed",
    "embedding",
    "ensemble",
    "load_pytorch_weights",
    "plain",
    "read_embeddings",
    "residual",
    "write_embeddings",
]


def __dir__():
    return __all__
