"""`EmbeddingModel`, and networks to put into it."""

from tfdml._core.checksums import fingerprint
from tfdml.embedding.files import read_embeddings
from tfdml.embedding.in_memory import embed
from tfdml.embedding.pair_scores import score_pairs
from tfdml.embedding.texts import TextModel
from tfdml.embedding.to_disk import write_embeddings
from tfdml.embedding.tokenizer import Tokenizer
from tfdml.models.embedding_model import EmbeddingModel
from tfdml.models.from_backbone import from_backbone
from tfdml.models.learning_rates import layerwise_decay
from tfdml.models.pair_mining import PairMining
from tfdml.models.pair_model import PairModel
from tfdml.models.two_towers import TwoTowers
from tfdml.networks.backbones import plain_cnn, residual_cnn
from tfdml.networks.efficientnet_lite import efficientnet_lite
from tfdml.networks.ensembles import attention_branches, ensemble
from tfdml.networks.pooling import GeM
from tfdml.networks.pytorch_weights import load_pytorch_weights

__all__ = [
    "EmbeddingModel",
    "GeM",
    "PairMining",
    "PairModel",
    "TextModel",
    "Tokenizer",
    "TwoTowers",
    "attention_branches",
    "efficientnet_lite",
    "embed",
    "ensemble",
    "fingerprint",
    "from_backbone",
    "layerwise_decay",
    "load_pytorch_weights",
    "plain_cnn",
    "read_embeddings",
    "residual_cnn",
    "score_pairs",
    "write_embeddings",
]


def __dir__():
    return __all__
