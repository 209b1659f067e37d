"""Trained models with cards, checksums and reproducible metrics."""

from tfdml.zoo.card import Card
from tfdml.zoo.entries import card, check, load
from tfdml.zoo.huggingface import pull, push
from tfdml.zoo.index import Listing, list_models, write_table
from tfdml.zoo.publishing import save
from tfdml.zoo.reproduction import Reproduction, evaluate

__all__ = [
    "Card",
    "Listing",
    "Reproduction",
    "card",
    "check",
    "evaluate",
    "list_models",
    "load",
    "pull",
    "push",
    "save",
    "write_table",
]


def __dir__():
    return __all__
