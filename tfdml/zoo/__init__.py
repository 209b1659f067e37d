"""Trained models with cards, checksums and reproducible metrics."""

from tfdml.zoo.entries import card, check, load
from tfdml.zoo.huggingface import pull, push
from tfdml.zoo.index import list_models
from tfdml.zoo.publishing import save
from tfdml.zoo.reproduction import evaluate

__all__ = [
    "card",
    "check",
    "evaluate",
    "list_models",
    "load",
    "pull",
    "push",
    "save",
]


def __dir__():
    return __all__
