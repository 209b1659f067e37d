"""Three sets of points that NMI, F1 and Recall@1 cannot tell apart, and MAP@R can: the figure of docs/metrics.md.

    python -m studies.equal_scores    # draws docs/images/equal-scores.png

Two classes are squares of 15 x 15 points, farther and farther apart. Every nearest neighbor is of the right class, and
k-means finds both classes. Points at an edge have neighbors of the other class among their 224 nearest, unless the gap
is as wide as a square.
"""

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import tfdml
from studies import figures, pages

GAPS = (0.15, 0.4, 1.5)  # between squares of side 1
SIDE = 15


def points(gap):
    """Points `(450, 2)` of two squares of side 1, and their classes."""
    x, y = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE))
    square = np.stack([x.ravel(), y.ravel()], axis=1)
    return np.concatenate([square, square + np.array([1 + gap, 0])]), np.repeat([0, 1], SIDE**2)


def scores(gap):
    """NMI and F1 of k-means, Recall@1 and MAP@R."""
    x, labels = points(gap)
    clustered = tfdml.metrics.clustering(x, labels, metric="euclidean", restarts=5)
    found = clustered | tfdml.metrics.retrieval(x, labels, k=(1,), metric="euclidean")
    return {"NMI": found["nmi"], "F1": found["f1"], "Recall@1": found["recall@1"], "MAP@R": found["map@r"]}


def draw(path):
    """The three sets, with their scores in percent."""
    figure, axes = plt.subplots(len(GAPS), figsize=(6, 6), sharex=True)
    for axis, gap in zip(axes, GAPS, strict=True):
        x, labels = points(gap)
        for label, color in zip((0, 1), figures.COLORS, strict=False):
            axis.plot(*x[labels == label].T, ".", color=color, markersize=3)
        axis.set_title(", ".join(f"{name} {100 * score:.1f}" for name, score in scores(gap).items()), fontsize=9)
        axis.set_aspect("equal")
        axis.set_axis_off()
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    draw(pages.IMAGES / "equal-scores.png")
