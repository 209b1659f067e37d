"""Deep metric learning for Keras 3 and TensorFlow: pairs, pair weights, losses.

`pairs`, `layers`, `losses`, `addons`, `miners`, `importance`, `networks` and `models` run on any Keras backend and are
imported at once, so that saved models find their classes. The other subpackages are imported on first use.

A `ValueError` says which argument has another type or shape, is out of range, not finite, too small for its use or a
damaged file. A missing package is an `ImportError` that names the extra to install. `Raises:` lists other errors.
"""

import importlib
from typing import Any

from tfdml import addons, importance, layers, losses, miners, models, networks, pairs
from tfdml._core.environment import environment

__version__ = "0.2.0"
__all__ = [
    "addons",
    "analysis",
    "callbacks",
    "cleaning",
    "datasets",
    "distributed",
    "environment",
    "evaluate",
    "evaluation",
    "export",
    "importance",
    "layers",
    "losses",
    "metrics",
    "miners",
    "models",
    "networks",
    "pairs",
    "samplers",
    "search",
    "serving",
    "training",
    "visualize",
    "zoo",
]


def __getattr__(name: str) -> Any:
    if name == "evaluate":
        return importlib.import_module("tfdml.evaluation").evaluate
    if name in __all__:
        return importlib.import_module(f"tfdml.{name}")
    raise AttributeError(f"module 'tfdml' has no attribute {name!r}; it has {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
