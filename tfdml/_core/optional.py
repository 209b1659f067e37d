"""Packages that only some functions need, and the figures of one of them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _AtFirstUse(ModuleType):
    """A module by its name, imported when one of its attributes is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


tf: Any = _AtFirstUse("tensorflow")
"""TensorFlow, without which sets, embeddings and their pictures can be used on other backends."""


def optional_import(module: str, *, feature: str, extra: str) -> Any:
    """A module, imported when the `feature` needs it; the ImportError names the extra of tfdml that installs it."""
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{feature} needs {package}: pip install tfdml[{extra}].") from error


def optional_packages(packages: Sequence[str], *, feature: str, extra: str) -> None:
    """Raise an ImportError that names all packages which are not installed, and the extra that brings them."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ImportError(f"{feature} needs {' and '.join(missing)}: pip install tfdml[{extra}].")


def new_figure(feature: str, **options: Any) -> Figure:
    """An empty matplotlib figure for the function of this name."""
    figure = optional_import("matplotlib.figure", feature=feature, extra="plots")
    return figure.Figure(layout="constrained", **options)
