"""Losses: pure functions of `Pairs` that return one value per anchor, and the Keras losses over them."""

from tfdml.losses.base import PairLoss
from tfdml.losses.contrastive import ContrastiveLoss, contrastive
from tfdml.losses.multi_similarity import MultiSimilarityLoss, multi_similarity
from tfdml.losses.triplet import BatchHardTripletLoss, batch_hard_triplet

__all__ = [
    "BatchHardTripletLoss",
    "ContrastiveLoss",
    "MultiSimilarityLoss",
    "PairLoss",
    "batch_hard_triplet",
    "contrastive",
    "multi_similarity",
]
