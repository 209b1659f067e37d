"""Line figures with error bars, and how figures are saved."""

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

from studies.runner import deviation_of, mean_of

COLORS = ("#2a6f97", "#d1495b", "#2a9d4a", "#8a6fb0", "#c9842b", "#5c5c5c", "#1b1b4b")


def curves(axis, groups, *, x, key="recall@1", marker="o", linestyle="-"):
    """Draw one line per group of rows: the mean over rows of the same x, with standard deviations as error bars.

    Args:
        axis: Matplotlib axis.
        groups: dict of label to rows.
        x: column of the horizontal axis.
        key: column of the numbers, which are drawn in percent.
        marker: marker of the points, or None.
        linestyle: of the lines.
    """
    for color, (label, rows) in zip(COLORS, groups.items(), strict=False):
        values = sorted({row[x] for row in rows})
        rows_at = [[row for row in rows if row[x] == value] for value in values]
        means, deviations = ([summary(same, key) for same in rows_at] for summary in (mean_of, deviation_of))
        axis.errorbar(
            values,
            means,
            deviations,
            label=label,
            color=color,
            marker=marker,
            markersize=4,
            capsize=2,
            linestyle=linestyle,
        )


def save(path, draw, *, columns):
    """Write a PNG of `columns` panels side by side, which `draw(*axes)` fills."""
    figure, panels = plt.subplots(1, columns, figsize=(1.2 + 4.2 * columns, 3.6), squeeze=False)
    draw(*panels[0])
    for axis in panels[0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="0.92")
        axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
