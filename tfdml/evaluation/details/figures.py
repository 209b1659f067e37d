"""The figures of a page, drawn for light and for dark screens."""

import io
import itertools
from typing import NamedTuple

import numpy as np

from tfdml._core.optional import new_figure

_LINES = (("positive", "-"), ("negative", "--"), ("ink", ":"), ("negative", "-."), ("ink", "--"), ("negative", ":"))


class Theme(NamedTuple):
    """Colors of a figure."""

    ink: str
    grid: str
    positive: str
    negative: str


LIGHT = Theme(ink="#1c2430", grid="#d5dae1", positive="#0b6bcb", negative="#c2410c")
DARK = Theme(ink="#e6e9ee", grid="#3a4350", positive="#6cb6ff", negative="#ff9e64")


def svg(draw, details, theme):
    """A figure of `Details` by model, by a function such as `draw_recall`: an SVG, the same in every call."""
    figure = new_figure("Evaluation.html", figsize=(5.2, 3.4))
    axes = figure.subplots()
    draw(axes, details, theme)
    _set_theme(axes, theme)
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "tfdml"}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return file.getvalue()


def draw_recall(axes, details, theme):
    """Recall@k over k."""
    curves = {name: (each.recall.x, 100 * each.recall.y) for name, each in details.items()}
    _plot(axes, curves, theme)
    last = max(x[-1] for x, _ in curves.values())
    axes.set(xscale="log", xlabel="k", ylabel="Recall@k, %", ylim=(0, 102), xlim=(1, max(2, last)))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()


def draw_precision_recall(axes, details, theme):
    """Precision over recall."""
    curves = {name: [100 * each.precision_recall[i] for i in (0, 1)] for name, each in details.items()}
    _plot(axes, curves, theme)
    axes.set(xlabel="recall, %", ylabel="precision, %", xlim=(0, 100), ylim=(0, 102))


def draw_similarities(axes, details, theme, shared):
    """Densities of the similarities of the pairs of one model; all `shared` details have the same axes."""
    (first,) = details.values()
    edges = first.similarities.edges
    for kind, density, line in zip(("positive", "negative"), _densities(first), ("-", "--"), strict=True):
        style = {"color": getattr(theme, kind), "linestyle": line, "linewidth": 1.5}
        axes.stairs(density, edges, label=f"{kind} pairs", **style)
        axes.stairs(density, edges, fill=True, color=getattr(theme, kind), alpha=0.15)
    densities = np.concatenate([_densities(each) for each in shared])
    bins = np.flatnonzero(densities.any(axis=0))
    axes.set(xlabel="cosine similarity", ylabel="density", xlim=(edges[bins[0]], edges[bins[-1] + 1]))
    axes.set_ylim(0, 1.05 * densities.max())
    axes.legend(frameon=False, labelcolor=theme.ink)


def _densities(details):
    """`(2, bins)`: of the positive and of the negative pairs, over the edges that all evaluations have."""
    edges, *counts = details.similarities
    return np.stack([count / max(1, count.sum()) / np.diff(edges) for count in counts])


def _plot(axes, curves, theme):
    """Curves by name, the first one as a solid line; a legend for two or more."""
    for (name, (x, y)), (color, line) in zip(curves.items(), itertools.cycle(_LINES), strict=False):
        label = " " + name.replace("$", r"\$")  # matplotlib leaves out names that begin with _, and sets $ as formulas
        axes.plot(x, y, color=getattr(theme, color), linestyle=line, linewidth=2, label=label)
    if len(curves) > 1:
        axes.legend(frameon=False, labelcolor=theme.ink)


def _set_theme(axes, theme):
    axes.grid(color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=theme.ink, which="both")
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(theme.ink)
    for edge, spine in axes.spines.items():
        spine.set_visible(edge in ("left", "bottom"))
        spine.set_color(theme.ink)
