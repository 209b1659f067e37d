"""Packages that only some functions need, with the figures of one of them; installed versions and hardware."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _AtFirstUse(ModuleType):
    """A module by its name, imported when one of its attributes is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(optional_import(self.__name__, feature="This function", extra=self.__name__), name)


tf: Any = _AtFirstUse("tensorflow")
"""TensorFlow, without which sets, embeddings and their pictures can be used on other backends."""


@functools.cache
def has_tensorflow() -> bool:
    """Whether TensorFlow is installed; elsewhere Pillow and NumPy read the images of a set."""
    return find_spec("tensorflow") is not None


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


def scann_module(module: str, *, feature: str, other: str) -> Any:
    """A module of ScaNN; the ImportError says which versions go together, and names another feature to use."""
    try:
        return getattr(importlib.import_module("scann"), module)
    except Exception as error:  # Operations built for another TensorFlow raise one of TensorFlow's own errors.
        raise ImportError(
            f"{feature} needs ScaNN, which did not import ({error}). ScaNN 1.4 requires TensorFlow 2.20, on Linux and "
            f"Python 3.11 to 3.13. Run: pip install tfdml[scann], which brings both. {other} needs no further package."
        ) from error


def new_figure(feature: str, **options: Any) -> Figure:
    """An empty matplotlib figure for the function of this name."""
    figure = optional_import("matplotlib.figure", feature=feature, extra="plots")
    return figure.Figure(layout="constrained", **options)


def new_panels(feature: str, titles: Sequence[str], size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """A figure of one panel per title, four in a row, each of this width and height in inches; and the panels."""
    columns = min(len(titles), 4)
    rows = -(-len(titles) // columns)
    figure = new_figure(feature, figsize=(size[0] * columns, size[1] * rows))
    panels = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for panel, title in zip(panels, titles, strict=False):
        panel.set_title(title, fontsize=10)
    for panel in panels[len(titles) :]:
        panel.remove()
    return figure, panels[: len(titles)]


def environment(*packages: str) -> dict[str, str]:
    """Hardware and package versions, to report with every published number.

    Example:

        >>> facts = tfdml.environment()
        >>> sorted(facts)
        ['hardware', 'versions']
        >>> facts["versions"]
        '... keras 3... numpy ...'

    Args:
        packages: further installed distributions, beside numpy and, if they are installed, tensorflow and keras.

    Returns:
        dict of two strings: `hardware` (processor, cores available to this process, memory) and `versions`.
    """
    names = dict.fromkeys(["tfdml", *filter(_is_there, ("tensorflow", "keras")), "numpy", *packages])
    versions = [f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in names)]
    return {"hardware": _hardware(), "versions": ", ".join(versions)}


def _is_there(name):
    return sys.modules.get(name) is not None or any(importlib.metadata.distributions(name=name))


def version(name: str) -> str:
    """The version that an imported package states, else the version of the installed distribution of this name.

    A nightly build has a distribution of another name, and a package that is read from its sources has none.
    """
    stated = getattr(sys.modules.get(name), "__version__", None)
    return stated if isinstance(stated, str) else importlib.metadata.version(name)


def _hardware():
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), cpu)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cpu}, {cores} cores, {memory:.0f} GiB"
