"""Trained models in folders that prove themselves: list, load, verify, evaluate and save them."""

from tfdml.zoo.card import Card
from tfdml.zoo.entries import card, load, verify
from tfdml.zoo.index import Listing, list, write_table
from tfdml.zoo.publishing import save
from tfdml.zoo.reproduction import Reproduction, evaluate

__all__ = ["Card", "Listing", "Reproduction", "card", "evaluate", "list", "load", "save", "verify", "write_table"]


def __dir__():
    return __all__
