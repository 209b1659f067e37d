"""Figures, which need matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(name: str, **options: Any) -> Figure:
    """An empty matplotlib figure for the function of this name.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"{name} needs matplotlib: pip install tfdml[plots].") from error
    return Figure(layout="constrained", **options)
