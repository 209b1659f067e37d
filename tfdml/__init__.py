"""Deep metric learning for Keras 3 and TensorFlow: pairs, pair weights, losses.

Two floors. The library, functions and classes for your own programs:
    learn    `losses`, `miners`, `layers`, `pairs`, `importance`, `samplers`, `models`, `networks`, `callbacks`
    measure  `metrics`, `evaluation`, `analysis`, `visualize`
    use      `datasets`, `search`, `export`, `zoo`, `addons`
The product, whole programs that are built from it, with the command `tfdml`:
    run      `training`, `serving`, `cleaning`, `distributed`; migrations, vectors on disk and cross-validation
No module of the library imports the product.

Subpackages are imported on first use. `metrics`, `search` and the comparisons of `evaluation` need no Keras.
`pairs`, `layers`, `losses`, `addons`, `miners`, `importance`, `networks` and `models` run on any Keras backend; tfdml
imports them as soon as Keras is imported, so that saved models find their classes. `datasets`, `samplers`, `callbacks`,
`analysis`, `visualize`, `zoo` and `training` run on any backend, too, and read images by Pillow where TensorFlow is not
installed. The others also need TensorFlow.

A `ValueError` says which argument has another type or shape, is out of range, not finite, too small for its use or a
damaged file. A missing package is an `ImportError` that names the extra to install. `Raises:` lists other errors.
"""

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from wrapt import register_post_import_hook

from tfdml._core.optional import environment

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


_BACKENDS = ("tensorflow", "jax", "torch")
_SAVED = ("addons", "importance", "layers", "losses", "miners", "models", "networks", "pairs")


def __getattr__(name: str) -> Any:
    if name == "evaluate":
        return importlib.import_module("tfdml.evaluation").evaluate
    if name not in __all__:
        raise AttributeError(f"module 'tfdml' has no attribute {name!r}; it has {', '.join(__all__)}.")
    try:
        return importlib.import_module(f"tfdml.{name}")
    except ModuleNotFoundError as error:
        if error.name not in ("keras", *_BACKENDS):
            raise
        raise ImportError(_missing(name, error.name)) from error


def _missing(room: str, package: str) -> str:
    """The text of the error for a package of a subpackage that is not installed."""
    chosen = os.environ.get("KERAS_BACKEND", "tensorflow")
    extra = next((name for name in (package, chosen) if name in _BACKENDS), "tensorflow")
    is_choice = room in _SAVED and package in _BACKENDS
    other = " Or set KERAS_BACKEND to a backend of Keras that is there." if is_choice else ""
    return f"tfdml.{room} needs {package}, which is not installed: pip install tfdml[{extra}].{other}"


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _import_saved(imported: ModuleType) -> None:
    """Import all classes of saved models, if Keras is there and no other module of tfdml is just being imported."""
    others = [module for name, module in sys.modules.items() if name.startswith("tfdml.") and module is not imported]
    is_busy = any(getattr(module.__spec__, "_initializing", False) for module in others)
    if sys.modules.get("keras") is not None and not is_busy:
        for name in _SAVED:
            importlib.import_module(f"tfdml.{name}")


for _name in ("keras", *(f"tfdml.{name}" for name in __all__)):
    register_post_import_hook(_import_saved, _name)
