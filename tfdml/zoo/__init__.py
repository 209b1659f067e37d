"""Trained models in folders that prove themselves: list, load, verify, evaluate and save them."""

from tfdml.zoo.card import Card
from tfdml.zoo.evaluating import Reproduction, evaluate
from tfdml.zoo.listing import Listing, list, write_table
from tfdml.zoo.loading import card, load, verify
from tfdml.zoo.saving import save

__all__ = ["Card", "Listing", "Reproduction", "card", "evaluate", "list", "load", "save", "verify", "write_table"]


def __dir__():
    return __all__
