"""The figures of the studies."""

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

from recipes.studies import deviation_of, mean_of

COLORS = ("#2a6f97", "#d1495b", "#2a9d4a", "#8a6fb0", "#c9842b", "#5c5c5c")


def curves(axis, groups, *, x, key="recall@1", marker="o"):
    """Draw a line for each group of rows: mean over rows of the same x, and their standard deviation as bars.

    Args:
        axis: where to draw.
        groups: dict of label to rows.
        x: the column along the axis.
        key: the column of the numbers, shares that are drawn in percent.
        marker: of the points; None for none.
    """
    for color, (label, rows) in zip(COLORS, groups.items(), strict=False):
        places = sorted({row[x] for row in rows})
        at = [[row for row in rows if row[x] == place] for place in places]
        means, deviations = ([of(rows, key) for rows in at] for of in (mean_of, deviation_of))
        axis.errorbar(places, means, deviations, label=label, color=color, marker=marker, markersize=4, capsize=2)


def save(path, axes, *, columns):
    """Draw with `axes(axis, ...)` on so many panels side by side and write the PNG."""
    figure, panels = plt.subplots(1, columns, figsize=(1.2 + 4.2 * columns, 3.6), squeeze=False)
    axes(*panels[0])
    for axis in panels[0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="0.92")
        axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
