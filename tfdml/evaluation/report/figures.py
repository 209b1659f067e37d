"""The figures of a page, drawn for light and for dark screens."""

import io
from typing import NamedTuple

import numpy as np

from tfdml._core.optional import new_figure


class Theme(NamedTuple):
    """Colors of a figure."""

    ink: str
    grid: str
    positive: str
    negative: str


LIGHT = Theme(ink="#1c2430", grid="#d5dae1", positive="#0b6bcb", negative="#c2410c")
DARK = Theme(ink="#e6e9ee", grid="#3a4350", positive="#6cb6ff", negative="#ff9e64")


def svg(draw, evaluation, theme):
    """A figure as the text of an SVG file; the same evaluation gives the same text.

    Args:
        draw: function of axes, evaluation and theme, such as `draw_recall`.
        evaluation: `Evaluation`.
        theme: `Theme`.
    """
    figure = new_figure("Evaluation.html", figsize=(5.2, 3.4))
    axes = figure.subplots()
    draw(axes, evaluation, theme)
    _set_theme(axes, theme)
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "tfdml"}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return file.getvalue()


def draw_recall(axes, evaluation, theme):
    """Recall@k over k."""
    axes.plot(evaluation.recall.x, 100 * evaluation.recall.y, color=theme.positive, linewidth=2)
    axes.set(xscale="log", xlabel="k", ylabel="Recall@k, %", ylim=(0, 102), xlim=(1, max(2, evaluation.recall.x[-1])))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()


def draw_precision_recall(axes, evaluation, theme):
    """Precision over recall."""
    x, y = evaluation.precision_recall
    axes.plot(100 * x, 100 * y, color=theme.positive, linewidth=2)
    axes.set(xlabel="recall, %", ylabel="precision, %", xlim=(0, 100), ylim=(0, 102))


def draw_similarities(axes, evaluation, theme):
    """Densities of the similarities of positive and of negative pairs."""
    edges, *counts = evaluation.similarities
    for kind, count, line in zip(("positive", "negative"), counts, ("-", "--"), strict=True):
        density = count / max(1, count.sum()) / np.diff(edges)
        style = {"color": getattr(theme, kind), "linestyle": line, "linewidth": 1.5}
        axes.stairs(density, edges, label=f"{kind} pairs", **style)
        axes.stairs(density, edges, fill=True, color=getattr(theme, kind), alpha=0.15)
    bins = np.flatnonzero(np.sum(counts, axis=0))
    axes.set(xlabel="cosine similarity", ylabel="density", xlim=(edges[bins[0]], edges[bins[-1] + 1]))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, labelcolor=theme.ink)


def _set_theme(axes, theme):
    """Set colors, grid and borders."""
    axes.grid(color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=theme.ink, which="both")
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(theme.ink)
    for edge, spine in axes.spines.items():
        spine.set_visible(edge in ("left", "bottom"))
        spine.set_color(theme.ink)
